"""Classify the errors that Terraform printed into transient and permanent refusals.

Pure. A fresh project refuses many requests that it accepts a few minutes later: rights, APIs and service agents take
time to take effect everywhere. `TABLE` has each such refusal with its text, the source of that text, and the waits
before each further try. It also has permanent refusals, with what to do. The first entry that matches applies.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from signalbox_infra.deploy.refusal_table import INTERNAL, READ_TOO_EARLY, TABLE, Refusal

DATABASE = "google_firestore_database."
SHOWN = 400  # characters of what Google said
WITH = re.compile(r"^\s*with (\S+),$", re.MULTILINE)
APPLIED = re.compile(r"When applying changes to (\S+), provider")
UNKNOWN = Refusal(
    name="unknown",
    text="",
    meaning="This refusal is not among those that are known to pass.",
    source="",
    remedy="Read what Google said, correct it, and run the command again: it continues from what exists.",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that Terraform printed: the resource, the message, and the table's entry for it."""

    address: str
    said: str
    refusal: Refusal


def failures(printed: str) -> list[Failure]:
    """Return the errors that Terraform printed, each with its entry of the table or `UNKNOWN`."""
    plain = re.sub(r"^[│╷╵] ?", "", printed, flags=re.MULTILINE)
    blocks = re.split(r"^Error: ", plain, flags=re.MULTILINE)[1:] or [plain]
    return [_failure(block) for block in blocks]


def wait_seconds(found: Sequence[Failure], met: Mapping[tuple[str, str], int]) -> float | None:
    """Return the seconds to wait, given how often each refusal (its name, the resource's address) has occurred; None if
    one is permanent or has used all its waits.
    """
    waits = [failure.refusal.waits[met[failure.refusal.name, failure.address] - 1 :][:1] for failure in found]
    return max(wait[0] for wait in waits) if waits and all(waits) else None


def may_be_made(found: Sequence[Failure]) -> frozenset[str]:
    """Return the addresses of resources that exist although the state may lack them: Terraform read them too early, or
    a server failed while it created them. The latter is not evidence enough for a database.
    """
    return frozenset(
        each.address
        for each in found
        if each.refusal.name == READ_TOO_EARLY or (each.refusal.name == INTERNAL and DATABASE not in each.address)
    )


def reasons(found: Sequence[Failure]) -> list[str]:
    """Return a line for each different refusal, with the number of its resources and its meaning."""
    met = {failure.refusal: [each for each in found if each.refusal == failure.refusal] for failure in found}
    return [f"{refusal.meaning} ({_places(each)})" for refusal, each in met.items()]


def report(found: Sequence[Failure]) -> str:
    """Return Google's message, its meaning and what to do. Refusals that waiting cannot resolve come first."""
    last = [failure for failure in found if not failure.refusal.waits] or list(found)
    kinds = {failure.refusal.name: failure for failure in reversed(last)}
    return "\n".join(line for failure in reversed(kinds.values()) for line in _explained(failure))


def _failure(block: str) -> Failure:
    named = WITH.search(block)
    said = " ".join(block[: named.start() if named else None].split())
    whole = " ".join(block.split())
    named = named or APPLIED.search(whole)
    refusal = next((each for each in TABLE if re.search(each.text, whole, re.IGNORECASE)), UNKNOWN)
    return Failure(named[1] if named else "", said, refusal)


def _places(found: Sequence[Failure]) -> str:
    first = found[0].address or found[0].said[:60]
    return first if len(found) == 1 else f"{first} and {len(found) - 1} more"


def _explained(failure: Failure) -> Iterator[str]:
    where = f" for {failure.address}" if failure.address else ""
    yield f"Google said{where}: {failure.said[:SHOWN]}"
    yield f"  It means: {failure.refusal.meaning}"
    if failure.refusal.waits:
        yield "  Waiting was tried, and did not help this time."
    yield f"  To do: {failure.refusal.remedy}"
    if failure.refusal.source:
        yield f"  See: {failure.refusal.source}"
