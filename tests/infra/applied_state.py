"""Read Terraform's state back as a catalogue: what is deployed, in the form of what was requested.

    applied = read(json.loads(terraform_show_json), folders)
    applied.catalogue.functions["sweep"].invoked_by       # ("schedule",)
    applied.environments["sweep"]["SIGNALBOX_DATABASE"]   # "signalbox-dev"

A function's invokers and queues follow from the IAM bindings in the state. So a function that the catalogue lets queues
call, and that no queue's account may call, reads as one that queues do not call. A function of the kit may enqueue to
all queues to which one of them may: they share an account. Refused is what the cloud accepts and what then never works:
a trigger on a database that no function writes, a schedule with an account that functions do not expect.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from signalbox.adapters.http.cloud_run import TASKS
from signalbox.catalogue.catalogue_errors import refuse
from signalbox.catalogue.entries import History, Index, Queue, Schedule, Trigger
from signalbox.catalogue.function_entries import (
    BUCKET_OF_THE_KIT,
    EGRESS,
    RESERVED_BEGINNINGS,
    RESERVED_VARIABLES,
    Function,
)
from signalbox.catalogue.reading import Catalogue
from signalbox.core.given import given
from signalbox.core.kit_names import CALL_OBJECT, DOCUMENT_EVENTS_PATH, FLOWS_QUEUE, OBJECTS_QUEUE, queue_account
from signalbox.flows.storage.listings import INDEXES

ARCHIVE = "google_storage_bucket_iam_member"
INVOKER = "google_cloud_run_service_iam_member"
ACTS_AS = "google_service_account_iam_binding"
DATABASE_USERS = "google_project_iam_binding"
ENQUEUER = "google_cloud_tasks_queue_iam_binding"
FUNCTION = "google_cloudfunctions2_function"
INDEX = "google_firestore_index"
PROJECT_ROLE = "google_project_iam_member"
QUEUE = "google_cloud_tasks_queue"
OBJECT = "google_storage_bucket_object"
SCHEDULE = "google_cloud_scheduler_job"
TRIGGER = "google_eventarc_trigger"
EVERYBODY = "allUsers"
DIRECTIONS = {"ASCENDING": "", "DESCENDING": "-", None: "", "": ""}

Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AppliedState:
    """A deployment: its catalogue, and each function's environment variables by the function's name.

    `shared` is the content of the object that functions read (`Settings.with_catalogue`).
    """

    catalogue: Catalogue
    environments: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Any]


def read(
    shown: Mapping[str, Any], folders: Mapping[str, Path], root: Path, local_every_seconds: float = 2
) -> AppliedState:
    """Read the output of ``terraform show -json``.

    `folders` has each function's ``main.py``. By the catalogue's `root`, functions of the kit differ from those of a
    user. The cloud does not know how often schedules run locally: all of them run every `local_every_seconds`. A
    trigger is named after its function. Raises `CatalogueError` when what was applied contradicts itself.
    """
    state = _State(shown)
    refuse(not state.functions, "nothing was applied: there is no function in this state")
    refuse(not state.shared, "the list of functions that they read was not applied")
    return AppliedState(
        Catalogue(
            root=root,
            functions=MappingProxyType({name: _function(state, name, folders[name]) for name in state.functions}),
            queues=MappingProxyType({queue.name: queue for queue in map(state.queue, state.of(QUEUE))}),
            triggers=MappingProxyType({trigger.name: trigger for trigger in _triggers(state)}),
            schedules=MappingProxyType({each.name: each for each in _schedules(state, local_every_seconds)}),
            indexes=MappingProxyType({each.name: each for each in _indexes(state)}),
            history=MappingProxyType({each.name: each for each in _histories(state)}),
            document_writers=state.environment["SIGNALBOX_DOCUMENT_WRITERS"],
        ),
        MappingProxyType(
            {name: _service(each)["environment_variables"] for name, each in state.functions.items()}
            | {f"{name}_tasks": _service(each)["environment_variables"] for name, each in state.private_halves.items()}
        ),
        MappingProxyType(dict(state.shared)),
    )


class _State:
    """The resources of a state; `plain` names lack the deployment's prefix."""

    def __init__(self, shown: Mapping[str, Any]) -> None:
        self._resources = list(_resources(shown.get("values", {}).get("root_module", {})))
        deployed = [(each["build_config"][0]["entry_point"], each) for each in self.of(FUNCTION)]
        self.functions = {name: each for name, each in deployed if _part(each) != TASKS}
        self.private_halves = {name: each for name, each in deployed if _part(each) == TASKS}
        environments = (_service(each)["environment_variables"] for each in self.functions.values())
        self.environment: Mapping[str, str] = next(environments, {})
        lists = (
            each
            for each in self.of(OBJECT)
            if f"{each['bucket']}/{each['name']}" == self.environment.get("SIGNALBOX_CATALOGUE", "")
        )
        self.shared: Mapping[str, Any] = next((json.loads(each["content"]) for each in lists), {})

    def of(self, kind: str) -> list[Resource]:
        return [values for type_, values in self._resources if type_ == kind]

    def plain(self, name: str) -> str:
        """Return a name without the deployment's prefix."""
        return name.removeprefix(self.environment["SIGNALBOX_QUEUE_PREFIX"])

    def account_of(self, queue: str) -> str:
        """Return the account that functions expect a queue to call as."""
        return self.environment["SIGNALBOX_TASKS_ACCOUNT"].replace("{queue}", queue_account(queue))

    def queue(self, values: Resource) -> Queue:
        rates, retries = values["rate_limits"][0], values["retry_config"][0]
        return Queue(
            name=self.plain(values["name"]),
            dispatches_per_second=rates["max_dispatches_per_second"],
            concurrent_max=rates["max_concurrent_dispatches"],
            attempts_max=retries["max_attempts"],
            backoff_min_seconds=_seconds(retries["min_backoff"]),
            backoff_max_seconds=_seconds(retries["max_backoff"]),
            doublings_max=retries["max_doublings"],
        )


