"""Read the files that make up a function's folder."""

from collections.abc import Iterator
from pathlib import Path

from infra.packaging.requirements import REQUIREMENTS

LEFT_OUT = frozenset({(REQUIREMENTS,), ("requirements.in",)})
"""The zip gets one requirements.txt, made of this and the functions' lock."""


def own_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a function's folder by path, without hidden files, caches, backups and documentation."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _own_files(folder)}


def _own_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        left_out = any(part.startswith(".") or part == "__pycache__" for part in parts)
        left_out |= path.name.endswith(("~", ".pyc", ".md")) or parts in LEFT_OUT
        if not left_out and path.is_file():
            yield path
