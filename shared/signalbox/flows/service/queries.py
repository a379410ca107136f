"""Let the code of a run answer a query, from a replay of its log. Nothing is written or enqueued."""

from collections.abc import Mapping, Sequence
from typing import Any

from signalbox.core.ports import Ports, Store
from signalbox.core.problems import Unavailable
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.queries import Answer, answer, queries
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import RUNNING, FlowHeader
from signalbox.flows.model.messages import Message
from signalbox.flows.problems import CannotQuery
from signalbox.flows.service.reads import read_header
from signalbox.flows.storage.log import read_log
from signalbox.payloads.service import opens_payloads


@opens_payloads
def query(ports: Ports, flows: Flows, address: FlowAddress, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Return the answer of a flow's code, from a replay of its log. Nothing is written or enqueued.

    Raises `NoFlow`, `CannotQuery`, `NoQuery`, the `Problem` that the answer raises, and `Unavailable` if this process
    cannot run the code, or if the code has not been started.
    """
    return answer(*_to_be_replayed(ports.store, flows, address), name, arguments)


@opens_payloads
def query_names(ports: Ports, flows: Flows, address: FlowAddress) -> list[str]:
    """Return the names of the queries that a flow answers. Raises as `query` does."""
    return queries(*_to_be_replayed(ports.store, flows, address))


def _to_be_replayed(
    store: Store, flows: Flows, address: FlowAddress
) -> tuple[FlowDefinition, FlowHeader, Sequence[Message]]:
    """Return the input of a query's replay: the code, the header and the log."""
    header, _ = read_header(store, address)
    if address.name not in flows.definitions:
        path = f"GET {{base}}{header.function}/flows/{address.name}/{address.key}/queries/…"
        detail = f"The code of {address.name} is in the function {header.function!r}: query it there, by {path}"
        raise CannotQuery(detail, field="flow")
    flows.check_revision(header.written_by)
    if not header.begun:
        if header.state == RUNNING:
            raise Unavailable("the code of the run has not been started")
        raise CannotQuery(f"The run is {header.state}, and its code has not been started.", field="id")
    if header.log_length > LIMITS.flow_query_entries_max:
        most = f"{LIMITS.flow_query_entries_max:,}"
        detail = f"The log has {header.log_length:,} entries, and a query replays at most {most}."
        raise CannotQuery(f"{detail} Return `flow.continue_as_new` earlier.", field="id")
    return flows.of(address.name), header, read_log(store, header).entries
