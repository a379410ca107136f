"""The outcome of a unit: a result or an error, recorded once. Only a failure can be overwritten, by a later attempt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Header
from shared.batches.rules.units import PlacedUnit
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, TooLarge

UnitState = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """A unit's result as JSON text, or the error it failed with."""

    state: UnitState
    text: str

    @classmethod
    def from_request(cls, body: Mapping[str, Any]) -> "UnitOutcome":
        """Parse ``{"result": …}`` or ``{"error": "…"}``. Raises `BadBatch` or `TooLarge`."""
        match body:
            case {"result": result, **rest} if not rest:
                outcome = succeeded(result)
                if outcome.state == "failed":
                    raise TooLarge(outcome.text, field="result")
                return outcome
            case {"error": str(error), **rest} if not rest:
                if _readable(error) != error:
                    raise BadBatch("This text has a lone surrogate, which UTF-8 cannot hold.", field="error")
                return failed(error)
        raise BadBatch('Complete a unit with {"result": …} or {"error": "…"}.')

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as an answer shows it."""
        shown = {"result": json.loads(self.text)} if self.state == "succeeded" else {"error": self.text}
        return {"state": self.state, **shown}


def succeeded(result: Any) -> UnitOutcome:
    """Return the outcome of a unit that returned `result`: failed if that is not JSON, or too large to store."""
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(f"The result is not JSON: {error}")
    if len(text) > LIMITS.result_bytes_max:
        return failed(f"The result has {len(text):,} bytes; the limit is {LIMITS.result_bytes_max:,}.")
    return UnitOutcome("succeeded", text)


def failed(error: str) -> UnitOutcome:
    """Return the outcome of a unit that failed; a long error is cut, and lone surrogates become `?`."""
    return UnitOutcome("failed", _readable(error)[: LIMITS.error_letters_max])


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def outcome_of_sub_batch(run: BatchRun, header: Header) -> UnitOutcome:
    """Return the outcome that an ended sub-batch means for the unit it belongs to."""
    if header.state == "completed":
        return UnitOutcome("succeeded", json.dumps({"batch": run.batch, **header.summary()}))
    return UnitOutcome("failed", f"The sub-batch {run.batch} was {header.state}: {header.reason}.")


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """The record of a unit's outcome. It holds the unit's place, so a retry does not search for it."""

    unit: PlacedUnit
    outcome: UnitOutcome

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        return cls(PlacedUnit.from_record(record), UnitOutcome(record["state"], record["text"]))

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {**self.unit.place(), "state": self.outcome.state, "text": self.outcome.text}

    def to_json(self) -> dict[str, Any]:
        """Return the unit as an answer shows it."""
        return {"index": self.unit.index, "attempt": self.unit.attempt, **self.outcome.to_json()}


def may_overwrite(held: UnitRecord, unit: PlacedUnit) -> bool:
    """Return whether an attempt may replace the recorded outcome: only a failure, and only by a later attempt."""
    return held.outcome.state == "failed" and held.unit.attempt < unit.attempt
