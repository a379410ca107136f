"""The variables of a call of make, as a program's options."""

import os
from collections.abc import Sequence


def options_of_make(*names: str) -> Sequence[str]:
    """Return the options that the environment sets: ``--seats=7`` for SEATS."""
    return [f"--{name.lower()}={os.environ[name]}" for name in names if os.environ.get(name)]
