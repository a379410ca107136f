"""Which Firestore emulator a machine uses: one that its Java can run, by what the jar was compiled for."""

import struct
import sys
import zipfile
from pathlib import Path

import pytest

from signalbox_tools.local.store import firestore_emulator
from signalbox_tools.local.store.firestore_emulator import (
    JAR_IN_SDK,
    MAIN_CLASS,
    Emulator,
    EmulatorError,
    find_installed,
)

MAJOR_VERSIONS = {17: 61, 21: 65}
"""Of class files, as The Java Virtual Machine Specification lists them."""


def jar(path: Path, java: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        header = struct.pack(">IHH", 0xCAFEBABE, 0, MAJOR_VERSIONS[java])
        archive.writestr(f"{MAIN_CLASS.replace('.', '/')}.class", header)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the Cloud SDK's emulator for Java 21, and an older one of Firebase's for Java 17."""
    jar(tmp_path / "sdk" / JAR_IN_SDK, 21)
    jar(tmp_path / "firebase" / "cloud-firestore-emulator-v1.19.8.jar", 17)
    monkeypatch.setattr(firestore_emulator, "SDK_HOMES", (str(tmp_path / "sdk"),))
    monkeypatch.setattr(firestore_emulator, "FIREBASE_CACHE", str(tmp_path / "firebase"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    for name in ("CLOUDSDK_ROOT_DIR", "FIRESTORE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def java(machine: Path, version: str) -> None:
    script = machine / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    script.chmod(0o755)


@pytest.mark.parametrize(("version", "found"), [("21.0.2", "sdk"), ("17.0.15", "firebase"), ("25", "sdk")])
def test_an_emulator_that_this_java_can_run_is_used(machine: Path, version: str, found: str) -> None:
    java(machine, version)
    emulator = find_installed()
    assert emulator is not None
    assert emulator.jar is not None
    assert emulator.jar.is_relative_to(machine / found)


def test_no_emulator_is_found_for_an_older_java_or_a_broken_jar(machine: Path) -> None:
    java(machine, "1.8.0_392")
    assert find_installed() is None
    java(machine, "17.0.15")
    (machine / "firebase" / "cloud-firestore-emulator-v1.19.8.jar").write_bytes(b"no jar")
    assert find_installed() is None


@pytest.mark.parametrize("java", ["echo half >$archive; kill -9 $$", "exit 143"], ids=["is killed", "writes none"])
def test_half_an_archive_of_classes_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str) -> None:
    """Java writes the archive as it ends, and crashes when it loads half of one."""
    script, prefix = tmp_path / "java", tmp_path / "prefix"
    script.write_text(f"#!/bin/sh\narchive=${{1#*=}}\n{java}\n")
    script.chmod(0o755)
    prefix.mkdir()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(firestore_emulator, "_wait_until_ready", lambda running, _: running.process.wait())
    monkeypatch.setattr(firestore_emulator, "_load_classes", lambda _: None)
    with pytest.raises(EmulatorError, match="did not write the archive"):
        Emulator(str(script), tmp_path / "jar").archive_classes()
    assert list(prefix.iterdir()) == []
