"""The deployments of a function: one, or two if it is open to the network and has tasks.

    deployments_of(quilt)      # quilt, for people, and quilt-tasks, which only the queues' accounts may call

Only the queues' accounts may call the second one, so Cloud Run verifies its callers. `catalogue_lock` writes a row of
each for Terraform.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from signalbox.adapters.http.cloud_run import PEOPLE, TASKS
from signalbox.adapters.settings import TASKS_SUFFIX
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.reading import Catalogue


@dataclass(frozen=True, slots=True)
class Deployment:
    """A function's code under one address. `function` is its entry, narrowed to the callers at that address."""

    name: str
    segment: str
    part: str
    function: Function


def is_example(catalogue: Catalogue, function: Function) -> bool:
    """Return whether a function is one of the kit's examples, which only some environments deploy."""
    return catalogue.root / "examples" in function.folder.parents


def deployments_of(function: Function, calling_queues: Iterable[str] = ()) -> Iterable[Deployment]:
    """Iterate over the deployments of a function that these queues call."""
    whole = Deployment(function.name, function.segment, "", function)
    return _halves(function, calling_queues) if function.is_split else (whole,)


def _halves(function: Function, calling_queues: Iterable[str]) -> Iterator[Deployment]:
    yield Deployment(function.name, function.segment, PEOPLE, _for_people(function, calling_queues))
    callers = tuple(each for each in function.invoked_by if each in ("queue", "event"))
    private = replace(function, invoked_by=callers, public=False, auth="", cors=(), exposes=())
    yield Deployment(f"{function.name}_tasks", function.segment + TASKS_SUFFIX, TASKS, private)


def _for_people(function: Function, calling_queues: Iterable[str]) -> Function:
    """Return the part for people. It also receives tasks from before the function was open, and enqueues them again."""
    enqueues = tuple(sorted({*function.enqueues, *calling_queues}))
    callers = ("people", "queue")
    return replace(
        function, invoked_by=callers, enqueues=enqueues, queues=(), tasks=(), objects=(), flows=(), exposes=()
    )
