"""The log of a run as people and tests get it: what it was told in order, and what a replay of it needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.core.operations.ports import Store
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import header_path
from shared.core.rules.problems import BadQuery, NoFlow
from shared.core.rules.times import rfc3339
from shared.flows.operations.logs import read_log
from shared.flows.operations.records import header_of
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.entries import Entry
from shared.flows.rules.headers import FlowHeader


def read_run(store: Store, address: FlowAddress) -> tuple[FlowHeader, Sequence[Entry]]:
    """Return a run's header and the log of its present generation. Raises `NoFlow`, `Unavailable`."""
    [read] = store.read(header_path(address.base))
    header = header_of(read, address)
    if header is None:
        raise NoFlow(f"There is no run {address.id!r} of {address.flow}.", field="id")
    return header, read_log(store, header).entries


def whole_log(store: Store, address: FlowAddress) -> dict[str, Any]:
    """Return the whole log of a run."""
    header, entries = read_run(store, address)
    return _described(header, entries, entries)


def log_page(store: Store, address: FlowAddress, token: str) -> dict[str, Any]:
    """Return a page of the log of a run; `token` counts the entries before it."""
    header, entries = read_run(store, address)
    first = _number(token)
    page = entries[first : first + LIMITS.flow_log_page]
    more = first + len(page) < len(entries)
    return _described(header, entries, page) | ({"next_page_token": str(first + len(page))} if more else {})


def _described(header: FlowHeader, entries: Sequence[Entry], page: Sequence[Entry]) -> dict[str, Any]:
    waiting: Mapping[str, str] = {path: each.signature for path, each in header.pending.items()}
    return {
        **header.address.to_json(),
        "life": header.life,
        "arguments": dict(header.arguments),
        "begun_at": rfc3339(header.start_at) if header.start_at else None,
        "patches": dict(header.patches),
        "waiting_for": waiting,
        "told": len(entries),
        "entries": [each.shown() for each in page],
    }


def _number(token: str) -> int:
    if token and not token.isdecimal():
        raise BadQuery("`page_token` is the `next_page_token` of the page before.", field="page_token")
    return int(token or 0)
