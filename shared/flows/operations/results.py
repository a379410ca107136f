"""Leave in a flow's mailbox how something ended, without an outbox: the task that leaves it is delivered again."""

from shared.core.operations.mailbox import message_put
from shared.core.operations.ports import AlreadyExists, Ports
from shared.core.rules.mailbox import header_path
from shared.core.rules.wake_ups import completed
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.messages import Result, to_record
from shared.flows.rules.tasks import wake_flow


def leave(ports: Ports, base: str, function: str, result: Result) -> None:
    """Leave a result for a flow whose code `function` has, and wake it. Raises `Unavailable`."""
    message = message_put(base, result.id_for(FlowAddress.of_base(base)), to_record(result))
    try:
        moment = ports.store.commit([message]).commit_time
    except AlreadyExists:
        wake(ports, base, function)
    else:
        ports.queue.create(completed([wake_flow(base, function)], moment))


def wake(ports: Ports, base: str, function: str) -> None:
    """Wake a flow in whose mailbox an earlier delivery may have left a result. Raises `Unavailable`."""
    [header] = ports.store.read(header_path(base), fields=())
    ports.queue.create(completed([wake_flow(base, function)], header.read_time))
