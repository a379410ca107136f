"""Run the rivals, each in a separate environment, and stop one that takes too long."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {
    "celery_chord": ("celery==5.7.0", "redis==8.1.0", "packaging==26.3"),
    "dbos_queue": ("dbos==3.4.0",),
    "durabletask_units": ("durabletask==1.12.0",),
}
WORKERS = 2

SETTING_UP_SECONDS = 60.0
"""Beyond a rival's own time: its environment is made, its broker and its workers start."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a batch of a rival went: its seconds, or why there are none."""

    seconds: float | None
    reason: str = ""

    def line(self, rival: str, units: int) -> str:
        """Return the line of the table."""
        shown = f"{self.seconds:>8.2f} s {units / self.seconds:>7.0f}/s" if self.seconds else f"  {self.reason}"
        return f"{units:>7,} units {shown}   {rival}"


def runs(sizes: Sequence[int], seconds_max: float) -> Iterator[tuple[str, int, Ran]]:
    """Run each rival with each size, until a size takes it too long; iterate over rival, units and how it went."""
    for rival in PACKAGES:
        for units in sizes:
            ran = run(rival, units, seconds_max)
            yield rival, units, ran
            if ran.seconds is None:
                break


def run(rival: str, units: int, seconds_max: float) -> Ran:
    """Run a rival with so many units, and end it and all that it has started."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    packages = [part for package in PACKAGES[rival] for part in ("--with", package)]
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable, *packages]
    script = str(Path(__file__).with_name(f"{rival}.py"))
    process = subprocess.Popen(
        [*command, "python", script, str(units), str(WORKERS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=SETTING_UP_SECONDS + seconds_max)
    except subprocess.TimeoutExpired:
        return Ran(None, f"stopped after {seconds_max:.0f} s")
    finally:
        _end_session(process)
    return Ran(float(printed.split()[-1])) if process.returncode == 0 else Ran(None, "not to be had here")


def _end_session(process: "subprocess.Popen[str]") -> None:
    """Kill what is left of a rival: its broker and its workers are in its session's first group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
