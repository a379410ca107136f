"""The two places where the job can run: a local stack, started for it, or any base URL, for instance in the cloud."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from signalbox_tools.local.stack import Stack


class CannotRun(Exception):
    """The local stack did not start, or could not be kept running."""


@dataclass(frozen=True, slots=True)
class LocalSite:
    """A local stack, where everything is visible."""

    stack: "Stack"

    def counts(self) -> Mapping[str, int]:
        return self.stack.counts()

    def wait_until_idle(self, seconds_max: float) -> None:
        self.stack.wait_until_idle(seconds_max)


class RemoteSite:
    """Functions of which only the answers are visible, so the job must poll."""

    def counts(self) -> Mapping[str, int]:
        return {}

    def wait_until_idle(self, seconds_max: float) -> None:
        """Return at once."""


@contextmanager
def local_stack(folder: Path) -> Iterator["Stack"]:
    """Start a local stack on free ports, with its databases and logs in `folder`. Raises `CannotRun`."""
    from signalbox_tools.local.stack import (  # a copy of these files that only calls the cloud does not need it
        Stack,
        StackError,
    )

    try:
        with Stack(port=None, folder=folder) as stack:
            yield stack
    except StackError as error:
        raise CannotRun(str(error)) from error
