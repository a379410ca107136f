"""Cut a traceback, given as text, to the frames of the user's code.

Frames of the kit, of installed packages and of Python's library do not help the author of a function. A traceback
without a frame of the user's code is an error of the kit or of the project's setup, and is not cut.
"""

import re
from collections.abc import Iterator

from signalbox.catalogue.project import KIT, Project

FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)')
BELOW_A_FRAME = ("    ", "  [Previous line repeated")
START = "Traceback (most recent call last):"

OF_THE_KIT = ("shared/signalbox/", "shared/signalbox_tools/", "functions/", ".venv/")
"""The kit's folders in its repository."""

NOT_OWN = re.compile(r"^<|/(site|dist)-packages/|/lib/python3\.\d+/|^/workspace/signalbox/")
"""Files outside the repository that users did not write: modules without a file, packages, a container's library."""


def is_own(file: str) -> bool:
    """Return whether a file is code of users."""
    inside = file.removeprefix(f"{KIT.root}/")
    return not inside.startswith(OF_THE_KIT) if inside != file else not NOT_OWN.search(file)


def cut(trace: str) -> str:
    """Return a traceback with only the user's frames, or the whole traceback if it has none."""
    lines = trace.splitlines()
    files = _files(lines)
    left_out = len(files) - sum(map(is_own, files))
    if left_out in (0, len(files)):
        return trace
    frames = "frame" if left_out == 1 else "frames"
    start = f"Traceback (most recent call last; LOG=full shows {left_out} {frames} of the kit and of packages too):"
    root = Project.find().root
    kept = [line.replace(f'"{root}/', '"') if FRAME.match(line) else line for line in _own_lines(lines)]
    if START in kept:
        kept[kept.index(START)] = start
    return "\n".join(kept)


def has_own_frame(trace: str) -> bool:
    """Return whether a frame of a traceback is in code of users."""
    return any(map(is_own, _files(trace.splitlines())))


def _files(lines: list[str]) -> list[str]:
    return [found["file"] for line in lines if (found := FRAME.match(line))]


def summary(trace: str) -> str:
    """Return the last line of a traceback, after the last place in users' code, or else in the project."""
    lines = trace.rstrip().splitlines() or ["unknown error"]
    frames = [found for line in lines if (found := FRAME.match(line))]
    root = Project.find().root
    inside = [frame for frame in frames if frame["file"].startswith(f"{root}/") and "/.venv/" not in frame["file"]]
    places = [frame for frame in frames if is_own(frame["file"])] or inside
    return f"{places[-1]['file'].removeprefix(f'{root}/')}:{places[-1]['line']}: {lines[-1]}" if places else lines[-1]


def _own_lines(lines: list[str]) -> Iterator[str]:
    """Iterate over the lines of users' frames, without the start of a traceback that has none."""
    pending, is_kept = "", True
    for line in lines:
        if line == START:
            pending, is_kept = line, True
        elif frame := FRAME.match(line):
            is_kept = is_own(frame["file"])
        elif not line.startswith(BELOW_A_FRAME):
            pending, is_kept = "", True
        if is_kept and line != START:
            if pending and FRAME.match(line):
                yield pending
                pending = ""
            yield line
