"""Print the catalogue with what follows from the code, and from where, and write its lock (``make catalogue``).

python -m signalbox_infra.setup.catalogue_lock
"""

import sys
from pathlib import Path

from signalbox.catalogue.reading import CATALOGUE, CatalogueError, load
from signalbox.catalogue.writing import lock, lock_of, written


def main(file: Path = CATALOGUE) -> int:
    """Run the command and return its exit status: 1 for a catalogue that contradicts itself or the code."""
    try:
        sys.stdout.write(written(load(file), places=True))
        changed = lock(file)
    except CatalogueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"# {lock_of(file).name} {'has changed: commit it' if changed else 'is up to date'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
