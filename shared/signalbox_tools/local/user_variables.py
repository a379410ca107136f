"""The variables of users' functions on this machine: `env` of the catalogue, and secrets from a file ``.env``.

The file has a line such as ``STRIPE_KEY=sk_test_1`` for each secret; git ignores it. A variable of the shell overrides
its line. A ``#`` after a space or a closing quote begins a comment, except within quotes.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from signalbox.catalogue.catalogue_errors import refuse
from signalbox.catalogue.reading import Catalogue
from signalbox.core.kit_names import CALLBACK_KEYS

FILE = ".env"
QUOTED = re.compile(r"""\s*(["'])(.*?)\1\s*(#.*)?""")
COMMENT = re.compile(r"\s#.*")


def own_environment(catalogue: Catalogue) -> dict[str, str]:
    """Return the variables of the functions' entries, with their values on this machine.

    Raises `CatalogueError` for a secret without a value, or a line of ``.env`` that is not ``NAME=value``.
    """
    # The local stack has no secrets: the key of callbacks is the same after each start on this machine.
    callback_key = hashlib.sha256(f"callbacks of {catalogue.root}".encode()).hexdigest()
    given = {CALLBACK_KEYS: callback_key, **_read(catalogue.root / FILE), **os.environ}
    found = dict(catalogue.variables)
    for function, secrets in catalogue.secrets.items():
        for name, secret in secrets.items():
            refuse(
                name not in given,
                f"functions.{function}: the secret {secret} has no value here: add a line {name}=… to {FILE} in "
                f"{catalogue.root}, which git ignores, or set it in the shell",
            )
            found[name] = given[name]
    return found


def _read(file: Path) -> Mapping[str, str]:
    lines = file.read_text("utf-8-sig").splitlines() if file.is_file() else ()
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ")
        if text and not text.startswith("#"):
            name, equals, value = text.partition("=")
            refuse(not equals, f"{FILE}:{number}: write NAME=value")
            found[name.strip()] = _value(value)
    return found


def _value(text: str) -> str:
    """Return the value in the text after ``=``, without quotes and comment."""
    quoted = QUOTED.fullmatch(text)
    return quoted[2] if quoted else COMMENT.sub("", text).strip()
