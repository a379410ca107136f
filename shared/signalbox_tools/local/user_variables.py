"""The variables of users' functions on this machine: `env` of the catalogue, and secrets from a file ``.env``.

The file has a line such as ``STRIPE_KEY=sk_test_1`` for each secret; git ignores it. A variable of the shell overrides
its line. A ``#`` after a space or a closing quote begins a comment, except within quotes. A quoted value may have
several lines. Within double quotes, ``\\n``, ``\\r`` and ``\\t`` are control characters, and a backslash before a
quote, another backslash or a ``$`` is left out; other backslashes stay, and so does all that single quotes enclose.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from signalbox.catalogue.catalogue_errors import CatalogueError, refuse
from signalbox.catalogue.reading import Catalogue
from signalbox.core.kit_names import CALLBACK_KEYS

FILE = ".env"
LINE_END = "\n"
ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[^=\s][^=\n]*)=
    (?:[ \t]*"(?P<escaped>(?:[^"\\]|\\.)*)"[ \t]*(?:\#[^\n]*)?(?=\n|\Z)
      |[ \t]*'(?P<literal>[^']*)'[ \t]*(?:\#[^\n]*)?(?=\n|\Z)
      |(?P<line>[^\n]*))""",
    re.VERBOSE | re.DOTALL,
)
NO_ENTRY = re.compile(r"[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)")
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "$": "$"}
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
    text = _text_of(file) if file.is_file() else ""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        if nothing := NO_ENTRY.match(text, at):
            at = nothing.end()
            continue
        entry = ENTRY.match(text, at)
        if entry is None:
            raise CatalogueError(f"{FILE}:{text.count(LINE_END, 0, at) + 1}: write NAME=value")
        found[entry["name"].strip()] = _value(entry)
        at = entry.end() + 1
    return found


def _text_of(file: Path) -> str:
    raw = file.read_bytes()
    try:
        text, wrong_at = raw.decode("utf-8-sig"), raw.find(b"\0")  # of UTF-16, and no variable can have it
    except UnicodeDecodeError as error:
        text, wrong_at = "", error.start
    if wrong_at >= 0:
        line = raw.count(b"\n", 0, wrong_at) + 1
        raise CatalogueError(f"{FILE}:{line}: it is not UTF-8: save the file as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _value(entry: re.Match[str]) -> str:
    """Return the value of an entry, without quotes and comment."""
    if (escaped := entry["escaped"]) is not None:
        return ESCAPE.sub(lambda escape: ESCAPED.get(escape[1], escape[0]), escaped)
    if (literal := entry["literal"]) is not None:
        return literal
    quoted = QUOTED.fullmatch(entry["line"])  # with quotes within the quotes
    return quoted[2] if quoted else COMMENT.sub("", entry["line"]).strip()
