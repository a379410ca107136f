"""The address of a run: the flow's name and the run's id. The records of a run are below it.

    flows/{Flow}~{id}               the listing: state and times, for lists and for the sweeper
    flows/{Flow}~{id}/mailbox/!     the header: arguments, end of the log, pending waits, leases, outcome
    flows/{Flow}~{id}/mailbox/{id}  a message; a sleep is a message with a due time
    flows/{Flow}~{id}/log/{chunk}   earlier entries of the log, up to 900 KB in each chunk

A message becomes an entry of the log, with its time, in the commit that removes it from the mailbox. Everything that an
execution starts has its execution id, so that late messages for an earlier execution are recognised and dropped.
"""

import re
from typing import Any, Self

from signalbox.core.keys import IdSpace, check_key
from signalbox.core.problems import BadKey
from signalbox.flows.limits import LIMITS
from signalbox.flows.problems import BadFlow
from signalbox.mailboxes.model.addresses import Address

RUN_IDS = IdSpace("run")

FLOW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


class FlowAddress(Address):
    """A run of a flow: the name of the flow, and the id of the run as its key."""

    __slots__ = ()
    COLLECTION = "flows"
    MEMBERS = ("flow", "id")

    @classmethod
    def checked(cls, flow: Any, id_: Any) -> Self:
        """Return an address from a caller's values. Raises `BadFlow` or `BadKey`."""
        if not isinstance(flow, str) or not FLOW_NAME.fullmatch(flow):
            raise BadFlow(f"The name of a flow must match {FLOW_NAME.pattern}.", field="flow")
        if len(check_key(id_).encode()) > LIMITS.flow_id_bytes_max:
            raise BadKey(f"The id of a flow must have at most {LIMITS.flow_id_bytes_max:,} bytes.", field="id")
        return cls(flow, id_)

    @classmethod
    def chosen(cls, flow: Any, id_: Any) -> Self:
        """Return the address that a caller chooses for a new run.

        Raises `BadFlow`, and `BadKey`, also for an id that only the kit makes.
        """
        address = cls.checked(flow, id_)
        RUN_IDS.check_chosen(address.key)
        return address

    def chunk_path(self, generation: int, number: int) -> str:
        """Return the path of a chunk of the log."""
        return f"{self.base}/log/{generation:06}-{number:06}"
