"""Build ``NAME.zip`` of the catalogue's functions and describe the size and digest of each."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from signalbox.catalogue.reading import Catalogue
from signalbox_tools.packaging.source_zip import Written, package, write

SHA256_SHOWN = 12


def build(catalogue: Catalogue, names: Sequence[str], out: Path) -> list[Written]:
    """Package the named functions, or all, and write the zips if every function could be packaged."""
    functions = [catalogue.functions[name] for name in sorted(names or catalogue.functions)]
    packages = [package(function, catalogue.kit or catalogue.root) for function in functions]
    return [write(built, out) for built in packages]


def build_all(catalogues: Iterable[Catalogue], names: Sequence[str], out: Path) -> list[Written]:
    """Package the named functions, or all, of several databases. A function of the kit has one zip."""
    written: dict[str, Written] = {}
    for catalogue in catalogues:
        own = [name for name in names or catalogue.functions if name in catalogue.functions and name not in written]
        written |= {zipped.name: zipped for zipped in (build(catalogue, own, out) if own else ())}
    return [written[name] for name in sorted(written)]


def table(zips: Sequence[Written]) -> str:
    """Return a table of the zips: name, number of files, bytes, and the start of the SHA-256."""
    width = max([len("function"), *(len(zipped.name) for zipped in zips)])
    header = f"{'function':{width}}  files    bytes  sha256"
    rows = (
        f"{zipped.name:{width}}  {zipped.files:5}  {zipped.size_bytes:7}  {zipped.sha256[:SHA256_SHOWN]}"
        for zipped in zips
    )
    return "\n".join((header, *rows)) + "\n"


def to_json(zips: Sequence[Written]) -> str:
    """Return the description of the zips as JSON: a list of ``{name, files, size_bytes, sha256}``."""
    return json.dumps([asdict(zipped) for zipped in zips], indent=2)
