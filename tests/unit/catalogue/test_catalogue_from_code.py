"""What an entry of the catalogue leaves out follows from the code, and what a decorator says is constant."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox import Function
from signalbox.catalogue.cron import times
from signalbox.catalogue.derived_keys import usage_of
from signalbox.catalogue.reading import CATALOGUE, Catalogue, CatalogueError, load, parse
from signalbox.catalogue.writing import written
from signalbox.core.kit_names import ACT_ON_RUN, CALL_OBJECT
from signalbox_tools.function_deployments import deployments_of

QUEUE = {"dispatches_per_second": 1, "concurrent_max": 1, "attempts_max": -1, "backoff_min_seconds": 0.1}
QUEUES = {
    name: {**QUEUE, "backoff_max_seconds": 1, "doublings_max": 1}
    for name in ("tasks", "admit", "batches", "objects", "flows", "links", "slow")
}
START = "from signalbox import Function, add_resource, batch, flow, objects, semaphore\n\napp = Function('orders')\n"
END = "\norders = app.entry_point()\n"


def catalogue(folder: Path, code: str, entry: Mapping[str, Any], **sections: Any) -> Catalogue:
    (folder / "functions/orders").mkdir(parents=True, exist_ok=True)
    (folder / "functions/orders/main.py").write_text(START + code + END)
    (folder / "functions/tasks").mkdir(exist_ok=True)
    (folder / "functions/tasks/main.py").write_text("tasks = print\n")
    enqueuing = {"invoked_by": ["people", "schedule"], "enqueues": ["tasks"]}
    functions = {"orders": dict(entry), "tasks": enqueuing} if "schedule" in code else {"orders": dict(entry)}
    return parse({"functions": functions, "queues": QUEUES, **sections}, folder)


CODE = {
    "import shared\n@shared.app.task\ndef pack(): ...": {"invoked_by": ["queue"], "tasks": ["pack"]},
    "@app.http('GET')\ndef show(request): ...": {"invoked_by": ["people"]},
    "@app.task\ndef pack(): ...": {"invoked_by": ["queue"], "tasks": ["pack"]},
    "@app.task\ndef pack(): ...\n@app.http('POST')\ndef start(request): semaphore('a').wait(pack.call())": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["admit", "tasks"],
        "tasks": ["pack"],
    },
    "sem = semaphore\nlock = sem\n@app.http('POST')\ndef start(request): lock('a').acquire()": {
        "invoked_by": ["people"],
        "enqueues": ["admit", "tasks"],
    },
    "import signalbox\nkit = signalbox\n@app.http('POST')\ndef start(request): kit.semaphore('a').acquire()": {
        "invoked_by": ["people"],
        "enqueues": ["admit", "tasks"],
    },
    "from functools import partial\nsem = partial(semaphore, 'a')\n@app.http('POST')\ndef start(request): sem()": {
        "invoked_by": ["people"],
        "enqueues": ["admit", "tasks"],
    },
    "from signalbox import invoke\n@app.http('POST')\ndef start(request): invoke('orders', '/quotes')": {
        "invoked_by": ["people"],
        "invokes": ["orders"],
    },
    "from signalbox import Unit\n@app.task\ndef pack(units: list[Unit]): ...": {
        "invoked_by": ["queue"],
        "enqueues": ["batches", "tasks"],
        "tasks": ["pack"],
    },
    "@app.object\nclass Cart: ...": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["objects", "tasks"],
        "objects": ["Cart"],
    },
    "@app.flow\nasync def order_tea():\n    async with flow.lock('till'):\n        await flow.sleep(1)": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["admit", "batches", "flows", "tasks"],
        "flows": ["order_tea"],
    },
    "@app.flow\ndef buy():\n    yield flow.sleep(1)": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["batches", "flows", "tasks"],
        "flows": ["buy"],
    },
    "@app.flow\nasync def buy():\n    await flow.sleep(1)": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["batches", "flows", "tasks"],
        "flows": ["buy"],
    },
    "class Item: ...\nadd_resource(app, Item)": {"invoked_by": ["people"], "enqueues": ["links"]},
    "@app.document_written('orders/{id}')\ndef seen(event, id): batch('b').populate([])": {
        "invoked_by": ["event"],
        "enqueues": ["batches", "tasks"],
    },
    "@app.task(queue='slow')\ndef pack(): ...\npack.call().enqueue()": {
        "invoked_by": ["queue"],
        "enqueues": ["slow", "tasks"],
        "tasks": ["pack"],
    },
    "@app.flow(retention_days=90, archive='gs://shop/flows')\nasync def buy():\n    await flow.sleep(1)": {
        "invoked_by": ["people", "queue"],
        "enqueues": ["batches", "flows", "tasks"],
        "flows": ["buy"],
        "archives": ["shop"],
    },
    "app.callbacks()": {"invoked_by": ["people"], "enqueues": ["flows"]},
    "": {"invoked_by": ["people"]},
}


@pytest.mark.parametrize("code", CODE)
def test_an_empty_entry_has_what_the_code_says(tmp_path: Path, code: str) -> None:
    function = catalogue(tmp_path, code, {}).functions["orders"]
    keys = ("invoked_by", "enqueues", "tasks", "objects", "flows", "invokes", "archives")
    assert {key: sorted(getattr(function, key)) for key in keys if getattr(function, key)} == {
        key: sorted(names) for key, names in CODE[code].items()
    }


def test_what_an_entry_says_stays(tmp_path: Path) -> None:
    entry = {"invoked_by": ["people", "queue"], "enqueues": ["tasks", "slow"]}
    function = catalogue(tmp_path, "@app.task\ndef pack(): ...", entry).functions["orders"]
    assert (function.enqueues, function.tasks) == (("tasks", "slow"), ("pack",))


def test_if_only_the_kit_writes_documents_code_that_writes_them_enqueues_their_tasks(tmp_path: Path) -> None:
    code = "from signalbox import documents\n@app.http('PUT')\ndef store(request): documents.put('a', {})"
    entry = {"invoked_by": ["people"], "enqueues": []}
    assert catalogue(tmp_path, code, {}).functions["orders"].enqueues == ("links",)
    assert catalogue(tmp_path, code, entry).functions["orders"].enqueues == ()
    with pytest.raises(
        CatalogueError, match=r"functions.orders: main.py:6 writes documents, .*: add links to its enqueues"
    ):
        catalogue(tmp_path, code, entry, documents={"written_by": "kit"})


def test_the_examples_entries_say_only_where_they_lie() -> None:
    entries = yaml.safe_load(CATALOGUE.read_text("utf-8"))["functions"]
    others = {name: entry.keys() - {"folder"} for name, entry in entries.items() if "folder" in entry}
    assert {name: keys for name, keys in others.items() if keys} == {"social_sandbox": {"isolated"}}
    assert load().functions["shop"].enqueues == ("admit", "batches", "flows", "links", "objects", "tasks")


def test_schedules_and_triggers_follow_from_decorators(tmp_path: Path) -> None:
    code = """
