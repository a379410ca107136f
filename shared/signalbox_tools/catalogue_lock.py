"""The lock of a catalogue: what Terraform deploys, as finished rows.

    lock(Path("infra/catalogue.yaml"))      # writes infra/catalogue.lock.yaml, and returns whether it changed

A row has everything that follows from the catalogue and the functions' code: one row for each deployment, queue,
trigger, schedule and index. Terraform adds only what depends on the environment and the project: the prefix of names,
accounts and addresses. The lock is next to the catalogue and is committed, so a diff shows each right that the code
gains.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from signalbox.adapters.http.cloud_run import PEOPLE, TASKS
from signalbox.catalogue.entries import Index, Queue, Schedule, Trigger
from signalbox.catalogue.function_entries import EGRESS, Function, url_segment
from signalbox.catalogue.parts import FUNCTIONS, SWEEP, collections_of
from signalbox.catalogue.reading import Catalogue, CatalogueError, databases_of, load
from signalbox.catalogue.writing import line_of, values_of
from signalbox.core.given import given
from signalbox.core.kit_names import queue_account
from signalbox.core.records.composite_indexes import IndexField
from signalbox_tools.function_deployments import Deployment, deployments_of, is_example

HEADING = "# Generated from {name} and the functions' code by `signalbox catalogue`. Commit it: Terraform reads it.\n"
FORMAT = 1
"""The format of the object that functions read (`Settings.with_catalogue`)."""

IN_BLOCKS = ("env",)
"""The members of a row that are written with each item on a separate line, so that a diff shows the changed item."""

RESOURCES = ("memory", "cpu", "concurrency", "timeout_seconds", "instances_max", "instances_min", "runtime")
VPC = {"network": None, "subnetwork": None, "egress": EGRESS[0]}
INDEX_ORDERS = {"ascending": "ASCENDING", "descending": "DESCENDING", "contains": None}


def lock_of(file: Path, database: str = "") -> Path:
    """Return the path of a catalogue's lock, or of the lock of one of its databases."""
    return file.with_name(f"{file.stem}.{database}.lock.yaml" if database else f"{file.stem}.lock.yaml")


def lock(file: Path) -> Sequence[Path]:
    """Write the locks of a catalogue's file. Return those that changed. Raises `CatalogueError` or `OSError`."""
    databases = ("", *databases_of(file))
    texts = {
        lock_of(file, each): HEADING.format(name=file.name) + text_of(load(file, database=each)) for each in databases
    }
    for place in sorted({*file.parent.glob(f"{file.stem}.*.lock.yaml")} - texts.keys()):
        gone = place.name.removeprefix(f"{file.stem}.").removesuffix(".lock.yaml")
        raise CatalogueError(
            f"{place.name} is there, and no function has the database {gone}. If the database is deployed, restore the "
            f"entry and run `signalbox destroy` with `-e ENVIRONMENT.{gone}`. Then remove the entry and this file"
        )
    changed = [place for place, text in texts.items() if not place.is_file() or place.read_text("utf-8") != text]
    for place in changed:
        place.write_text(texts[place], "utf-8")
    return changed


def text_of(catalogue: Catalogue) -> str:
    """Return the lock of a catalogue, without its heading."""
    return "".join(f"{line}\n" for line in _lines(rows_of(catalogue)))


def rows_of(catalogue: Catalogue) -> dict[str, Any]:
    """Return the rows that Terraform reads, by section and name."""
    return {
        "deployments": {
            deployment.name: _deployment(catalogue, function, deployment)
            for function in catalogue.functions.values()
            for deployment in deployments_of(function)
        },
        "queues": {name: _queue(queue) for name, queue in catalogue.shards.items()},
        "triggers": {name: _trigger(catalogue, trigger) for name, trigger in catalogue.triggers.items()},
        "schedules": {name: _schedule(schedule) for name, schedule in catalogue.schedules.items()},
        "indexes": {name: _index(index) for name, index in catalogue.indexes.items()},
        "history": [dict(values_of(history)) for _, history in sorted(catalogue.history.items())],
        "document_writers": catalogue.document_writers,
        "payloads": catalogue.payloads,
        "collections": collections_of(catalogue.parts),
        "shared": _shared(catalogue),
    }


