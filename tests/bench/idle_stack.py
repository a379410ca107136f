"""Measure what a local stack costs that does nothing, and its start: ``python -m tests.bench.idle_stack [seconds]``.

Prints the processor time of each of its processes, as a share of one core, the sum, and the memory, on Linux. The first
half minute, in which the sweeper has not slowed down yet, is left out. Then the time until ``signalbox dev`` answers.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from signalbox_tools.local.stack import Stack
from tests.bench.figures import Figure
from tests.bench.first_answer import median_seconds

SETTLE_SECONDS = 35
SECONDS = 60
SHOWN = 70
STARTS = 3
MIB = 1_024 * 1_024


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="signalbox-idle-") as folder, Stack(folder=Path(folder)):
        time.sleep(SETTLE_SECONDS)
        before = {pid: used(pid) for pid in family()}
        time.sleep(seconds)
        spent = {command: used(pid) - before.get(pid, 0) for pid, command in family().items()}
        memory = sum(map(memory_bytes, family()))
    for command, share in spent.items():
        sys.stdout.write(f"{share / seconds:8.2%}  {command[:SHOWN]}\n")
    share = sum(spent.values()) / seconds
    sys.stdout.write(f"{share:8.2%}  of a core in all\n")
    sys.stdout.write(f"{memory / MIB:8,.0f}  MiB, pages that several processes share counted once\n")
    sys.stdout.write(Figure("a stack that does nothing", 100 * share, "% of a core", "one core", 100).line() + "\n")
    answer, bare = median_seconds(STARTS)
    sys.stdout.write(Figure("the first answer of signalbox dev", answer, "s", "starting Python", bare).line() + "\n")


def family() -> dict[int, str]:
    """Return this process and all below it, with their commands."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    names = {int(pid): command for pid, _, command in rows}
    return {pid: f"{pid} {Path(names[pid].split()[0]).name} {names[pid].partition(' ')[2]}" for pid in sorted(found)}


def memory_bytes(pid: int) -> int:
    """Return the memory of a process, and its share of the pages that several processes have; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1_024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def used(pid: int) -> float:
    """Return the seconds of processor time that a process has used; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
