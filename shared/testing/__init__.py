"""What a test of a function imports: one harness that simulates Google Cloud in this process.

    from shared.testing import Harness

    with Harness() as harness:
        harness.add(app)                                          # a function made in this test, or
        harness.load(Path("examples/printers"))                   # from its folder; the catalogue's are there anyway
        assert harness.post("printers", json={"page": 7}).status == 202
        harness.run(Faults(duplicate=0.3))                        # deliver every task, some of them twice
        assert documents.get("page-7")["printed"]

The names are loaded when they are first used: the in-memory store alone needs neither Flask nor the catalogue.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.testing.delivery import Delivery, TaskFailed
    from shared.testing.faults import Faults
    from shared.testing.flow_replay import replay
    from shared.testing.harness import Harness, HttpResponse
    from shared.testing.users import user_token

__all__ = ["Delivery", "Faults", "Harness", "HttpResponse", "TaskFailed", "replay", "user_token"]

_MODULES = {
    "Delivery": "delivery",
    "Faults": "faults",
    "Harness": "harness",
    "HttpResponse": "harness",
    "TaskFailed": "delivery",
    "replay": "flow_replay",
    "user_token": "users",
}

if not TYPE_CHECKING:  # else a type checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"shared.testing.{_MODULES[name]}"), name)
