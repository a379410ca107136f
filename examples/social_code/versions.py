"""The record of a function: published versions, those that count, and the current one. Pure.

A version is code, tests or acceptance tests, and never changes. A version counts while its votes are not below zero.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

KINDS = ("code", "tests", "acceptance")
IMPORT = re.compile(r"\{\{\s*([A-Za-z][A-Za-z0-9_]{0,79})\s*\}\}")
VERSIONS_MAX = 40
VERSIONS_CHARACTERS_MAX = 200_000
"""Characters of all versions of a function: they are in one record, which is read and written as a whole."""


def digest(value: object) -> str:
    """Return a hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def imported(text: str, name: str) -> list[str]:
    """Return the names that a text imports, in lower case, each once; a function does not import itself."""
    found = dict.fromkeys(match.lower() for match in IMPORT.findall(text))
    return [each for each in found if each != name.lower()]


def new_record(name: str) -> Json:
    """Return the record of a function without versions."""
    return {
        "type": "SocialFunction",
        "name": name,
        "current": "",
        "code": "",
        "imports": [],
        "versions": [],
        "social_imports": [],
        "changes": 0,
    }


def with_published(record: Json, texts: Mapping[str, str], author: str) -> Json:
    """Add texts by their kinds as versions. An empty text, and one that is published already, adds nothing."""
    versions = list(record["versions"])
    known = {version["id"] for version in versions}
    for kind in KINDS:
        version_id = digest([record["name"].lower(), kind, texts[kind]])
        if texts[kind].strip() and version_id not in known:
            version = {"id": version_id, "kind": kind, "text": texts[kind], "author": author, "votes": 0, "breaks": []}
            versions.append({**version, "number": len(versions) + 1})
    if len(versions) == len(record["versions"]):
        return record
    edges = (name for version in versions if version["kind"] != "tests" for name in _imports(record, version))
    return {
        **record,
        "versions": versions,
        "social_imports": list(dict.fromkeys(edges)),
        "changes": record["changes"] + 1,
    }


def is_full(record: Json) -> bool:
    """Return whether a record has more versions than it may."""
    versions = record["versions"]
    return len(versions) > VERSIONS_MAX or sum(len(each["text"]) for each in versions) > VERSIONS_CHARACTERS_MAX


def with_votes(record: Json, votes: Mapping[str, int]) -> Json:
    """Set the votes of the versions by their ids."""
    versions = [{**version, "votes": votes.get(version["id"], version["votes"])} for version in record["versions"]]
    if versions == record["versions"]:
        return record
    return {**record, "versions": versions, "changes": record["changes"] + 1}


def with_current(record: Json, version_id: str, breaks: list[str]) -> Json:
    """Make an implementation the current one, and note which dependants' acceptance tests fail with it."""
    versions = [{**each, "breaks": breaks} if each["id"] == version_id else each for each in record["versions"]]
    current = version(record, version_id)
    imports = _imports(record, current)
    return {**record, "current": version_id, "code": current["text"], "imports": imports, "versions": versions}


def version(record: Json, version_id: str) -> Json:
    """Return a version of a function. Raises `KeyError`."""
    for each in record["versions"]:
        if each["id"] == version_id:
            found: Json = each
            return found
    raise KeyError(version_id)


def counted(record: Json, kind: str) -> list[Json]:
    """Return the versions of a kind that count."""
    return [each for each in record["versions"] if each["kind"] == kind and each["votes"] >= 0]


def chosen(record: Json, passed: Mapping[str, bool]) -> str:
    """Return the implementation that passes all tests, with the most votes, the newest of several.

    If none passes, the present one stays.
    """
    passing = [each for each in counted(record, "code") if passed.get(each["id"])]
    if not passing:
        return str(record["current"])
    return str(max(passing, key=lambda each: (each["votes"], each["number"]))["id"])


def is_undecided(record: Json) -> bool:
    """Return whether other results of its tests could make another implementation current."""
    return [each["id"] for each in counted(record, "code")] != [record["current"]]


def current_counts(record: Json) -> bool:
    """Return whether there is a current implementation that is not voted out."""
    return any(each["id"] == record["current"] for each in counted(record, "code"))


def _imports(record: Json, published: Json) -> list[str]:
    return imported(published["text"], record["name"])
