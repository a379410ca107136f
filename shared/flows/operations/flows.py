"""Look at flows: one, its log, a list of them."""

from dataclasses import dataclass
from typing import Any

from shared.core.operations.polling import poll
from shared.core.operations.ports import ID, Condition, Ports, Query, Snapshot
from shared.core.rules import page_tokens
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadFlow, BadQuery
from shared.flows.operations.logs import read_log
from shared.flows.operations.posts import existing
from shared.flows.rules.addresses import COLLECTION, FlowAddress
from shared.flows.rules.headers import STATES, FlowHeader

BEHIND_IDS = "\x7f"
"""Sorts right behind the ``~`` between name and id."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow as its last turn left it."""

    header: FlowHeader

    @property
    def ended(self) -> bool:
        """Return whether it has its outcome."""
        return self.header.end is not None

    def to_json(self) -> dict[str, Any]:
        """Return the status as people see it."""
        header = self.header
        outcome = header.end.outcome.to_json() | {"ended_at": header.end.at} if header.end else {}
        return {
            **header.address.to_json(),
            "state": header.state,
            **outcome,
            "waiting_for": _waiting_for(header),
            "told": header.log.told,
            "generation": header.generation,
            "progress": header.progress,
            **({"problem": dict(header.stuck)} if header.stuck else {}),
        }


def _waiting_for(header: FlowHeader) -> list[dict[str, Any]]:
    known = sorted(header.pending.items())
    return [
        {"path": path, "command": each.signature, "attempt": each.attempt, "asked_at": each.asked_at or None}
        for path, each in known
    ]


def get(ports: Ports, address: FlowAddress) -> FlowStatus:
    """Return the status of a flow. Raises `NoFlow`."""
    return FlowStatus(existing(ports, address))


def wait(ports: Ports, address: FlowAddress, seconds: float) -> FlowStatus:
    """Return the status of a flow when it has ended, or as it is after so many seconds. Raises `NoFlow`."""
    return poll(ports.clock, lambda: get(ports, address), lambda status: status.ended, seconds)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries of a flow's log, in the order in which its code was told; `next_page_token` is empty on the last page."""

    entries: list[dict[str, Any]]
    next_page_token: str = ""


def log_page(ports: Ports, address: FlowAddress, page_token: str = "") -> LogPage:
    """Return a page of the log of the flow's generation. Raises `NoFlow`."""
    header = existing(ports, address)
    log = read_log(ports.store, header).entries
    first = _index(page_token, address.base) if page_token else 0
    last = first + LIMITS.flow_log_page
    shown = [each.shown() for each in log[first:last]]
    return LogPage(shown, page_tokens.write(address.base, [], str(last)) if last < len(log) else "")


def _index(page_token: str, base: str) -> int:
    [index] = page_tokens.read(page_token, base, 0)
    if not str(index).isdecimal():
        raise BadQuery("Invalid page_token: it belongs to another query.", field="page_token")
    return int(index)


@dataclass(frozen=True, slots=True)
class FlowsPage:
    """Cards of flows, in the order of their ids; `next_page_token` is empty on the last page."""

    flows: list[dict[str, Any]]
    next_page_token: str = ""


def list_flows(ports: Ports, flow: str, state: str | None = None, page_token: str = "") -> FlowsPage:
    """Return the flows of a name, perhaps those of one state alone. Raises `BadFlow` for no such state."""
    if state is not None and state not in STATES:
        raise BadFlow(f"`state` is one of {', '.join(STATES)}.", field="state")
    after = page_tokens.read(page_token, COLLECTION, 0) if page_token else ()
    in_state = (Condition(("state",), "==", state),) if state else ()
    names = Condition(ID, ">=", f"{flow}~"), Condition(ID, "<", f"{flow}{BEHIND_IDS}")
    found = ports.store.query(Query(COLLECTION, (*names, *in_state), limit=LIMITS.flows_listed_max, after=after))
    token = page_tokens.write(COLLECTION, [], found[-1].id) if len(found) == LIMITS.flows_listed_max else ""
    return FlowsPage([_shown(each) for each in found], token)


def _shown(card: Snapshot) -> dict[str, Any]:
    data = dict(card.data or {})
    return {name: data[name] for name in ("flow", "id", "state", "created_at", "ended_at") if name in data}
