"""The catalogue is read as written, and nonsense is refused by name."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox.catalogue.cron import cron_error
from signalbox.catalogue.reading import CATALOGUE, CatalogueError, Queue, Schedule, Trigger, load, parse, url_segment
from signalbox.core.kit_names import LINK_FAN_OUT
from signalbox.core.records.composite_indexes import Index, IndexField
from signalbox.history.model import HistoryRule
from signalbox_tools.function_deployments import deployments_of

QUEUE: dict[str, Any] = {
    "dispatches_per_second": 100,
    "concurrent_max": 8,
    "attempts_max": -1,
    "backoff_min_seconds": 0.2,
    "backoff_max_seconds": 60,
    "doublings_max": 8,
}
WRITTEN = "google.cloud.firestore.document.v1.written"


def content(**changes: Any) -> dict[str, Any]:
    return {
        "functions": {
            "keep": {"invoked_by": ["people"], "enqueues": ["later"]},
            "follow_up": {"invoked_by": ["event"]},
            "tidy": {"invoked_by": ["schedule", "queue"], "folder": "elsewhere/tidy"},
        },
        "queues": {"later": dict(QUEUE)},
        "triggers": {"kept": {"function": "follow_up", "event": WRITTEN, "document": "things/{id}"}},
        "schedules": {"nightly": {"function": "tidy", "cron": "0 3 * * *", "local_every_seconds": 2}},
        "history": {"things": {"prefix": "t-", "days_max": 7}, "bills": {"type": "Bill"}},
        "indexes": {"by-city": {"collection": "things", "fields": ["address.city", "tags[]", "-size"]}},
        **changes,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("functions/keep", "functions/follow_up", "elsewhere/tidy", "infra"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "main.py").touch()
    return tmp_path


def test_a_catalogue_is_read_as_written(root: Path) -> None:
    (root / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content()))
    catalogue = load(root / "infra" / "catalogue.yaml")
    keep, follow_up, tidy = (catalogue.functions[name] for name in ("keep", "follow_up", "tidy"))
    assert (keep.folder, tidy.folder) == (root / "functions" / "keep", root / "elsewhere" / "tidy")
    assert (keep.invoked_by, keep.enqueues, keep.public) == (("people",), ("later",), False)
    assert (follow_up.segment, follow_up.signature_type, keep.signature_type) == ("follow-up", "cloudevent", "http")
    assert catalogue.queues == {"later": Queue(name="later", **QUEUE)}
    assert catalogue.triggers["kept"] == Trigger(
        name="kept", function="follow_up", event=WRITTEN, document="things/{id}"
    )
    assert catalogue.schedules["nightly"] == Schedule(
        name="nightly", function="tidy", cron="0 3 * * *", local_every_seconds=2
    )
    assert catalogue.indexes["by-city"].parsed == Index(
        "things",
        (
            IndexField(("address", "city")),
            IndexField(("tags",), "contains"),
            IndexField(("size",), "descending"),
        ),
    )
    assert catalogue.history_rules == (HistoryRule(type="Bill"), HistoryRule(prefix="t-", days_max=7))


def test_a_catalogue_whose_documents_only_the_kit_writes_has_no_function_for_their_events() -> None:
    named = load()
    text = CATALOGUE.read_text("utf-8") + "\ndocuments: {written_by: kit}\n"
    kit = parse(yaml.safe_load(text), named.root)
    assert (named.document_writers, kit.document_writers) == ("anyone", "kit")
    assert named.functions.keys() - kit.functions.keys() == {LINK_FAN_OUT}
    assert named.triggers.keys() - kit.triggers.keys() == {"documents"}


def test_the_kits_own_catalogue_is_sound_and_no_two_functions_share_an_address() -> None:
    segments = [function.segment for function in load().functions.values()]
    assert "link-fan-out" in segments
    assert len(set(segments)) == len(segments)


def test_calls_may_name_what_is_a_users_own_and_takes_tasks_and_queues_that_never_give_up(root: Path) -> None:
    tidy = {"invoked_by": ["queue"], "folder": "elsewhere/tidy", "tasks": ["sweep"]}
    own = {"keep": {"invoked_by": ["people", "queue"]}, "tidy": tidy}
    queues = {"later": QUEUE, "soon": QUEUE | {"attempts_max": 5}}
    catalogue = parse({"functions": own, "queues": queues}, root)
    assert (catalogue.task_functions, catalogue.task_queues) == ({"tidy": frozenset({"sweep"})}, frozenset({"later"}))


def test_calls_name_a_queue_and_none_of_its_shards(root: Path) -> None:
    catalogue = parse(queue(shards=3), root)
    assert catalogue.task_queues == {"later"}
    assert catalogue.calling_queues == {"tidy": {"later"}}
    assert list(catalogue.shards) == ["later", "later-2", "later-3"]
    assert catalogue.queue_shards == {"later": 3}


def test_a_queue_that_the_kit_keeps_for_itself_carries_no_users_task(root: Path) -> None:
    tidy = {"invoked_by": ["queue"], "folder": "elsewhere/tidy", "tasks": ["sweep"]}
    keep = {"invoked_by": ["queue"], "queues": ["inner"]}
    queues = {"later": QUEUE, "inner": QUEUE}
    catalogue = parse({"functions": {"keep": keep, "tidy": tidy}, "queues": queues}, root)
    assert catalogue.task_queues == {"later"}
    assert catalogue.calling_queues == {"keep": {"inner"}, "tidy": {"later"}}


def test_a_function_may_name_the_queues_that_call_it(root: Path) -> None:
    tidy = {"invoked_by": ["queue"], "folder": "elsewhere/tidy", "tasks": ["sweep"]}
    queues = {"later": QUEUE, "soon": QUEUE, "lossy": QUEUE | {"attempts_max": 5}}
    catalogue = parse({"functions": {"tidy": tidy | {"queues": ["soon"]}}, "queues": queues}, root)
    assert catalogue.calling_queues == {"tidy": {"soon"}}
    assert catalogue.task_queues == {"later", "soon"}
    for wrong, complaint in (
        ({"queues": ["nowhere"]}, "queues: no queue is named 'nowhere'"),
        ({"queues": ["lossy"]}, "drop tasks: set attempts_max: -1"),
        (
            {"queues": ["soon"], "tasks": [], "invoked_by": ["people"]},
            "queues names its callers: add queue to invoked_by",
        ),
    ):
        with pytest.raises(CatalogueError, match=complaint):
            parse({"functions": {"tidy": tidy | wrong}, "queues": queues}, root)


def with_objects(queues: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    tidy = {"invoked_by": ["queue"], "folder": "elsewhere/tidy", "objects": ["Counter"], **changes}
    return {"functions": {"tidy": tidy}, "queues": {"later": QUEUE, "objects": QUEUE} if queues is None else queues}


def test_a_class_of_objects_has_a_function_that_its_queue_and_calls_of_its_methods_reach(root: Path) -> None:
    catalogue = parse(with_objects(), root)
    assert catalogue.object_classes == {"Counter": "tidy"}
    assert catalogue.calling_queues == {"tidy": {"later", "objects"}}
    assert catalogue.task_queues == {"later"}
    assert catalogue.task_functions == {"tidy": {"call_object"}}
    assert parse(with_objects(queues={"objects": QUEUE}), root).calling_queues == {"tidy": {"objects"}}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (with_objects(invoked_by=["people"]), "add queue to invoked_by"),
        (with_objects(objects=["no class"]), "not a name for a class of objects"),
        (with_objects(tasks=["call_object"]), "a task of the kit"),
        (with_objects(queues={"later": QUEUE}), "need a queue objects"),
        (with_objects(queues={"later": QUEUE, "objects": QUEUE | {"attempts_max": 5}}), "need a queue objects"),
    ],
)
def test_objects_that_nothing_could_wake_are_refused(root: Path, wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        parse(wrong, root)


def test_a_class_of_objects_has_one_function(root: Path) -> None:
    both = with_objects()
    both["functions"]["keep"] = {"invoked_by": ["queue"], "objects": ["Counter"]}
    with pytest.raises(CatalogueError, match="already has the class Counter"):
        parse(both, root)


def with_flows(queues: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    queues = {"later": QUEUE, "tasks": QUEUE, "flows": QUEUE} if queues is None else queues
    return with_objects(queues, **{"objects": [], "flows": ["checkout"], **changes})


def test_a_flow_has_a_function_that_the_queue_of_wake_ups_reaches(root: Path) -> None:
    catalogue = parse(with_flows(), root)
    assert (catalogue.flow_functions, catalogue.object_classes) == ({"checkout": "tidy"}, {})
    assert catalogue.calling_queues == {"tidy": {"later", "tasks", "flows"}}
    assert catalogue.task_functions == {"tidy": set()}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (with_flows(invoked_by=["people"]), "flows are woken by a queue: add queue to invoked_by"),
        (with_flows(flows=["no-flow"]), "flows names 'no-flow', which is not a name of a Python function"),
        (with_flows(queues={"later": QUEUE}), "its flows need a queue flows"),
        (with_flows(queues={"flows": QUEUE}), "flows receive results through the queue tasks"),
    ],
)
def test_flows_that_nothing_could_wake_are_refused(root: Path, wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        parse(wrong, root)


def test_a_flow_has_one_function(root: Path) -> None:
    both = with_flows()
    both["functions"]["keep"] = {"invoked_by": ["queue"], "flows": ["checkout"]}
    with pytest.raises(CatalogueError, match="already has the flow checkout"):
        parse(both, root)


def test_a_function_for_queues_that_no_queue_may_call_is_refused(root: Path) -> None:
    with pytest.raises(CatalogueError, match="no queue may call it: name a queue in its queues"):
        parse({"functions": {"keep": {"invoked_by": ["queue"]}}, "queues": {"a": QUEUE | {"attempts_max": 1}}}, root)


def test_an_instance_is_sized_as_the_catalogue_declares(root: Path) -> None:
    small = {"memory": "1Gi", "cpu": 0.5, "concurrency": 1, "timeout_seconds": 30, "instances_max": 2}
    keep = parse(function(**small), root).functions["keep"]
    assert {name: getattr(keep, name) for name in small} == small


def test_the_origins_of_pages_are_those_of_the_entries(root: Path) -> None:
    pages = ["https://app.example.com", "http://localhost:5173", "http://[::1]:8000", "https://a-b.example:8443"]
    for entry in ({"public": True}, {"auth": "firebase"}):
        catalogue = parse(function(**entry, cors=pages), root)
        assert catalogue.origins == {"keep": frozenset(pages)}
    assert catalogue.auth == {"keep": "firebase"}


@pytest.mark.parametrize("entry", [{"public": True}, {"auth": "firebase"}])
def test_a_function_that_is_open_and_has_tasks_is_deployed_twice(root: Path, entry: dict[str, Any]) -> None:
    catalogue = parse(function(invoked_by=["people", "queue"], tasks=["tidy_up"], **entry), root)
    assert catalogue.split_functions == {"keep"}
    people, tasks = deployments_of(catalogue.functions["keep"], catalogue.calling_queues["keep"])
    assert (people.segment, people.part, people.function.invoked_by) == ("keep", "people", ("people", "queue"))
    assert set(people.function.enqueues) == {*tasks.function.enqueues, *catalogue.calling_queues["keep"]}
    assert (tasks.segment, tasks.part, tasks.function.invoked_by) == ("keep-tasks", "tasks", ("queue",))
    assert (people.function.open_to_all, tasks.function.open_to_all) == (True, False)


def test_any_other_function_is_deployed_once(root: Path) -> None:
    catalogue = parse(function(invoked_by=["people", "queue"]), root)
    assert [each.segment for one in catalogue.functions.values() for each in deployments_of(one)] == [
        "keep",
        "follow-up",
        "tidy",
    ]


def test_a_function_name_becomes_a_url_segment() -> None:
    assert url_segment("link_fan_out") == "link-fan-out"


def function(**changes: Any) -> dict[str, Any]:
    return content(functions={**content()["functions"], "keep": {"invoked_by": ["people"], **changes}})


def trigger(**changes: Any) -> dict[str, Any]:
    return content(triggers={"kept": {**content()["triggers"]["kept"], **changes}})


def schedule(**changes: Any) -> dict[str, Any]:
    return content(schedules={"nightly": {**content()["schedules"]["nightly"], **changes}})


def scheduled_task(**changes: Any) -> dict[str, Any]:
    """Return a catalogue whose schedule enqueues a task."""
    functions = {
        **content()["functions"],
        "tidy": {"invoked_by": ["queue"], "folder": "elsewhere/tidy", "tasks": ["sweep"]},
        "tasks": {"invoked_by": ["people", "schedule"], "folder": "functions/keep"},
    }
    return schedule(**({"task": "sweep", "arguments": {"deep": True}} | changes)) | {"functions": functions}


def test_a_schedule_may_name_a_task_with_arguments(root: Path) -> None:
    nightly = parse(scheduled_task(), root).schedules["nightly"]
    assert (nightly.function, nightly.called) == ("tidy", "tasks")
    assert json.loads(nightly.body) == {"function": "tidy", "task": "sweep", "payload": {"deep": True}}
    assert parse(content(), root).schedules["nightly"].body == b""


def queue(**changes: Any) -> dict[str, Any]:
    return content(queues={"later": {**QUEUE, **changes}})


def kept(**entry: Any) -> dict[str, Any]:
    return content(history={"things": entry})


def index(**changes: Any) -> dict[str, Any]:
    return content(indexes={"by-city": {**content()["indexes"]["by-city"], **changes}})


@pytest.mark.parametrize(
    ("nonsense", "complaint"),
    [
        ([], "the catalogue must be a mapping"),
        (content(topics={}), r"unknown sections \['topics'\]"),
        (function(colour=1), r"functions\.keep: unknown keys \['colour'\]"),
        (function(enqueue=[]), r"functions\.keep: unknown keys \['enqueue'\]; did you mean 'enqueues'\?"),
        (function(memory="512"), r"functions\.keep: memory is '512'"),
        (function(cpu=3), r"functions\.keep: cpu must be 0\.08 to 1"),
        (function(cpu=0.5), r"functions\.keep: concurrency above 1 needs a whole cpu"),
        (function(concurrency=1_001), r"functions\.keep: concurrency must be from 1 to 1000: 1001"),
        (function(timeout_seconds=3_601), r"functions\.keep: timeout_seconds must be from 1 to 3600"),
        (
            function(invoked_by=["people", "queue"], timeout_seconds=601),
            r"functions\.keep: timeout_seconds must be at most 600 in a function that queues invoke",
        ),
        (function(runtime="python310"), r"functions\.keep: runtime is 'python310'; choose from python311, "),
        (function(instances_max=0), r"functions\.keep: instances_max must be from 1 to 1000: 0"),
        (
            content(functions={"follow_up": {"invoked_by": ["event"], "timeout_seconds": 541}}),
            r"functions\.follow_up: timeout_seconds must be from 1 to 540",
        ),
        (function(enqueues=["sooner"]), r"functions\.keep: enqueues: no queue is named 'sooner'"),
        (function(enqueues=["late"]), r"functions\.keep: enqueues: no queue is named 'late'; did you mean 'later'\?"),
        (trigger(function="folow_up"), r"triggers\.kept: there is no function 'folow_up'; did you mean 'follow_up'\?"),
        (function(enqueues="later"), r"functions\.keep: enqueues must be a list"),
        (function(enqueues=["later", "later"]), r"functions\.keep: enqueues contains a name twice"),
        (function(invoked_by=[]), r"functions\.keep: invoked_by must name"),
        (function(invoked_by=["cats"]), r"functions\.keep: invoked_by contains 'cats'"),
        (function(invoked_by=["people", "event"]), r"functions\.keep: a function with document_written"),
        (function(invoked_by=["queue"], public=True), r"functions\.keep: public is for"),
        (
            function(invoked_by=["people", "schedule"], public=True),
            r"functions\.keep: an open function cannot verify that its schedule calls",
        ),
        (
            content(
                functions={
                    **content()["functions"],
                    "keep": {"invoked_by": ["people", "queue"], "auth": "firebase"},
                    "keep_tasks": {"invoked_by": ["people"], "folder": "functions/keep"},
                }
            ),
            r"functions\.keep_tasks: this is the address of the tasks of keep",
        ),
        (function(public="yes"), r"functions\.keep: public must be of type bool"),
        (function(auth="google"), r"functions\.keep: auth is 'google'; omit it, or write auth: firebase"),
        (function(auth="firebase", public=True), r"functions\.keep: public: true admits every caller"),
        (function(invoked_by=["queue"], auth="firebase"), r"functions\.keep: auth is for functions that people"),
        (function(auth=True), r"functions\.keep: auth must be of type str"),
        *(
            (
                function(public=True, cors=[origin]),
                rf"functions\.keep: cors names '{re.escape(origin)}', which is not an origin",
            )
            for origin in (
                "app.example.com",
                "https://app.example.com/",
                "https://app.example.com/path",
                "https://App.example.com",
                "https://app.example.com:443",
                "http://app.example.com:80",
                "https://*.example.com",
                "ftp://a.example",
                "null",
                "",
            )
        ),
        (function(public=True, cors=["*", "https://a.example"]), r"functions\.keep: cors contains '\*', which"),
        (function(public=True, cors="*"), r"functions\.keep: cors must be a list"),
        (function(cors=["https://a.example"]), r"functions\.keep: cors is for functions that browsers reach"),
        (
            function(invoked_by=["schedule"]),
            r"functions\.keep: invoked_by contains 'schedule', but nothing in schedules",
        ),
        (function(folder="nowhere"), r"functions\.keep: there is no folder .*/nowhere; did you mean 'elsewhere'\?"),
        (content(functions={"Keep": {"invoked_by": ["people"]}}), r"functions\.Keep: the name must be"),
        (trigger(function="nobody"), r"triggers\.kept: there is no function 'nobody'"),
        (trigger(function="tidy"), r"triggers\.kept: add 'event' to invoked_by of tidy"),
        (trigger(event="written"), r"triggers\.kept: event is 'written'"),
        (trigger(document="things"), r"triggers\.kept: document is 'things'"),
        (trigger(document="/things/{id}/"), r"triggers\.kept: document is"),
        (
            content(triggers={name: content()["triggers"]["kept"] for name in ("kept", "again")}),
            r"triggers\.again: follow_up already has kept. Cloud Functions allows one trigger",
        ),
        (schedule(function="nobody"), r"schedules\.nightly: there is no function 'nobody'"),
        (scheduled_task(task="mop"), r"schedules\.nightly: tidy has no task 'mop'; its tasks: sweep"),
        (scheduled_task(function="nobody"), r"schedules\.nightly: there is no function 'nobody'"),
        (
            scheduled_task(arguments={"at": date(2026, 1, 1)}),
            r"schedules\.nightly: arguments must be JSON: .* quote dates",
        ),
        (scheduled_task(arguments=[1]), r"schedules\.nightly: arguments must be a mapping"),
        (scheduled_task(arguments={"text": "x" * 200_000}), r"schedules\.nightly: A payload has at most"),
        (schedule(arguments={"deep": True}), r"schedules\.nightly: arguments are those of a task"),
        (schedule(task="sweep"), r"schedules\.nightly: tidy has no task 'sweep'; its tasks: none"),
        (schedule(cron="daily"), r"schedules\.nightly: cron is 'daily'"),
        (schedule(cron="0 25 * * *"), r"cron is '0 25 \* \* \*'; the hour '25' is not from 0 to 23"),
        (schedule(cron="0 6 * * fry"), r"the day of the week 'fry' is not from 0 to 6"),
        (schedule(cron="*/0 * * * *"), r"the step of '\*/0' must be at least 1"),
        (schedule(cron="0 9-6 * * *"), r"the hour range '9-6' ends before it starts"),
        (schedule(cron="0 6 ? * *"), r"'\?' is not a day of the month"),
        (schedule(local_every_seconds=-1), r"schedules\.nightly: local_every_seconds must be more than 0, or 0"),
        (queue(dispatches_per_second=501), r"queues\.later: dispatches_per_second must be from 0.001 to 500"),
        (queue(concurrent_max=True), r"queues\.later: concurrent_max must be of type int"),
        (queue(concurrent_max=161), r"queues\.later: concurrent_max is 161, and the functions .* handle 160 requests"),
        (queue(shards=0), r"queues\.later: shards must be from 1 to 20: 0"),
        (queue(shards=21), r"queues\.later: shards must be from 1 to 20: 21"),
        (
            queue(concurrent_max=60, shards=3),
            r"queues\.later: concurrent_max is 60 in each of 3 shards, and the functions .* handle 160 requests",
        ),
        (
            content(queues={"later": QUEUE, "later-2": QUEUE}),
            r"queues\.later-2: the name ends as that of a shard: for more queues of this kind, give later shards",
        ),
        (queue(attempts_max=0), r"queues\.later: attempts_max must be -1"),
        (queue(backoff_min_seconds=61), r"queues\.later: backoff_max_seconds is below"),
        (index(fields=["city"]), r"indexes\.by-city: an index has 2 to 100 fields"),
        (index(fields=["a[]", "b[]"]), r"indexes\.by-city: an index has one field with \[\]"),
        (index(fields=["a", "-b[]"]), r"indexes\.by-city: fields is '-b\[\]'"),
        (index(collection="a/b"), r"indexes\.by-city: collection is the last name"),
        (content(documents={"verified": "weekly"}), r"documents: verified is 'weekly'; choose true or false"),
        (content(documents={"written_by": "me"}), r"documents: written_by is 'me'; choose from anyone, kit"),
        (content(documents={"writers": "kit"}), r"documents: unknown keys \['writers'\]"),
        (kept(), r"history\.things: a history must have exactly one of keys, prefix and type"),
        (kept(prefix="a", type="B"), r"history\.things: a history must have exactly one of keys, prefix and type"),
        (kept(keys="a"), r"history\.things: keys must be a list of names"),
        (kept(prefix="a", versions_max=0), r"history\.things: versions_max must lie between 1 and 1,000"),
        (kept(prefix="a", days_max=0), r"history\.things: days_max must be more than 0"),
        (content(indexes={"By": {}}), r"indexes\.By: these keys are missing"),
        (content(queues={"later": {}}), r"queues\.later: these keys are missing"),
    ],
)
def test_nonsense_is_refused_by_name(root: Path, nonsense: object, complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        parse(nonsense, root)


def test_a_key_given_twice_is_refused_with_its_line(root: Path) -> None:
    file = root / "infra" / "catalogue.yaml"
    file.write_text("queues: {}\nfunctions: {}\nqueues: {}\n")
    with pytest.raises(CatalogueError, match=r"catalogue\.yaml: line 1: given twice: queues"):
        load(file)


@pytest.mark.parametrize(
    "role",
    [
        "roles/cloudbuild.builds.editor",
        "roles/cloudscheduler.jobRunner",
        "roles/compute.instanceAdmin.v1",
        "roles/eventarc.developer",
        "roles/firebase.sdkAdminServiceAgent",
        "roles/pubsub.editor",
        "roles/storage.objectUser",
    ],
)
def test_no_role_of_a_function_can_replace_code_or_act_as_another_account(root: Path, role: str) -> None:
    with pytest.raises(CatalogueError, match="which can change the project, its permissions or all its buckets"):
        parse(function(roles=[role]), root)


@pytest.mark.parametrize("role", ["roles/aiplatform.user", "roles/pubsub.publisher", "roles/storage.objectViewer"])
def test_a_function_may_have_a_role_that_only_uses_a_service(root: Path, role: str) -> None:
    assert parse(function(roles=[role]), root).functions["keep"].roles == (role,)


@pytest.mark.parametrize(
    "bucket",
    ["p-signalbox-state", "p-dev-signalbox-sources", "p-signalbox-payloads", "gcf-v2-sources-1-us-central1"],
)
def test_no_archive_is_in_a_bucket_that_has_code_state_or_data_of_deployments(root: Path, bucket: str) -> None:
    with pytest.raises(CatalogueError, match="whose objects are the code, the state or the data of deployments"):
        parse(function(archives=[bucket]), root)


@pytest.mark.parametrize("cron", ["0 3 * * *", "*/15 8-18/2 1,15 jan-MAR mon-fri", "59 23 31 12 6", "* * * * *"])
def test_a_cron_expression_that_the_scheduler_takes_is_accepted(cron: str) -> None:
    assert not cron_error(cron)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"printer": {"permits": 0}}, r"semaphores\.printer: .*permits"),
        ({"printer": {"permits": "2"}}, r"semaphores\.printer: .*permits"),
        ({"printer": {"permits": 2, "lease_seconds": -1}}, r"semaphores\.printer: .*lease_seconds"),
        ({"printer": {"permit": 2}}, r"semaphores\.printer: unknown keys \['permit'\]; did you mean 'permits'"),
        ({"a/b": {"permits": 2}}, r"semaphores\.a/b: "),
    ],
)
def test_a_declared_semaphore_that_cannot_be_made_is_refused(root: Path, entry: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        parse({"functions": {}, "semaphores": entry}, root)


def test_declared_semaphores_need_the_function_that_creates_them(root: Path) -> None:
    with pytest.raises(CatalogueError, match="the kit's function semaphores creates them"):
        parse({"functions": {}, "semaphores": {"printer": {"permits": 2}}}, root)


@pytest.mark.parametrize(
    ("vpc", "complaint"),
    [
        ({"egress": "all-traffic"}, "vpc needs a network or a subnetwork"),
        ({"network": "Office"}, r"vpc\.network is 'Office'; write a name in lower case"),
        ({"network": "office", "egress": "all"}, r"vpc\.egress is 'all'; choose from private-ranges, all-traffic"),
        ({"net": "office"}, r"vpc: unknown keys \['net'\]; choose from network, subnetwork, egress"),
    ],
)
def test_a_network_that_cannot_be_joined_is_refused(root: Path, vpc: dict[str, str], complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint):
        parse({"functions": {"tidy": {"invoked_by": ["people"], "vpc": vpc}}}, root)


@pytest.mark.parametrize("name", ["office", "projects/p/global/networks/office"])
def test_a_network_is_joined_by_its_name(root: Path, name: str) -> None:
    catalogue = parse({"functions": {"keep": {"invoked_by": ["people"], "vpc": {"network": name}}}}, root)
    assert catalogue.functions["keep"].vpc == {"network": name}
