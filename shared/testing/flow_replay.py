"""Check whether a run of a flow can go on with new code, by a replay of the run's log.

    replay(checkout, json.loads(Path("tests/logs/order-7.json").read_text()))

The log is what `flows("checkout", "order-7").log()` returns, and ``GET …/log``, whose pages are put together.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from typing import Any

from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.entries import CancelEntry, Entry, EventEntry, ResultEntry
from shared.flows.rules.failures import Stuck
from shared.flows.rules.headers import FlowHeader, LogPlace, Pending
from shared.flows.rules.turns import FlowTurn
from shared.kit.flow_runs import Flow
from shared.objects.rules.outcomes import CallOutcome


class DoesNotFit(AssertionError):
    """The code asks for something else than the log says. The message has the place in the code."""


def replay(flow: Flow[Any, Any], log: Mapping[str, Any]) -> None:
    """Replay a log with a flow's code. Raises `DoesNotFit` if a run with this log would be stuck with this code."""
    entries = [entry_of(each) for each in log["entries"]][: log.get("told")]
    try:
        with closing(FlowTurn.begin(flow.definition, _header(log, len(entries)), entries, None)):
            pass
    except Stuck as stuck:
        at = f", at {stuck.place}" if stuck.place else ""
        raise DoesNotFit(f"{log['flow']}/{log['id']}: {stuck.detail}{at}") from stuck


def _header(log: Mapping[str, Any], entries: int) -> FlowHeader:
    incarnation, _, generation = log["life"].rpartition("-")
    return FlowHeader(
        FlowAddress(log["flow"], log["id"]),
        function="",
        arguments=log["arguments"],
        digest="",
        incarnation=incarnation,
        generation=int(generation),
        begun=True,
        start_at=_time(log["begun_at"]),
        log=LogPlace(held=entries),
        pending={path: Pending(signature) for path, signature in log["waiting_for"].items()},
        patches=log["patches"],
    )


def entry_of(shown: Mapping[str, Any]) -> Entry:
    """Return an entry of a log as the code is told it."""
    at = datetime.fromisoformat(shown["at"])
    match shown["entry"]:
        case "event":
            return EventEntry(shown["name"], shown["value"], at)
        case "cancel":
            return CancelEntry(shown["reason"], at)
    return ResultEntry(shown["path"], shown["command"], CallOutcome.from_json(shown), at)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
