"""Keep this release as the last one: run it when a version is released, after the golden records are written.

python -m tests.compatibility
"""

import sys
import tarfile
from io import BytesIO
from pathlib import Path

from tests.compatibility.last_release import SNAPSHOT

LIBRARY = Path(__file__).resolve().parents[2] / "shared" / "signalbox"
LEFT_OUT = {"catalogue", "testing"}


def kept() -> list[Path]:
    """Return the files of the library that a function may have in its zip."""
    paths = sorted(path.relative_to(LIBRARY) for path in LIBRARY.rglob("*.py"))
    return [path for path in paths if not LEFT_OUT & set(path.parts)]


def main() -> int:
    with tarfile.open(SNAPSHOT, "w:xz") as archive:
        for path in kept():
            data = (LIBRARY / path).read_bytes()
            member = tarfile.TarInfo(f"signalbox/{path.as_posix()}")
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
    print(f"{SNAPSHOT.name}: {SNAPSHOT.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