def _deployment(catalogue: Catalogue, function: Function, deployment: Deployment) -> dict[str, Any]:
    """Return the row of a deployment of a function."""
    part, queues = deployment.part, sorted(catalogue.calling_queues.get(function.name, ()))
    others = {"": (), PEOPLE: ("queue", "event"), TASKS: ("people", "schedule")}[part]
    callers = [caller for caller in function.invoked_by if caller not in others]
    is_open = function.open_to_all and part != TASKS
    # Tasks that were created before the function was open have the address of people: they are enqueued again.
    enqueues = {*function.enqueues, *(queues if part == PEOPLE else ())}
    shards = {name: number for name, number in catalogue.queue_shards.items() if name in enqueues}
    return {
        "function": function.name,
        "segment": deployment.segment,
        "part": part,
        "example": is_example(catalogue, function),
        "kit_account": has_kit_account(function),
        "callers": callers,
        "queues": queues,
        "public": function.public and is_open,
        "open": is_open,
        "enqueues": catalogue.shards_of(enqueues),
        "invokes": list(function.invokes),
        "invokers_elsewhere": [] if part == TASKS else list(catalogue.invokers_elsewhere.get(function.name, ())),
        "roles": list(function.roles),
        "secrets": {name: _secret(secret) for name, secret in function.secrets.items()},
        "archives": [] if part == PEOPLE else list(function.archives),  # a task writes them
        "isolated": function.isolated,
        "vpc": {**VPC, **function.vpc} if function.vpc else None,
        "resources": {name: getattr(function, name) for name in RESOURCES},
        "env": {
            **function.env,
            **_kit_variables(catalogue, function, queues, is_open, "queue" in callers, part),
            **({"SIGNALBOX_QUEUE_SHARDS": _json(shards)} if shards else {}),
        },
    }


def _segment(catalogue: Catalogue, function: str) -> str:
    """Return the URL segment of a function of another database."""
    database = catalogue.elsewhere[function]
    return f"{database}-{url_segment(function)}" if database else url_segment(function)


def has_kit_account(function: Function) -> bool:
    """Return whether a function runs as the account of the kit's functions: it is one, and has no rights but theirs."""
    more = (function.secrets, function.invokes, function.roles, function.archives)
    return function.name in FUNCTIONS and not (any(more) or function.isolated or function.open_to_all)


def _kit_variables(
    catalogue: Catalogue, function: Function, queues: list[str], is_open: bool, by_queue: bool, part: str
) -> dict[str, str]:
    """Return the kit's own variables of a deployment.

    The variables include the deployment's callers, so no function can change its callers. A variable is set only where
    it is needed, so that a new origin, for instance, deploys only one function.
    """
    name = function.name
    variables = {
        "SIGNALBOX_CALLING_QUEUES": _json({name: queues} if queues else {}),
        "SIGNALBOX_QUEUE_BACKOFFS": _json({queue: _backoff(catalogue.queues[queue]) for queue in queues}),
        "SIGNALBOX_SPLIT_FUNCTIONS": _json([name] if function.is_split else []),
        # Cloud Run verifies the caller of a private function, and removes the token's signature before it calls it. It
        # admits every caller of an open one, where a token without a signature proves nothing.
        "SIGNALBOX_SIGNATURES": "checked" if is_open else "removed",
        "SIGNALBOX_TIMEOUT_SECONDS": str(function.timeout_seconds),
    }
    if is_open:
        variables["SIGNALBOX_OPEN"] = _json({name: sorted(function.exposes)})
    if is_open and function.auth:
        variables["SIGNALBOX_AUTH"] = _json({name: function.auth})
    if function.cors and part != TASKS:
        variables["SIGNALBOX_ORIGINS"] = _json({name: sorted(function.cors)})
    if part:
        variables["SIGNALBOX_PART"] = part
    if elsewhere := {each: _segment(catalogue, each) for each in function.invokes if each in catalogue.elsewhere}:
        variables["SIGNALBOX_ELSEWHERE"] = _json(elsewhere)
    if name == SWEEP:
        variables["SIGNALBOX_PARTS"] = _json(sorted(catalogue.parts))
    if by_queue:  # functions-framework ends a request at its time-out, before the task is delivered again
        variables["THREADED_TIMEOUT_ENABLED"] = "true"
    return variables


