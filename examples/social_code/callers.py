"""The values that callers send: the user, the texts of a draft, a version's id.

A refusal describes the correct value.
"""

import re
from contextlib import suppress

from inputs import Functions
from signalbox import NotFound, Problem, Request
from versions import KINDS, Json, imported, version

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
AUTHOR = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
SOURCE_LENGTH_MAX = 10_000
IMPORTS_MAX = 50


class BadFunction(Problem):
    title = "The function cannot be saved"


class BadAuthor(Problem):
    title = "The author is not known"


class BadVote(Problem):
    title = "A vote is 1 or -1"


class NameTaken(Problem):
    status = 409
    title = "A name is unique regardless of case"


class TooManyVersions(Problem):
    status = 409
    title = "The function has too many versions"


def author_of(request: Request) -> str:
    """Return the user who signed in. Without `auth: firebase`, IAM admits callers, and they name themselves."""
    with suppress(RuntimeError):
        return str(request.user.id)
    author = request.header("X-Author") or "anyone"
    if not AUTHOR.fullmatch(author):
        raise BadAuthor("X-Author has up to 128 letters, digits and _ . @ -", field="X-Author")
    return author


def check_texts(name: str, texts: Json) -> None:
    """Check the contents of a draft. Raises `BadFunction`."""
    if not NAME.fullmatch(name):
        raise BadFunction("A name is a letter, then up to 79 letters, digits and underscores.", field="name")
    for kind, text in texts.items():
        if not isinstance(text, str) or len(text) > SOURCE_LENGTH_MAX:
            raise BadFunction(f"`{kind}` is a text of at most {SOURCE_LENGTH_MAX:,} characters.", field=kind)
        if len(imported(text, name)) > IMPORTS_MAX:
            raise BadFunction(f"A text imports at most {IMPORTS_MAX} functions.", field=kind)
    if not any(text.strip() for text in texts.values()):
        raise BadFunction(f"Write one of these: {', '.join(KINDS)}.", field="code")


def check_spelling(record: Json | None, name: str) -> None:
    """Check that a name is not taken in another spelling. Raises `NameTaken`."""
    if record is not None and record["name"] != name:
        raise NameTaken(f"There is {record['name']}: use that spelling, or another name.", field="name")


def published_version(name: str, version_id: str) -> Json:
    """Return a published version. Raises `NotFound`."""
    try:
        return version(Functions().record(name.lower()), version_id)
    except KeyError as error:
        raise NotFound(f"{name} has no version {version_id}.") from error
