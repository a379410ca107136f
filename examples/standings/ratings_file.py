"""The ratings of MovieLens, out of a package of PyPI that has them among its examples.

It is not a dependency of the project: this example downloads it into a separate folder.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).parent / "ratings.txt"
FOLDER = ROOT / ".local" / "ratings"
FILE = FOLDER / "recbole" / "dataset_example" / "ml-100k" / "ml-100k.inter"


def ratings_file() -> Path:
    """Return the file, fetched if it is not there yet. Raises `CalledProcessError` if the package cannot be had."""
    if not FILE.exists():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
        exactly = ("--no-deps", "--require-hashes", "--target", str(FOLDER), "-r", str(REQUIREMENTS))
        subprocess.run((*pip, *exactly), check=True)  # noqa: S603  a list, no shell
    return FILE