def _function(state: _State, name: str, folder: Path) -> Function:
    values = state.functions[name]
    service = _service(values)
    auth = json.loads(service["environment_variables"].get("SIGNALBOX_AUTH", "{}")).get(name, "")
    callers = _callers(state, values)
    halves = [each for each in (values, state.private_halves.get(name)) if each is not None]
    return Function(
        name=name,
        folder=folder,
        invoked_by=tuple(dict.fromkeys(one for half in halves for one in _invokers(state, half))),
        queues=tuple(_unless_usual(state, sorted({one for half in halves for one in _calling(state, half)}))),
        tasks=tuple(_tasks(state, name)),
        objects=tuple(_listed(state, "object_classes", name)),
        flows=tuple(_listed(state, "flow_functions", name)),
        enqueues=tuple(sorted(set.intersection(*(_enqueues(state, half) for half in halves)))),
        parameters=state.shared["task_parameters"].get(name, {}),
        public=EVERYBODY in callers and not auth,
        auth=auth if EVERYBODY in callers else "",
        cors=tuple(json.loads(service["environment_variables"].get("SIGNALBOX_ORIGINS", "{}")).get(name, ())),
        exposes=tuple(json.loads(service["environment_variables"].get("SIGNALBOX_OPEN", "{}")).get(name, ())),
        memory=service["available_memory"],
        cpu=float(service["available_cpu"]),
        concurrency=service["max_instance_request_concurrency"],
        timeout_seconds=service["timeout_seconds"],
        instances_max=service["max_instance_count"],
        instances_min=service["min_instance_count"] or 0,
        runtime=values["build_config"][0]["runtime"],
        env={key: text for key, text in service["environment_variables"].items() if not _is_reserved(key)},
        secrets={each["key"]: _version(each) for each in service.get("secret_environment_variables") or ()},
        roles=tuple(sorted(_own_roles(state, values))),
        invokes=tuple(sorted(_invoked(state, values))),
        archives=tuple(sorted({bucket for half in halves for bucket in _archives(state, half)})),
        isolated=not _may_use_the_database(state, values),
        vpc=_vpc(service),
    )


def _vpc(service: Resource) -> dict[str, str]:
    """Return the network of a function; `egress` only if it is not the default."""
    for interface in service.get("direct_vpc_network_interface") or ():
        egress = EGRESS[1] if service["direct_vpc_egress"] == "VPC_EGRESS_ALL_TRAFFIC" else None
        return {key: interface[key] for key in ("network", "subnetwork") if interface[key]} | given(egress=egress)
    return {}


