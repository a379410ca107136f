"""Documents whose events are lost, and a walk that repairs what they leave; once idle, every copy is current.

While users put, delete and write past the kit, each event may be lost. Then events work again and a walk
begins, with users, crashes and lost answers meanwhile. The properties are those of the links, without exception.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.core.operations.ports import DocumentEvent, Ports, Snapshot
from shared.core.rules.limits import LIMITS
from shared.documents.rules.documents import COLLECTION
from shared.links.operations import fan_out, verification
from tests.simulation.links_kinds import Kind, Kinds
from tests.simulation.links_world import LinksWorld
from tests.simulation.world import Violation

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


def run(seed: int, trace: Callable[[str], None] | None = None, kinds: Kinds = KINDS) -> None:
    """Run one seed that loses events and is verified. Raises `Violation` when a property does not hold."""
    VerifyWorld(seed, trace, kinds).run()


class VerifyWorld(LinksWorld):
    """The world of links with a deaf time at its beginning, and a walk after it."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, kinds: Kinds) -> None:
        super().__init__(seed, trace, kinds)
        self.loss = self.world.random.choice(LOSSES)
        self.deaf = True
        self.world.events.handler = self._hear
        self.world.handlers["link_verify"] = verification.run_verification_task

    def run(self) -> None:
        with LIMITS.replaced(verify_page_documents_max=PAGE):
            super().run()

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        if path.startswith(COLLECTION):
            super()._check_write(path, before, after)

    def _hear(self, ports: Ports, event: DocumentEvent) -> None:
        if self.deaf and self.world.random.random() < self.loss:
            self.world.log(f"event {event.id} is lost")
        else:
            fan_out.fan_out(ports, event)

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
        verification.begin(ports, OPERATION)

    def _sweep_and_go_on(self) -> None:
        """A walk whose task was committed and not handed over goes on with the sweeper, as often as that happened."""
        for _ in range(2):
            self.world.pass_time(LIMITS.outbox_patience_seconds + 1)
            self.world.start("sweep", self._swept)
            self.world.run()

    def _check_walk(self) -> None:
        walks = verification.newest(self.world.reliable_ports())
        if [bool(walk.ended_at) for walk in walks] != [True]:
            raise Violation(f"one walk was requested, and {walks} found")
