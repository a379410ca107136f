"""A branch of a flow: a generator that goes on when what it yielded has ended."""

from typing import TYPE_CHECKING, Any

from shared.core.rules.problems import Problem
from shared.flows.rules.failures import Cancelled, Stuck, changed, failed, place_of
from shared.flows.rules.nodes import Ended, Node, Parent
from shared.flows.rules.running import running

if TYPE_CHECKING:
    from shared.flows.rules.driver import Driver

CLOSES_MAX = 100
"""Yields of a clean-up that is closed; what is left then is left to the collector."""


class Branch:
    """A generator: it goes on when what it yielded has ended."""

    def __init__(self, driver: "Driver", path: str, code: Any, parent: Parent, slot: int) -> None:
        self.driver, self.path, self.parent, self.slot = driver, path, parent, slot
        self._code = code
        self._yields = 0
        self._waits: Node | None = None
        self._cancel_due: Ended | None = None
        self._cancelled = False
        driver.branches.append(self)

    @property
    def place(self) -> str:
        """Return where its code waits."""
        return place_of(self._code)

    def got(self, _: int, outcome: Ended) -> None:
        """Resume the code with the outcome of what it waited for."""
        if self._cancel_due and not self._yields:
            outcome, self._cancel_due = self._cancel_due, None
        self._waits = None
        try:
            item = self._resume(outcome)
        except StopIteration as stop:
            self.driver.ready.append((self.parent, self.slot, Ended(stop.value)))
        except (Problem, Cancelled) as error:
            self.driver.ready.append((self.parent, self.slot, Ended(error=error)))
        except Stuck:
            raise
        except Exception as error:
            raise failed(error) from error
        else:
            self._wait_for(item)

    def _resume(self, outcome: Ended) -> Any:
        self.driver.made.clear()
        with running(self.driver):
            item = self._code.send(outcome.value) if outcome.error is None else self._code.throw(outcome.error)
        for made, what in self.driver.made:
            if made() is None:
                raise changed(f"A command was made and neither yielded nor sent: {what}.", self.place)
        return item

    def _wait_for(self, item: Any) -> None:
        path = f"{self.path}.{self._yields}" if self.path else str(self._yields)
        self._yields += 1
        self._waits = self.driver.place(item, path, self, 0, self.place)
        if self._cancel_due:
            due, self._cancel_due = self._cancel_due, None
            self._waits.cancel(due)

    def cancel(self, outcome: Ended) -> bool:
        """Raise `Cancelled` where the code waits, or where it waits next; once, so that its clean-up can wait."""
        if not self._cancelled:
            self._cancelled = True
            if self._waits is None or not self._waits.cancel(outcome):
                self._cancel_due = outcome
        return True

    def abandon(self) -> None:
        raise AssertionError("an `any` takes no generators")

    def close(self) -> None:
        """Close the generator, yield after yield of its clean-up."""
        for _ in range(CLOSES_MAX):
            try:
                self._code.close()
            except RuntimeError:  # it yielded, and waits in its clean-up
                continue
            except (Exception, Cancelled):  # noqa: BLE001  whatever its clean-up raises, nobody waits for it
                return
            return
