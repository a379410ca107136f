"""What a flow's code leaves must be JSON and within its bounds."""

import json
from typing import Any

from shared.core.rules.problems import BadArgument, TooLarge
from shared.flows.rules.failures import Stuck, too_large
from shared.objects.rules.outcomes import CallOutcome
from shared.tasks.rules.signatures import type_errors


def json_text(value: Any, what: str, bytes_max: int) -> str:
    """Return a value as text. Raises `Stuck` if it is no JSON or too large; `what` names it."""
    if error := next(type_errors(value, Any, what), None):
        raise Stuck("flow-failed", f"{error[0].upper()}{error[1:]}.")
    text = json.dumps(value)
    if len(text) > bytes_max:
        raise too_large(f"{what[0].upper()}{what[1:]} has {len(text):,} bytes, and at most {bytes_max:,}.")
    return text


def step_outcome(result: Any, bytes_max: int) -> CallOutcome:
    """Return the outcome of a step that returned; a result that cannot be stored is an error."""
    if error := next(type_errors(result, Any, "the result"), None):
        return CallOutcome.from_problem(BadArgument(f"The step's result cannot be stored: {error}."))
    outcome = CallOutcome(result)
    if len(outcome.to_text()) > bytes_max:
        return CallOutcome.from_problem(TooLarge(f"A step's result has at most {bytes_max:,} bytes."))
    return outcome
