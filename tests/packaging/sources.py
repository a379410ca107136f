"""A copy of all that the zips are made from, from the folders that the catalogue names."""

import shutil
from pathlib import Path

from signalbox.catalogue.reading import load

PROJECT = Path(__file__).resolve().parents[2]
ALWAYS = {"functions", "shared", "infra"}  # functions/ has the lock too, and infra/ the catalogue


def copy_of_the_project(target: Path) -> Path:
    """Copy it into a folder; return that folder."""
    folders = {function.folder.relative_to(PROJECT).parts[0] for function in load().functions.values()}
    for part in sorted(ALWAYS | folders):
        shutil.copytree(PROJECT / part, target / part, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return target
