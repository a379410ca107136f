"""Documents whose events are lost, and a walk that repairs their copies; at rest, every copy is current.

While users put, delete and write past the kit, each event may be lost. Then events work again and a walk
begins, with users, crashes and lost answers meanwhile. The properties are those of the links, without exception. In
worlds in which only the kit writes documents there are no events, and what another client writes nevertheless during a
walk is found by the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from signalbox.core.kit_names import ANYONE
from signalbox.core.limits import LIMITS
from signalbox.core.ports import DocumentEvent, Ports, Snapshot
from signalbox.documents.model.stamped_contents import COLLECTION
from signalbox.links import tasks
from signalbox.links.service import refreshes, verifications
from signalbox.testing.replaced_limits import replaced
from tests.simulation.world import Violation
from tests.simulation.worlds.links.kinds import Kind, Kinds
from tests.simulation.worlds.links.world import LinksWorld, drawn_writers

PAGE = 2
"""Documents of a page here, so that few documents make a chain."""

LOSSES = (0.3, 1.0)

KINDS = (
    Kind("tp", narrow=True),
    Kind("tpqr"),
    Kind("tpq", foreign=True),
    Kind("tpqr", cyclic=True),
    Kind("tpq", cyclic=True, crowded=True, foreign=True),
    Kind("tpq", cyclic=True, transformed=True),
    Kind("tpqr", cyclic=True, divided=True),
    Kind("tpq", cyclic=True, crowded=True, foreign=True, transformed=True, divided=True),
)

OPERATION = "tonight"


def run(
    seed: int, trace: Callable[[str], None] | None = None, kinds: Kinds = KINDS, writers: str | None = None
) -> None:
    """Run one seed that loses events and is verified. Raises `Violation` when a property does not hold.

    `writers` is who writes documents, by the catalogue; by default the seed decides.
    """
    VerifyWorld(seed, trace, kinds, writers or drawn_writers(seed)).run()


class VerifyWorld(LinksWorld):
    """The world of links with a deaf time at its beginning, and a walk after it."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, kinds: Kinds, writers: str = ANYONE) -> None:
        super().__init__(seed, trace, kinds, writers)
        self.loss = self.world.random.choice(LOSSES)
        self.deaf = True
        self.world.events.handler = self._hear if writers == ANYONE else None
        self.world.handlers["link_verify"] = tasks.verify

    def run(self) -> None:
        with replaced(verify_page_documents_max=PAGE):
            super().run()

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path.startswith(COLLECTION):
            super()._check_write(path, before, after)

    def _hear(self, ports: Ports, event: DocumentEvent) -> None:
        if self.deaf and self.world.random.random() < self.loss:
            self.world.log(f"event {event.id} is lost")
        else:
            refreshes.fan_out(ports, event)

    def _check_rest(self) -> None:
        """Run a verification first; then all properties must hold."""
        self.deaf = False
        self.world.run([self._begin, *[self.users.act] * self.world.random.randint(0, 2)])
        self.world.fault_rates.left = 0
        self._sweep_and_go_on()
        self._check_walk()
        super()._check_rest()

    def _begin(self) -> None:
        self.world.start("verify", lambda: self._ask(self.world.ports), self._asked)

    def _asked(self, done: bool) -> None:
        if not done:
            self._begin()

    @staticmethod
    def _ask(ports: Ports) -> None:
        verifications.begin(ports, OPERATION)

    def _sweep_and_go_on(self) -> None:
        """If a walk's task was committed and not handed over, the sweeper continues the walk, each time."""
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", self._swept)
            self.world.run()

    def _check_walk(self) -> None:
        walks = verifications.newest(self.world.reliable_ports())
        if [bool(walk.ended_at) for walk in walks] != [True]:
            raise Violation(f"one walk was requested, and {walks} found")
