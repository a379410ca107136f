"""Which flow: its name and its id. Its records lie under ``flows/{Flow}~{id}``."""

import re
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.keys import check_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadFlow, BadKey

COLLECTION = "flows"
FLOW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True, order=True)
class FlowAddress:
    """The run `id` of the flow `flow`."""

    flow: str
    id: str

    @classmethod
    def checked(cls, flow: Any, id_: Any) -> Self:
        """Return the address of a flow. Raises `BadFlow` or `BadKey`."""
        if not isinstance(flow, str) or not FLOW_NAME.fullmatch(flow):
            raise BadFlow(f"A flow's name matches {FLOW_NAME.pattern}.", field="flow")
        if len(check_key(id_).encode()) > LIMITS.flow_id_bytes_max:
            raise BadKey(f"A flow's id has at most {LIMITS.flow_id_bytes_max:,} bytes.", field="id")
        return cls(flow, id_)

    @property
    def base(self) -> str:
        """Return the path of the flow's card, below which its mailbox and its log lie."""
        return f"{COLLECTION}/{self.flow}~{self.id}"

    @classmethod
    def of_base(cls, base: str) -> Self:
        """Undo `base`."""
        return cls(*base.removeprefix(f"{COLLECTION}/").split("~", 1))

    def to_json(self) -> dict[str, str]:
        """Return the address as outcomes and lists show it."""
        return {"flow": self.flow, "id": self.id}

    def chunk_path(self, generation: int, number: int) -> str:
        """Return the path of a chunk of the log."""
        return f"{self.base}/log/{generation:06}-{number:06}"
