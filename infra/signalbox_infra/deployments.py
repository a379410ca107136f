"""The deployments of a function: one, or two if it is open to the network and has tasks.

    deployments_of(quilt)      # quilt, for people, and quilt-tasks, which only the queues' account may call

`infra/locals.tf` says the same to Terraform; tests compare the two.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from signalbox.adapters.http.cloud_run import PEOPLE, TASKS
from signalbox.adapters.settings import TASKS_SUFFIX
from signalbox.catalogue.entries import Function


@dataclass(frozen=True, slots=True)
class Deployment:
    """A function's code under one address. `function` is its entry, narrowed to the callers at that address."""

    segment: str
    part: str
    function: Function


def deployments_of(function: Function) -> Iterable[Deployment]:
    """Iterate over the deployments of a function."""
    return _halves(function) if function.is_split else (Deployment(function.segment, "", function),)


def _halves(function: Function) -> Iterator[Deployment]:
    yield Deployment(function.segment, PEOPLE, _for_people(function))
    private = replace(function, invoked_by=("queue",), public=False, auth="", cors=(), exposes=())
    yield Deployment(function.segment + TASKS_SUFFIX, TASKS, private)


def _for_people(function: Function) -> Function:
    return replace(function, invoked_by=("people",), queues=(), tasks=(), objects=(), flows=(), exposes=())