@app.schedule("0 6 * * 1", time_zone="Europe/Berlin", arguments={"pages": 3})
@app.task
def report(pages: int = 1): ...
"""
    found = catalogue(tmp_path, code, {})
    schedule = found.schedules["orders-report"]
    assert (schedule.function, schedule.task, schedule.cron) == ("orders", "report", "0 6 * * 1")
    assert (schedule.time_zone, schedule.arguments) == ("Europe/Berlin", {"pages": 3})
    assert "cron: 0 6 * * 1  # from main.py:5" in written(found, places=True)
    handler = "@app.document_written('orders/{id}')\ndef seen(event, id): ..."
    trigger = catalogue(tmp_path, handler, {}).triggers["orders"]
    assert (trigger.function, trigger.document) == ("orders", "orders/{id}")


def test_each_handler_of_documents_is_a_task_with_a_trigger_next_to_everything_else(tmp_path: Path) -> None:
    code = """
@app.on_document("orders/{id}", on="created", queue="slow")
def ordered(event, id): ...
@app.on_document("orders/{id}/{rest=**}")
def Below_(event, id, rest): ...
@app.http("GET")
def show(request): ...
@app.task
def pack(n: int): ...
"""
    found = catalogue(tmp_path, code, {})
    orders, kind = found.functions["orders"], "google.cloud.firestore.document.v1"
    assert (orders.invoked_by, orders.tasks) == (("people", "queue", "event"), ("Below_", "ordered", "pack"))
    assert (orders.enqueues, orders.signature_type) == (("slow", "tasks"), "http")
    assert orders.parameters["ordered"] == ["event", "path", "data", "kind?", "place?", "after?"]
    assert {(name, each.event, each.document, each.path) for name, each in found.triggers.items()} == {
        ("orders-ordered", f"{kind}.created", "orders/{id}", "/document-events/ordered"),
        ("orders-below", f"{kind}.written", "orders/{id}/{rest=**}", "/document-events/Below_"),
    }
    assert "document: orders/{id}  # from main.py:5" in written(found, places=True)
    assert parse(yaml.safe_load(written(found)), found.root) == found


def test_of_an_open_function_only_the_part_for_tasks_receives_events(tmp_path: Path) -> None:
    code = "@app.on_document('orders/{id}')\ndef seen(event, id): ...\n@app.http('GET')\ndef show(request): ..."
    found = catalogue(tmp_path, code, {"public": True}).functions["orders"]
    people, tasks = (each.function for each in deployments_of(found, {"tasks"}))
    assert (people.invoked_by, tasks.invoked_by) == (("people", "queue"), ("queue", "event"))


def test_a_schedule_of_a_flow_is_that_of_the_task_which_starts_it(tmp_path: Path) -> None:
    code = """
