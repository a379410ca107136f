"""Build ``dist/NAME.zip`` of the catalogue's functions and print the size and digest of each.

Exit status 1: a function cannot be packaged, or the catalogue is invalid; nothing is written then. 2: a wrong
command line.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from signalbox.catalogue.reading import Catalogue, CatalogueError, load
from signalbox_infra.packaging.imports import PackagingError
from signalbox_infra.packaging.package import Written, package, write
from signalbox_infra.packaging.schedules import check_schedules

SHA256_SHOWN = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m signalbox_infra.packaging", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="functions of the catalogue (default: all)")
    parser.add_argument("--out", type=Path, help="folder for the zips (default: dist in the project)")
    parser.add_argument("--catalogue", type=Path, help="another catalogue.yaml")
    options = parser.parse_args(arguments)
    try:
        catalogue = load(options.catalogue)
        if unknown := sorted(set(options.names) - set(catalogue.functions)):
            parser.error(f"not in the catalogue: {', '.join(unknown)}")
        sys.stdout.write(table(build(catalogue, options.names, options.out or catalogue.root / "dist")))
    except (PackagingError, CatalogueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def build(catalogue: Catalogue, names: Sequence[str], out: Path) -> list[Written]:
    """Package the named functions, or all, and write the zips if every function could be packaged."""
    functions = [catalogue.functions[name] for name in sorted(names or catalogue.functions)]
    for function in functions:
        check_schedules(function, list(catalogue.schedules.values()))
    packages = [package(function, catalogue.kit or catalogue.root) for function in functions]
    return [write(built, out) for built in packages]


def table(zips: Sequence[Written]) -> str:
    """Return a table of the zips: name, number of files, bytes, and the start of the SHA-256."""
    width = max([len("function"), *(len(zipped.name) for zipped in zips)])
    header = f"{'function':{width}}  files    bytes  sha256"
    rows = (
        f"{zipped.name:{width}}  {zipped.files:5}  {zipped.size_bytes:7}  {zipped.sha256[:SHA256_SHOWN]}"
        for zipped in zips
    )
    return "\n".join((header, *rows)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
