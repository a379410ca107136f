"""The schedules of the local stack in its console: a file in the stack's folder pauses one."""

from pathlib import Path

import pytest

from signalbox_tools.local.functions import spans
from signalbox_tools.local.functions.console import LocalSchedules
from signalbox_tools.local.scheduler import PAUSED_FILE


def test_a_schedule_is_paused_by_a_file_in_the_folder_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules = LocalSchedules()
    monkeypatch.delenv(spans.VARIABLE, raising=False)
    assert schedules.paused() == []
    with pytest.raises(OSError, match="without a stack"):
        schedules.pause("sweep")
    monkeypatch.setenv(spans.VARIABLE, str(tmp_path / spans.FILE))
    schedules.pause("sweep")
    assert (schedules.paused(), (tmp_path / PAUSED_FILE.format("sweep")).exists()) == (["sweep"], True)
    schedules.resume("sweep")
    schedules.resume("sweep")
    assert schedules.paused() == []
