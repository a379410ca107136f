"""The two places where the job can run: a local stack, started for it, or any base URL, one in the cloud too."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infra.local.stack import Stack

QUIET_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class LocalSite:
    """A local stack, where everything is to be seen."""

    stack: "Stack"

    def counts(self) -> Mapping[str, int]:
        return self.stack.counts()

    def wait_until_quiet(self) -> None:
        self.stack.wait_until_idle(QUIET_SECONDS_MAX)


class RemoteSite:
    """Functions of which nothing is to be seen but their answers: the job's own polling has to do."""

    def counts(self) -> Mapping[str, int]:
        return {}

    def wait_until_quiet(self) -> None:
        """Return at once."""