def _is_reserved(variable: str) -> bool:
    return variable.startswith(RESERVED_BEGINNINGS) or variable in RESERVED_VARIABLES


def _version(secret: Mapping[str, str]) -> str:
    return secret["secret"] if secret["version"] == "latest" else f"{secret['secret']}:{secret['version']}"


def _own_roles(state: _State, values: Resource) -> set[str]:
    """Return the roles of the project that a function's account has without a condition: those of its entry."""
    member = _member(values)
    granted = (each for each in state.of(PROJECT_ROLE) if each["member"] == member and not each["condition"])
    return {each["role"] for each in granted}


def _archives(state: _State, values: Resource) -> Iterator[str]:
    """Iterate over the buckets of archives to which a function's account may write: not that of large values."""
    member = _member(values)
    buckets = (each["bucket"] for each in state.of(ARCHIVE) if each["member"] == member)
    return (bucket for bucket in buckets if not BUCKET_OF_THE_KIT.fullmatch(bucket))


def _invoked(state: _State, values: Resource) -> set[str]:
    """Return the other functions that a function's account may invoke."""
    member = _member(values)
    return {name for name, other in state.functions.items() if member in _callers(state, other)}


def _may_use_the_database(state: _State, values: Resource) -> bool:
    member = _member(values)
    return any(
        member in each["members"] and each["role"] == "roles/datastore.user" for each in state.of(DATABASE_USERS)
    )


def _histories(state: _State) -> Iterator[History]:
    """Iterate over the declared histories, which the cloud knows in their order and without their names."""
    for number, declared in enumerate(json.loads(state.environment.get("SIGNALBOX_HISTORY", "[]"))):
        yield History(name=f"history-{number:03}", **{**declared, "keys": tuple(declared.get("keys", ()))})


def _tasks(state: _State, name: str) -> Iterator[str]:
    listed = state.shared["task_functions"].get(name, ())
    return (task for task in listed if task != CALL_OBJECT)


def _listed(state: _State, setting: str, name: str) -> Iterator[str]:
    """Iterate over what a setting, which has a function for each, has for the function `name`."""
    return (each for each, function in state.shared[setting].items() if function == name)


def _callers(state: _State, values: Resource) -> set[str]:
    return {each["member"] for each in state.of(INVOKER) if each["service"] == values["name"]}


def _part(values: Resource) -> str:
    part: str = _service(values)["environment_variables"].get("SIGNALBOX_PART", "")
    return part


def _enqueues(state: _State, values: Resource) -> set[str]:
    """Return the queues that a function may enqueue to: it has that role, and may act as the queue's account."""
    member = _member(values)
    acts_as = {each["service_account_id"].rpartition("/")[2] for each in state.of(ACTS_AS) if member in each["members"]}
    queues = (state.plain(each["name"]) for each in state.of(ENQUEUER) if member in each["members"])
    return {queue for queue in queues if state.account_of(queue) in acts_as}


def _calling(state: _State, values: Resource) -> list[str]:
    """Return the queues that call a function: it expects them, and their accounts may invoke it."""
    callers = _callers(state, values)
    expected = json.loads(_service(values)["environment_variables"]["SIGNALBOX_CALLING_QUEUES"])
    queues = {queue for queues in expected.values() for queue in queues}
    return sorted(queue for queue in queues if f"serviceAccount:{state.account_of(queue)}" in callers)


def _unless_usual(state: _State, queues: list[str]) -> list[str]:
    usual = sorted(state.shared["task_queues"])
    others = [queue for queue in queues if queue not in (OBJECTS_QUEUE, FLOWS_QUEUE)]
    return [] if others == usual else others


def _invokers(state: _State, values: Resource) -> Iterator[str]:
    """Iterate over the invokers of a function: each needs the role, and people an ingress that admits them."""
    accounts = {
        "queue": {f"serviceAccount:{state.account_of(queue)}" for queue in _calling(state, values)},
        "event": {
            *(f"serviceAccount:{each['service_account_email']}" for each in values["event_trigger"]),
            *(f"serviceAccount:{each['service_account']}" for each in _handled(state, values)),
        },
        "schedule": {f"serviceAccount:{state.environment['SIGNALBOX_SCHEDULER_ACCOUNT']}"},
    }
    callers = _callers(state, values)
    if _service(values)["ingress_settings"] in ("ALLOW_ALL", "ALLOW_INTERNAL_AND_GCLB"):
        yield "people"
    yield from (invoker for invoker, members in accounts.items() if members & callers)


