"""What becomes of a unit: a result or an error, once; only what failed may be tried again, as another attempt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.batches.rules.batches import Header, Life, Unit, summary
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, TooLarge

States = Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A unit's result as JSON text, or the error it failed with. Both count as done for its batch."""

    state: States
    text: str


def succeeded(result: Any) -> Outcome:
    """Take a unit's result. One that is not JSON, or too large to keep, makes the unit a failed one that says so."""
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(f"The result is not JSON: {error}")
    if len(text) > LIMITS.result_bytes_max:
        return failed(f"The result has {len(text):,} bytes; a unit's has at most {LIMITS.result_bytes_max:,}.")
    return Outcome("done", text)


def failed(error: str) -> Outcome:
    """Take what a unit failed with; the beginning of it is kept."""
    readable = error.encode("utf-8", "replace").decode()
    return Outcome("failed", readable[: LIMITS.error_letters_max])


def of_child(life: Life, header: Header) -> Outcome:
    """Take the end of a sub-batch as the outcome of the unit it belongs to."""
    if header.state == "completed":
        return Outcome("done", json.dumps({"batch": life.batch, **summary(header)}))
    return Outcome("failed", f"The sub-batch {life.batch} was {header.state}: {header.reason}.")


def parse_outcome(body: Mapping[str, Any]) -> Outcome:
    """Read an outcome that was sent from outside. Raises `BadBatch` or `TooLarge`."""
    match body:
        case {"result": result, **rest} if not rest:
            outcome = succeeded(result)
            if outcome.state == "failed":
                raise TooLarge(outcome.text, field="result")
            return outcome
        case {"error": str(error), **rest} if not rest:
            return failed(error)
    raise BadBatch('A unit is completed with {"result": …} or {"error": "…"}.')


def record(unit: Unit, outcome: Outcome) -> dict[str, Any]:
    """Give the record of what became of a unit; it carries the unit's place, so that a retry need not look for it."""
    return {**unit.record(), "state": outcome.state, "text": outcome.text}


def shown(data: Mapping[str, Any]) -> dict[str, Any]:
    """Give a unit's record as people see it."""
    became = {"result": json.loads(data["text"])} if data["state"] == "done" else {"error": data["text"]}
    return {"index": data["index"], "state": data["state"], "attempt": data["attempt"], **became}


def may_overwrite(held: Mapping[str, Any], unit: Unit) -> bool:
    """Tell whether an attempt may replace what is recorded: only a failure, and only by a later attempt."""
    return bool(held["state"] == "failed" and held["attempt"] < unit.attempt)


def next_attempt(held: Mapping[str, Any]) -> Unit:
    """Give the unit as it is tried again after what is recorded."""
    return Unit.of({**held, "attempt": held["attempt"] + 1})
