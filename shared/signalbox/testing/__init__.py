"""The names that a test of a function imports: one harness that simulates Google Cloud in this process.

    from signalbox.testing import Harness

    with Harness() as harness:
        harness.add(app)                                          # a function made in this test, or
        harness.load(Path("examples/printers"))                   # from its folder; the catalogue's are there anyway
        assert harness.post("printers", json={"page": 7}).status == 202
        harness.run(Faults(duplicate=0.3))                        # deliver every task, some of them twice
        assert documents.get("page-7")["printed"]

The names are loaded when they are first used: the in-memory store alone needs neither Flask nor the catalogue.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signalbox.testing.deliveries import Delivery as Delivery
    from signalbox.testing.deliveries import Faults as Faults
    from signalbox.testing.deliveries import TaskFailed as TaskFailed
    from signalbox.testing.flow_replay import replay as replay
    from signalbox.testing.harness import Harness as Harness
    from signalbox.testing.harness import HttpResponse as HttpResponse
    from signalbox.testing.users import user_token as user_token

from signalbox.core.lazy_names import make_lazy

make_lazy(__name__, extra="tools")
