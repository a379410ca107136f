"""Summarise a Terraform plan, from its JSON, for the person who confirms it.

Pure. Created and changed resources are counted. Destroyed and replaced ones are named, since that cannot be undone, and
so is every failing `check` of the configuration, such as a function that is open to all callers.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from signalbox.catalogue.parts import PARTS

FUNCTION = re.compile(r'module\.function\["(\w+)"\]\.google_cloudfunctions2_function\.function')
QUEUE = re.compile(r'google_cloud_tasks_queue\.queue\["([\w-]+)"\]')
NAMED_BY = ("name", "location", "project")


@dataclass(frozen=True, slots=True)
class Plan:
    """The addresses of resources that would be created, changed, replaced, destroyed and imported, and the warnings.

    `kept` are those that would be changed in place or not at all.
    """

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    destroyed: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    outputs_change: bool = False
    created_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    changed_values: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    """The values of resources that would be changed in place, before and after."""

    lost_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The present values of resources that are destroyed, or replaced by one with another name or in another place."""

    @property
    def empty(self) -> bool:
        """Whether applying the plan would change nothing."""
        changes = (self.created, self.changed, self.replaced, self.destroyed, self.imported)
        return not (any(changes) or self.outputs_change)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def read(document: Mapping[str, Any]) -> Plan:
    """Read the JSON of `terraform show -json PLAN`."""
    changes = document.get("resource_changes", ())
    outputs = document.get("output_changes", {}).values()
    created = _with(changes, ["create"])
    return Plan(
        created=created,
        changed=_with(changes, ["update"]),
        kept=_with(changes, ["no-op"], ["update"]),
        replaced=_with(changes, ["delete", "create"], ["create", "delete"]),
        destroyed=_with(changes, ["delete"]),
        imported=tuple(each["address"] for each in changes if each["change"].get("importing")),
        warnings=_warnings(document.get("checks", ())),
        created_values={
            each["address"]: each["change"].get("after") or {} for each in changes if each["address"] in created
        },
        changed_values={
            each["address"]: (each["change"].get("before") or {}, each["change"].get("after") or {})
            for each in changes
            if each["change"]["actions"] == ["update"]
        },
        lost_values={
            each["address"]: each["change"].get("before") or {} for each in changes if _is_lost(each["change"])
        },
        outputs_change=any(each["actions"] != ["no-op"] for each in outputs),
    )


def _with(changes: Any, *actions: list[str]) -> tuple[str, ...]:
    return tuple(each["address"] for each in changes if each["change"]["actions"] in actions)


def _is_lost(change: Mapping[str, Any]) -> bool:
    if "delete" not in change["actions"]:
        return False
    before, after = change.get("before") or {}, change.get("after") or {}
    return any(before.get(each) != after.get(each) for each in NAMED_BY) or change["actions"] == ["delete"]


def _warnings(checks: Any) -> tuple[str, ...]:
    instances = (instance for check in checks for instance in check.get("instances", ()))
    return tuple(problem["message"] for instance in instances for problem in instance.get("problems", ()))


def _lines(plan: Plan) -> Iterator[str]:
    yield from (f"Warning: {warning}" for warning in plan.warnings)
    if plan.empty:
        yield "No changes."
        return
    yield (
        f"Plan: {len(plan.created)} to create, {len(plan.changed)} to change, {len(plan.replaced)} to replace, "
        f"{len(plan.destroyed)} to destroy."
    )
    yield from (f"  adopts    {address}" for address in plan.imported)
    yield from (f"  changes   {address}" for address in plan.changed)
    yield from (f"  REPLACES  {address}" for address in plan.replaced)
    yield from (f"  DESTROYS  {address}" for address in plan.destroyed)


def added_parts(plan: Plan, parts: Mapping[str, str]) -> Iterator[str]:
    """Iterate over lines about the parts of the kit that a plan adds or extends, with what each follows from.

    `parts` are those of the catalogue.
    """
    for name, origin in parts.items():
        if added := _of_part(name, plan.created):
            yield f"  adds {name}, from {origin}: {', '.join(added)}"


def removed_parts(plan: Plan, parts: Collection[str]) -> Iterator[str]:
    """Iterate over lines about the parts of the kit that a plan removes, or of which it removes functions.

    `parts` are those of the catalogue.
    """
    for name in PARTS:
        if gone := _of_part(name, plan.destroyed):
            yield f"  removes {'functions of ' if name in parts else ''}{name}: {', '.join(gone)}"


def _of_part(name: str, addresses: Collection[str]) -> list[str]:
    """Return the functions and the queue of a part of the kit that are among some resources."""
    part = PARTS[name]
    functions, queues = (
        {found[1] for each in addresses if (found := kind.fullmatch(each))} for kind in (FUNCTION, QUEUE)
    )
    also = [f"the queue {part.queue}"] if part.queue in queues else []
    return [*(each for each in dict.fromkeys((*part.workers, *part.api)) if each in functions), *also]


def tainted(state: Mapping[str, Any]) -> list[str]:
    """Return the addresses whose creation failed half-way, from the JSON of `terraform show -json`."""
    return [each["address"] for each in resources(state) if each.get("tainted")]


def resources(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Iterate over the resources of a state, from the JSON of `terraform show -json`."""
    return _resources(state.get("values", {}).get("root_module", {}))


def _resources(module: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from module.get("resources", ())
    for child in module.get("child_modules", ()):
        yield from _resources(child)