def _triggers(state: _State) -> Iterator[Trigger]:
    for name, values in state.functions.items():
        for each in values["event_trigger"]:
            filters = {one["attribute"]: one["value"] for one in each["event_filters"]}
            segment, database = state.plain(values["name"]), state.environment["SIGNALBOX_DATABASE"]
            refuse(
                filters["database"] != database, f"triggers.{segment}: listens to {filters['database']}, not {database}"
            )
            yield Trigger(name=segment, function=name, event=each["event_type"], document=filters["document"])
        for half in (values, state.private_halves.get(name)):
            for trigger in _handled(state, half) if half is not None else ():
                yield _trigger(state, name, trigger)


def _handled(state: _State, values: Resource) -> list[Resource]:
    """Return the triggers that deliver to a function's service, one for each handler."""
    return [each for each in state.of(TRIGGER) if _delivers_to(each)["service"] == values["name"]]


def _delivers_to(trigger: Resource) -> Resource:
    service: Resource = trigger["destination"][0]["cloud_run_service"][0]
    return service


def _trigger(state: _State, function: str, values: Resource) -> Trigger:
    name, filters = state.plain(values["name"]), {one["attribute"]: one["value"] for one in values["matching_criteria"]}
    database, path = state.environment["SIGNALBOX_DATABASE"], _delivers_to(values)["path"]
    refuse(filters["database"] != database, f"triggers.{name}: listens to {filters['database']}, not {database}")
    handler = path.removeprefix(f"{DOCUMENT_EVENTS_PATH}/")
    return Trigger(name=name, function=function, event=filters["type"], document=filters["document"], handler=handler)


def _schedules(state: _State, local_every_seconds: float) -> Iterator[Schedule]:
    for values in state.of(SCHEDULE):
        name, target = state.plain(values["name"]), values["http_target"][0]
        account, audience = (target["oidc_token"][0][key] for key in ("service_account_email", "audience"))
        expected = state.environment["SIGNALBOX_SCHEDULER_ACCOUNT"]
        refuse(account != expected, f"schedules.{name}: calls as {account}, and functions expect {expected}")
        refuse(target["uri"] != f"{audience}/", f"schedules.{name}: calls {target['uri']} with a token for {audience}")
        called = [function for function, each in state.functions.items() if _address(state, each) == audience]
        refuse(len(called) != 1, f"schedules.{name}: no function is at {audience}")
        enqueued = json.loads(base64.b64decode(target["body"])) if target["body"] else {}
        yield Schedule(
            name=name,
            function=enqueued.get("function", called[0]),
            cron=values["schedule"],
            time_zone=values["time_zone"],
            local_every_seconds=local_every_seconds,
            task=enqueued.get("task", ""),
            arguments=enqueued.get("payload", {}),
        )


def _indexes(state: _State) -> list[Index]:
    """Return the indexes that the catalogue declares. Every deployment also has those of the kit's lists."""
    return [each for each in map(_index, state.of(INDEX)) if each.parsed not in INDEXES]


def _index(values: Resource) -> Index:
    fields = (
        f"{DIRECTIONS[each['order']]}{each['field_path']}{'' if each['order'] else '[]'}" for each in values["fields"]
    )
    return Index(name=values["key"].rpartition("/")[2], collection=values["collection"], fields=tuple(fields))


def _address(state: _State, function: Resource) -> str:
    return state.environment["SIGNALBOX_FUNCTION_URL"].replace("{function}", state.plain(function["name"]))


def _member(function: Resource) -> str:
    """Return the account that a function runs as, as a member of a policy."""
    return f"serviceAccount:{_service(function)['service_account_email']}"


def _service(function: Resource) -> Resource:
    service: Resource = function["service_config"][0]
    return service


def _seconds(duration: str) -> float:
    return float(re.sub("s$", "", duration))


def _resources(module: Mapping[str, Any]) -> Iterator[tuple[str, Resource]]:
    """Return every resource's kind and values; its ``key`` among its like is one of them."""
    listed = (each for each in module.get("resources", []) if each["mode"] == "managed")
    yield from ((each["type"], {**each["values"], "key": each.get("index")}) for each in listed)
    for child in module.get("child_modules", []):
        yield from _resources(child)
