"""YAML files of the project, each read once in a process."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache
def read_yaml(path: Path) -> Any:
    """Return the content of a file. Do not change it: others get the same."""
    return yaml.load(path.read_text("utf-8"), LOADER)  # noqa: S506  a safe loader
