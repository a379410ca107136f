"""Write the golden records of the next release; or keep this release as the last one, when its version is published.

python -m tests.compatibility            after a change of a record or a task, which the diff shows
python -m tests.compatibility --publish  keep its library and its golden records
"""

import argparse
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from signalbox.catalogue.version import VERSION
from tests.compatibility import golden_records
from tests.compatibility.last_release import SNAPSHOT

LIBRARY = Path(__file__).resolve().parents[2] / "shared" / "signalbox"
LEFT_OUT = {"catalogue", "testing"}


def kept() -> list[Path]:
    """Return the files of the library that a function may have in its zip."""
    paths = sorted(path.relative_to(LIBRARY) for path in LIBRARY.rglob("*.py"))
    return [path for path in paths if not LEFT_OUT & set(path.parts)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="keep this release as the last one")
    publish = parser.parse_args().publish
    golden_records.write(
        golden_records.UNRELEASED, golden_records.Collection.of_worlds(golden_records.SEEDS).examples()
    )
    print(f"{golden_records.UNRELEASED.name}: {golden_records.UNRELEASED.stat().st_size:,} bytes")
    if publish:
        golden_records.UNRELEASED.rename(golden_records.FOLDER / f"{VERSION}.json")
        keep_library()
    return 0


def keep_library() -> None:
    """Write the library of this release into the snapshot."""
    with tarfile.open(SNAPSHOT, "w:xz") as archive:
        for path in kept():
            data = (LIBRARY / path).read_bytes()
            member = tarfile.TarInfo(f"signalbox/{path.as_posix()}")
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
    print(f"{SNAPSHOT.name}: {SNAPSHOT.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
