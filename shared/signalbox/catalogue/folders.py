"""Read the files that make up a function's folder."""

from collections.abc import Iterator
from pathlib import Path

REQUIREMENTS = "requirements.txt"

LEFT_OUT = frozenset({(REQUIREMENTS,), ("requirements.in",), ("package.json",), ("package-lock.json",)})
"""Not packaged: a zip's requirements.txt is made from this one and the functions' lock; npm's files are for pages."""

CACHES = frozenset({"__pycache__", "node_modules"})


def own_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a function's folder by path, without hidden files, caches, backups, documents and tests."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _own_files(folder)}


def _own_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        left_out = any(part.startswith(".") or part in CACHES for part in parts)
        left_out |= path.name.endswith(("~", ".pyc", ".md")) or parts in LEFT_OUT or is_test(path)
        if not left_out and path.is_file():
            yield path


def python_files(folder: Path) -> dict[str, bytes]:
    """Return the Python files of a function's folder by path."""
    return {path: content for path, content in own_files(folder).items() if path.endswith(".py")}


def is_test(path: Path) -> bool:
    """Return whether a file is a test next to the code: pytest runs it, and no zip contains it."""
    return path.name == "conftest.py" or (path.name.startswith("test_") and path.suffix == ".py")
