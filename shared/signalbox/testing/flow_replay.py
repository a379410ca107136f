"""Check by a replay of its log whether a run of a flow can continue with new code.

    replay(checkout, json.loads(Path("tests/logs/order-7.json").read_text()))

The log is what `flows("checkout", "order-7").log()` returns, or the pages of ``GET …/log`` put together.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from signalbox.core.lazy_dataclasses import replace
from signalbox.flows.api.runs import Flow
from signalbox.flows.machine.driver import Driver
from signalbox.flows.machine.driver import replay as replayed
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import CANCELLED, FlowHeader, Origin, ParentFlow
from signalbox.flows.model.log import StoredLog
from signalbox.flows.model.messages import Blank, Cancel, Event, Message, Result, Update
from signalbox.flows.model.waits import Wait
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import escaped


class DoesNotFit(AssertionError):
    """The code diverges from the log. The message has the location in the code."""


def replay(flow: Flow[Any, Any], log: Mapping[str, Any]) -> None:
    """Replay a log with a flow's code. Raises `DoesNotFit` if a run with this log would be stuck with this code."""
    entries = [entry_of(entry) for entry in log["entries"]][: log.get("log_length")]
    header = _header(log, len(entries))
    try:
        if log.get("state") == CANCELLED or log.get("begins"):  # perhaps terminated, or nothing is scheduled yet
            return _run(Driver.of(flow.definition, header), header, entries)
        with closing(FlowTurn.begin(flow.definition, header, entries, None)):
            pass
    except Stuck as stuck:
        raise DoesNotFit(f"{log['flow']}/{log['id']}: {stuck.detail}") from stuck


def _run(driver: Driver, header: FlowHeader, entries: Sequence[Message]) -> None:
    """Run the code over a log, whatever it waits for then. Raises `Stuck`."""
    try:
        replayed(driver, header.start_at, entries)
    finally:
        driver.drop()


def _header(log: Mapping[str, Any], entries: int) -> FlowHeader:
    incarnation, _, execution = log["execution_id"].rpartition("-")
    generation, _, rewinds = execution.partition(".")
    parent = FlowAddress(log["parent"]["flow"], log["parent"]["id"]) if "parent" in log else None
    return FlowHeader(
        FlowAddress(log["flow"], log["id"]),
        function="",
        arguments={name: _stored(value) for name, value in log["arguments"].items()},
        digest="",
        incarnation=incarnation,
        parent=ParentFlow(parent.base, "", Wait("", "")) if parent else None,
        generation=int(generation),
        rewinds=int(rewinds or 0),
        begun=not log.get("begins") or log["begun_at"] is not None,
        start_at=_time(log["begun_at"]),
        log=StoredLog(held=entries),
        pending={
            path: Wait(log["execution_id"], path, signature=signature) for path, signature in log["waiting_for"].items()
        },
        patches=log["patches"],
        origins=tuple(Origin(*origin) for origin in log.get("origins", ())),
    )


def entry_of(shown: Mapping[str, Any]) -> Message:
    """Return an entry of a shown log as the code receives it."""
    at = datetime.fromisoformat(shown["at"])
    match shown["entry"]:
        case Event.kind:
            return Event(shown["name"], _stored(shown["value"]), at)
        case Update.kind:
            return Update(shown["name"], _stored(shown["value"]), shown["update"], at)
        case Cancel.kind:
            return Cancel(shown["reason"], at)
        case Blank.kind:
            return Blank(shown["path"], shown["command"], at)
    outcome = CallOutcome.from_json(shown)
    outcome = replace(outcome, result=_stored(outcome.result))
    return Result(Wait("", shown["path"], signature=shown["command"]), outcome, at)


def _stored(shown: Any) -> Any:
    """Return a value of a shown log as records contain it. Raises `ValueError` for a large value that is not there."""
    match shown:
        case {"$payload": {"bytes": size_bytes, "sha256": sha256}}:
            raise ValueError(f"The log lacks a value of {size_bytes:,} bytes: put payloads/{sha256} of the run there.")
        case {"$payload": {"value": _}}:
            return shown
    return escaped(shown)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