@app.schedule("0 6 * * 1", time_zone="Europe/Berlin", arguments={"pages": 3})
@app.flow
async def report(pages: int): ...
"""
    found = catalogue(tmp_path, code, {})
    schedule = found.schedules["orders-report"]
    assert (schedule.function, schedule.task, schedule.time_zone) == ("orders", "report", "Europe/Berlin")
    assert (found.functions["orders"].tasks, found.functions["orders"].flows) == (("report",), ("report",))
    with pytest.raises(CatalogueError, match="takes no argument 'sides'"):
        catalogue(tmp_path, code.replace('"pages": 3', '"sides": 3'), {})


def test_an_entry_of_the_same_name_replaces_a_decorators_schedule(tmp_path: Path) -> None:
    code = '@app.schedule("0 6 * * 1")\n@app.task\ndef report(): ...'
    entry = {"function": "orders", "task": "report", "cron": "0 7 * * *"}
    found = catalogue(tmp_path, code, {}, schedules={"orders-report": entry})
    assert found.schedules["orders-report"].cron == "0 7 * * *"


WRONG = {
    "@app.schedule(CRON)\n@app.task\ndef report(): ...": "main.py:4 calls app.schedule with an argument that",
    '@app.schedule("0 25 * * *")\n@app.task\ndef report(): ...': "schedules.orders-report: cron is '0 25 \\* \\* \\*'",
    '@app.schedule("0 6 * * 1", time_zone="Mars/Base")\n@app.task\ndef report(): ...': "time_zone is 'Mars/Base'",
    '@app.schedule("* * * * *")\n@app.schedule("0 6 * * 1")\n@app.task\ndef report(): ...': "give it a name=",
    "@app.document_written(PATTERN)\ndef seen(event): ...": "an entry in triggers of the catalogue instead",
    '@app.schedule("* * * * *", arguments={[]: 1})\n@app.task\ndef report(): ...': "an argument that is not a constant",
    "@app.document_written('a/{id}')\ndef first(event, id): ...\n@app.document_written('b/{id}')\n"
    "def second(event, id): ...": "main.py:4, main.py:6 handle events of two patterns",
    "@app.on_document(PATTERN)\ndef seen(event): ...": "calls app.on_document with an argument that is not a constant",
    "@app.on_document('a/{id}', on='changed')\ndef seen(event, id): ...": "main.py:4: write on_document",
    "@app.on_document('a/{id}')\n@app.on_document('b/{id}')\ndef seen(event, id): ...": "write a second handler",
    "@app.on_document('a')\ndef seen(event): ...": "triggers.orders-seen: document 'a' is the path of a collection",
    "@app.on_document('a/{id}')\ndef seen(event, id): ...\n@app.document_written('b/{id}')\n"
    "def second(event, id): ...": "write on_document in all places",
    "@app.on_document('a/{id}')\nasync def seen(event, id): ...\npack = app.on_document('b/{id}')(print)": "list its",
    "pack = app.task(print)": "list its tasks, objects and flows in the entry",
    "def": r"functions.orders: main.py does not compile",
}


@pytest.mark.parametrize("code", WRONG)
def test_code_that_reading_cannot_follow_is_refused_with_what_to_write(tmp_path: Path, code: str) -> None:
    with pytest.raises(CatalogueError, match=WRONG[code]):
        catalogue(tmp_path, code, {})


@pytest.mark.parametrize(
    ("decorator", "refused"),
    [
        (
            'on_document("orders/{id}", changd="a")',
            "functions.orders: main.py:4: on_document has no argument changd;",
        ),
        ('schedule("* * * * *", overlap="que")', "functions.orders: main.py:4: overlap is 'que'; write one of allow,"),
        ('schedule("* * * *")', r"^functions/orders/main.py:4: schedules.orders-keep: cron is '\* \* \* \*'"),
        (
            'schedule("0 0 * * *", time_zone="Bern")',
            r"^functions/orders/main.py:4: schedules.orders-keep: time_zone",
        ),
        ('schedule("0 0 * * *", arguments={"a": 1})', r"^functions/orders/main.py:4: schedules.orders-keep.arguments:"),
        ('on_document("orders")', r"^functions/orders/main.py:4: triggers.orders-keep: document 'orders' is"),
    ],
)
def test_a_wrong_argument_of_a_decorator_is_refused_when_the_catalogue_is_read_with_its_place(
    tmp_path: Path, decorator: str, refused: str
) -> None:
    task = "@app.task\ndef keep(): ..." if decorator.startswith("schedule") else "def keep(event, id): ..."
    with pytest.raises(CatalogueError, match=refused):
        catalogue(tmp_path, f"@app.{decorator}\n{task}\n", {})


def test_the_schedules_of_a_task_with_several_rules_are_refused_when_the_catalogue_is_read() -> None:
    source = (
        b"from signalbox import Function\napp = Function('a')\n@app.schedule('0 1 * * *', name='b', overlap='skip')\n"
    )
    with pytest.raises(CatalogueError, match="differ in overlap"):
        usage_of({"main.py": source + b"@app.schedule('0 2 * * *')\n@app.task\ndef send(): ..."})


def test_a_schedule_stands_above_the_task() -> None:
    app = Function("orders")
    with pytest.raises(TypeError, match=r"write @app.schedule above @app.task"):
        app.schedule("* * * * *")(lambda: None)  # type: ignore[type-var]  # no task


def test_a_schedule_above_a_flow_does_not_take_a_task_of_the_flows_name() -> None:
    app = Function("reports")

    async def weekly() -> None: ...

    def task() -> None: ...

    task.__name__ = "weekly"
    flow = app.schedule("* * * * *", name="a")(app.schedule("* * * * *", name="b")(app.flow(weekly)))
    with pytest.raises(ValueError, match="two tasks of the name weekly"):
        app.task(task)
    other = Function("others")
    other.task(task)
    with pytest.raises(ValueError, match="others has a task and a scheduled flow of the name weekly: rename one"):
        other.schedule("* * * * *")(other.flow(weekly))
    assert flow.name == "weekly"


def test_a_written_catalogue_is_parsed_as_the_same_catalogue() -> None:
    found = load()
    assert parse(yaml.safe_load(written(found)), found.root) == found


def test_the_times_of_a_schedule_are_those_of_its_time_zone() -> None:
    def of_days(cron: str, month: int, first: int, days: int) -> list[str]:
        after = datetime(2026, month, first, tzinfo=UTC)
        until = datetime(2026, month, first + days, tzinfo=UTC)
        return [f"{time:%d %H:%M}" for time in times(cron, after, until, "Europe/Berlin")]

    assert of_days("30 6 * * *", 3, 28, 2) == ["28 05:30", "29 04:30"]
    assert of_days("30 2 * * *", 3, 28, 2) == ["28 01:30"]  # 02:30 does not exist on the 29th
    assert of_days("30 2 * * *", 10, 24, 2) == ["24 00:30", "25 00:30"]  # it exists twice on the 25th
    assert of_days("0 0 29 * *", 3, 27, 3) == ["28 23:00"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (b"@app.task\ndef pack(): ...", "task"),
        (b"@app.object\nclass pack: ...", "class of objects"),
        (b"@app.flow\nasync def pack(): ...", "flow"),
    ],
)
def test_a_name_that_two_files_declare_is_refused(code: bytes, kind: str) -> None:
    complaint = rf"other\.py:\d declares pack, a second {kind} of this name \(main\.py:\d\): rename one"
    with pytest.raises(CatalogueError, match=complaint):
        usage_of({"main.py": code, "other.py": code})


def test_a_second_cron_expression_is_refused() -> None:
    code = b"@app.schedule('0 6 * * 1', 'Europe/Rome')\n@app.task\ndef report(): ..."
    with pytest.raises(CatalogueError, match=r"main\.py:1: a schedule has one .*; write 'Europe/Rome' as time_zone=…"):
        usage_of({"main.py": code})


def test_a_second_schedule_of_a_name_in_another_file_is_refused() -> None:
    code = b"@app.schedule('0 6 * * 1', name='weekly')\n@app.task\ndef %s(): ...\n"
    with pytest.raises(CatalogueError, match=r"other\.py:1 is a second schedule weekly: give it a name="):
        usage_of({"main.py": code % b"report", "other.py": code % b"sweep"})


ARGUMENTS = """
import functools
import typing

