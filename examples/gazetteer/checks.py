"""Comparisons of the service's answers with the expected ones. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from examples.gazetteer.data import Condition, Document, Documents, canonical

EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence that must be true. `fault` describes the violation, and is empty if there is none.

    `compared` counts documents.
    """

    sentence: str
    fault: str = ""
    compared: int = 0

    @property
    def holds(self) -> bool:
        return not self.fault


def check_query(condition: Condition, found: Sequence[Document], expected: Documents) -> Check:
    """Check that a query found exactly these documents, each once, each equal to the last digit."""
    sentence = f"{text(condition)} finds exactly {len(expected):,} documents"
    return Check(sentence, _difference(found, expected), len(expected))


def check_reads(read: dict[str, Document | None], expected: Documents) -> Check:
    """Check documents that were read one by one; None where there was none."""
    wrong = [key for key, document in read.items() if canonical(document) != canonical(expected.get(key))]
    gone = sum(key not in expected for key in read)
    sentence = f"{len(read) - gone:,} documents read back equal" + (f", {gone:,} deleted" if gone else "")
    return Check(sentence, _named("read differently", wrong), len(read))


def text(condition: Condition) -> str:
    return " and ".join(f"{field} == {value!r}" for field, value in condition.items())


def _difference(found: Sequence[Document], expected: Documents) -> str:
    times = Counter(each["key"] for each in found)
    differing = (each["key"] for each in found if canonical(each) != canonical(expected.get(each["key"])))
    faults = (
        _named("missing", [key for key in expected if key not in times]),
        _named("too many", [key for key in times if key not in expected]),
        _named("found twice", [key for key, count in times.items() if count > 1]),
        _named("different", [key for key in differing if key in expected]),
    )
    return "; ".join(filter(None, faults))


def _named(fault: str, keys: Sequence[str]) -> str:
    more = ", …" if len(keys) > EXAMPLES_MAX else ""
    return f"{fault}: {len(keys):,} ({', '.join(keys[:EXAMPLES_MAX])}{more})" if keys else ""
