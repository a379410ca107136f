"""The emulator starts from the archive of its classes that the set-up makes."""

import sys
from pathlib import Path

import pytest

from signalbox_tools.local.store import firestore_emulator
from tests.required_programs import EMULATOR

pytestmark = pytest.mark.marathon  # without an archive the emulator only starts more slowly


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files that a process has mapped")
def test_java_loads_the_emulator_from_its_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EMULATOR.require()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    emulator = firestore_emulator.find_installed()
    assert emulator
    emulator.archive_classes()
    assert list(tmp_path.iterdir()) == [emulator.class_archive]
    with emulator.start() as running:
        assert str(emulator.class_archive) in Path(f"/proc/{running.pid}/maps").read_text()