import signalbox
from signalbox import Lease, Unit as U

Money = int


@app.schedule("0 6 * * *")
@app.task(queue="slow")
def charge(order: int, card: "str | None", price: Money, *, tip: typing.Literal[1, 2] = 1, note) -> None: ...


@app.task
def pack(lease: Lease, unit: "U", context: signalbox.TaskContext, shelf: list[dict[str, typing.Any]]) -> None: ...


@app.task
@functools.cache
def count(order: int) -> None: ...
"""


def test_the_arguments_of_a_task_are_those_of_its_code_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    arguments = {"order": 1, "card": None, "note": 2}
    schedule = {"function": "orders", "task": "charge", "cron": "0 6 * * *", "arguments": arguments}
    found = catalogue(tmp_path, ARGUMENTS, {}, schedules={"orders-charge": schedule})
    known = {"charge": ["order", "card", "price?", "tip?", "note"], "pack": ["shelf"]}
    assert found.functions["orders"].parameters == found.task_parameters["orders"] == known


def test_the_example_shop_of_the_catalogue_has_the_arguments_that_its_code_has() -> None:
    from examples.checkout.main import app

    own = {
        name: parameters for name, parameters in app.task_parameters.items() if name not in (ACT_ON_RUN, CALL_OBJECT)
    }
    assert load(CATALOGUE).functions["shop"].parameters == own


METHODS_OF_OTHERS = {
    "class Board:\n    def task(self, text): ...\nboard = Board()\nboard.task('a')": {"invoked_by": ["people"]},
    "class Board:\n    def run(self): self.flow(1)\n    def flow(self, n): ...": {"invoked_by": ["people"]},
    "import celery\nqueue = celery.Celery()\n@queue.task\ndef pack(): ...": {"invoked_by": ["people"]},
    "def show(board): board.on_document('a'); board.inner.object(1)": {"invoked_by": ["people"]},
    "@app.task\ndef pack(): ...\ndef show(board): board.task(1)": {"invoked_by": ["queue"], "tasks": ["pack"]},
    "other = app\n@other.task\ndef pack(): ...": {"invoked_by": ["queue"], "tasks": ["pack"]},
    "def made(): return Function('orders')\nother = made()\n@other.task\ndef pack(): ...": {
        "invoked_by": ["queue"],
        "tasks": ["pack"],
    },
    "class Shop:\n    hub = Function('orders')\n@Shop.hub.task\ndef pack(): ...": {
        "invoked_by": ["queue"],
        "tasks": ["pack"],
    },
}


@pytest.mark.parametrize("code", METHODS_OF_OTHERS)
def test_methods_named_as_decorators_count_on_a_function_only(tmp_path: Path, code: str) -> None:
    function = catalogue(tmp_path, code, {}).functions["orders"]
    found = {"invoked_by": list(function.invoked_by), "tasks": list(function.tasks)}
    assert found == {"tasks": [], **METHODS_OF_OTHERS[code]}


@pytest.mark.parametrize(
    "call",
    [
        "app.task(print)",
        "def more(hub: Function): hub.task(print)",
        "from other import app as hub\nhub.object(int)",
        "step = app.task\n@step\ndef pack(): ...",
        "@getattr(app, 'flow')\nasync def order(): ...",
    ],
)
def test_a_task_that_is_made_otherwise_is_refused_with_its_place(tmp_path: Path, call: str) -> None:
    with pytest.raises(
        CatalogueError,
        match=r"main.py:\d+ calls app.task, .*app.on_document or app.on_failure other",
    ):
        catalogue(tmp_path, call, {})


def test_the_function_may_be_made_in_another_file(tmp_path: Path) -> None:
    files = {
        "main.py": b"from hub import made as app\nimport tasks\norders = app.entry_point()",
        "hub.py": b"from signalbox import Function\nmade = Function('orders')",
        "tasks.py": b"import hub\n@hub.made.task\ndef pack(): ...\n\ndef show(board): board.task(1)",
    }
    usage = usage_of(files)
    assert (dict(usage.tasks), usage.otherwise) == ({"pack": "tasks.py:3"}, "")


def test_a_missing_folder_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"functions.orderz: there is no folder .*/orderz; did you mean 'orders'"):
        parse({"functions": {"orderz": {}}, "queues": QUEUES}, folder_of_orders(tmp_path))
    with pytest.raises(CatalogueError, match=r"functions.parts: there is no folder .*/nowhere: make it, or correct"):
        parse({"functions": {"parts": {"folder": "functions/nowhere"}}, "queues": QUEUES}, tmp_path)
    (tmp_path / "functions/empty").mkdir()
    with pytest.raises(CatalogueError, match=r"functions.empty: there is no main.py in its folder .*/empty"):
        parse({"functions": {"empty": {}}, "queues": QUEUES}, tmp_path)


def folder_of_orders(root: Path) -> Path:
    (root / "functions/orders").mkdir(parents=True)
    (root / "functions/orders/main.py").write_text("orders = print\n")
    return root


CALLBACKS = {"SIGNALBOX_CALLBACK_KEYS": "callback-keys"}
ASKS = "@app.flow\nasync def ask(): await flow.callback('approved', through='approvals', expires_seconds=60)"


@pytest.mark.parametrize(
    ("code", "entry", "approvals", "complaint"),
    [
        ("app.callbacks()", {"public": True, "secrets": CALLBACKS}, "approvals", ""),
        (
            "",
            {"public": True, "secrets": CALLBACKS},
            "approvals",
            "approvals does not serve callbacks: add",
        ),
        (
            "app.callbacks()",
            {"secrets": CALLBACKS},
            "approvals",
            "approvals is not open: add public: true to",
        ),
        ("app.callbacks()", {"public": True}, "approvals", "are callback-keys and no secret: name the same secret"),
        ("app.callbacks()", {"public": True, "secrets": CALLBACKS}, "approval", "no such function; did you mean 'app"),
    ],
)
def test_the_function_of_a_callback_is_checked(
    tmp_path: Path, code: str, entry: dict[str, Any], approvals: str, complaint: str
) -> None:
    (tmp_path / "functions/approvals").mkdir(parents=True)
    source = f"from signalbox import Function\napp = Function('{approvals}')\n{code}\n@app.http('GET')\ndef a(b): ...\n"
    (tmp_path / "functions/approvals/main.py").write_text(f"{source}{approvals} = app.entry_point()\n")
    entries = {"orders": {"secrets": CALLBACKS}, approvals: {"folder": "functions/approvals", **entry}}
    (tmp_path / "functions/orders").mkdir()
    (tmp_path / "functions/orders/main.py").write_text(START + ASKS + END)
    content = {"functions": entries, "queues": QUEUES}
    if not complaint:
        assert set(parse(content, tmp_path).functions) == {"orders", "approvals"}
        return
    with pytest.raises(CatalogueError, match=complaint) as refused:
        parse(content, tmp_path)
    assert 'functions.orders: main.py:5 calls flow.callback(through="approvals")' in str(refused.value)