def _secret(secret: str) -> dict[str, str]:
    name, _, version = secret.partition(":")
    return {"secret": name, "version": version or "latest"}


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "account": queue_account(queue.name),
        "dispatches_per_second": queue.dispatches_per_second,
        "concurrent_max": queue.concurrent_max,
        "attempts_max": queue.attempts_max,
        "backoff_min": _duration(queue.backoff_min_seconds),
        "backoff_max": _duration(queue.backoff_max_seconds),
        "doublings_max": queue.doublings_max,
    }


def _backoff(queue: Queue) -> list[float]:
    return [_number(queue.backoff_min_seconds), _number(queue.backoff_max_seconds), queue.doublings_max]


def _duration(seconds: float) -> str:
    """Return a duration as the API returns it (``0.200s``): every plan would show any other form as a change."""
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds:.3f}s"


def _trigger(catalogue: Catalogue, trigger: Trigger) -> dict[str, Any]:
    """Return the row of a trigger.

    A trigger with a handler delivers to the deployment for tasks, at the trigger's own `path`.
    """
    *_, last = deployments_of(catalogue.functions[trigger.function])
    where = {"function": trigger.function, "deployment": last.name, "path": trigger.path}
    return {**where, "event": trigger.event, "document": trigger.document}


def _schedule(schedule: Schedule) -> dict[str, Any]:
    """Return the row of a schedule. `call` is the body of the schedule's request, as JSON."""
    call = {"function": schedule.function, "task": schedule.task, "payload": schedule.arguments}
    return {
        "function": schedule.function,
        "segment": url_segment(schedule.called),
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "call": call if schedule.task else None,
    }


def _index(index: Index) -> dict[str, Any]:
    return {"collection": index.collection, "fields": [_index_field(field) for field in index.parsed.fields]}


def _index_field(field: IndexField) -> dict[str, Any]:
    array = "CONTAINS" if field.kind == "contains" else None
    return {"path": ".".join(field.field), "order": INDEX_ORDERS[field.kind], "array": array}


def _shared(catalogue: Catalogue) -> dict[str, Any]:
    """Return the data that each function needs about all others. A function reads it when it first needs it.

    If it were in the functions' environments, a new function would update all of them.
    """
    return {
        "format": FORMAT,
        "task_functions": _sorted(catalogue.task_functions),
        "task_parameters": {name: dict(tasks) for name, tasks in catalogue.task_parameters.items()},
        "task_queues": sorted(catalogue.task_queues),
        "calling_queues": _sorted(catalogue.calling_queues),
        "object_classes": dict(catalogue.object_classes),
        "flow_functions": dict(catalogue.flow_functions),
        "split_functions": sorted(catalogue.split_functions),
        **given(elsewhere={name: _segment(catalogue, name) for name in sorted(catalogue.elsewhere)} or None),
    }


def _sorted(names: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(listed) for name, listed in names.items()}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _number(value: float) -> float:
    return int(value) if value == int(value) else value


def _lines(section: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Iterate over the lines of the lock: sections, names and members in blocks, a member's value on its line."""
    for key, value in section.items():
        if isinstance(value, dict) and value and (depth < 2 or key in IN_BLOCKS):
            yield f"{'  ' * depth}{key}:"
            yield from _lines(value, depth + 1)
        else:
            yield f"{'  ' * depth}{line_of(key, value)}"
