"""Print the folders of a user's own functions, those outside `functions/` and `examples/`: for the Makefile."""

import sys
from pathlib import Path

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.project import Project

OF_THE_KIT = ("functions", "examples")


def own_folders(catalogue: catalogues.Catalogue) -> list[str]:
    """Return the folders of users' functions below the project, relative to it, without repetitions."""
    inside = (each.folder for each in catalogue.functions.values() if each.folder.is_relative_to(catalogue.root))
    relative = {str(folder.relative_to(catalogue.root)) for folder in inside if folder.is_dir()}
    return sorted(folder for folder in relative if Path(folder).parts[0] not in OF_THE_KIT)


def main() -> int:
    try:
        file = Project.find().catalogue
        all_of = catalogues.load_all(file)
        sys.stdout.write(" ".join(sorted({folder for each in all_of for folder in own_folders(each)})) + "\n")
    except (catalogues.CatalogueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
