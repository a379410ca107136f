"""What a function's code needs and its folder or its entry lacks is refused, with the place and the line to add."""

import re
from pathlib import Path

import pytest

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.reading import load
from signalbox_tools.local.stack import Stack, StackError
from signalbox_tools.packaging.function_checks import check, check_all
from signalbox_tools.packaging.imported_modules import PackagingError
from tests.packaging.conftest import LOCKED, Project

TASKS = """from signalbox import Function, Unit, batch, critical_section, invoke, semaphore, standings

app = Function("one")


@app.task
def cook(dish: str) -> None:
    {body}


@app.task(attempts_max=3)
def wash(dish: str) -> None: ...


one = app.entry_point()
"""
ENTRY = """functions:
  one: {{folder: mine/one, {entry}}}
queues:
  {queues}
"""
QUEUE = (
    "{dispatches_per_second: 1, concurrent_max: 1, attempts_max: -1, backoff_min_seconds: 1, "
    "backoff_max_seconds: 1, doublings_max: 0}"
)
QUEUES = "\n  ".join(
    f"{name}: {QUEUE}" for name in ("admit", "batches", "flows", "objects", "slow", "standings", "tasks")
)


def refusal(project: Path) -> str:
    with pytest.raises(PackagingError) as refused:
        check_all(load(project / "infra/catalogue.yaml"), project)
    return str(refused.value)


def with_main(main: str, **files: str) -> dict[str, str]:
    return {"functions/one/main.py": f"{main}\none = print\n", **files}


@pytest.mark.parametrize(
    ("main", "complaint"),
    [
        ("import neighbours", "one: main.py:1 imports neighbours: the zip has no such module."),
        ("def later():\n    from httpx import get", "one: main.py:2 imports httpx"),
        ("import numpy.random", "imports numpy.random"),
        ("from google.cloud import storage", "imports google.cloud.storage"),
        ("import imp", "imports imp"),
        ("import rates.missing", "imports rates.missing"),
        ("from texts import welcome", "imports texts"),
        ("import two", "imports two"),
    ],
)
def test_an_import_that_the_cloud_cannot_resolve_is_refused(project: Project, main: str, complaint: str) -> None:
    root = project(
        {
            "functions/requirements.txt": LOCKED + "google-cloud-firestore==2.21.0 --hash=sha256:00\n",
            "functions/one/rates/__init__.py": "",
            "functions/one/texts/welcome.txt": "",
            "functions/two.py": "",
            "neighbours/__init__.py": "",
            **with_main(main),
        }
    )
    message = refusal(root)
    assert complaint in message
    assert "Put a module of your own into one/" in message
    assert "one/requirements.in and run `signalbox lock`" in message


@pytest.mark.parametrize(
    "main",
    [
        "import json, os.path, xml.etree.ElementTree",
        "import rates\nfrom rates import deep\nfrom rates.deep import answer\nimport single",
        "from google.cloud import firestore\nfrom google.cloud.firestore import Client",
        "import yaml_extra.parts",
        "from signalbox.rules import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import httpx",
        "try:\n    import httpx\nexcept ImportError:\n    httpx = None",
    ],
)
def test_an_import_that_the_cloud_resolves_is_accepted(project: Project, main: str) -> None:
    root = project(
        {
            "functions/requirements.txt": LOCKED + "google-cloud-firestore==2.21.0 --hash=sha256:00\n",
            "functions/one/requirements.txt": "yaml-extra==1.0 --hash=sha256:00\n",
            "functions/one/single.py": "",
            "functions/one/rates/__init__.py": "",
            "functions/one/rates/deep.py": "from . import deeper\nanswer = deeper.answer\n",
            "functions/one/rates/deeper.py": "answer = 1\n",
            **with_main(main),
        }
    )
    check(load(root / "infra/catalogue.yaml").functions["one"], root)


@pytest.mark.parametrize(
    ("main", "complaint"),
    [
        (
            'from signalbox import Function\n\napp = Function("oen")\none = app.entry_point()\n',
            'one: main.py:3 makes Function("oen"): write Function("one"), its name in the catalogue',
        ),
        (
            'import signalbox\n\napp = signalbox.Function("one")\n',
            "one: main.py defines no one, which the platform calls: end it with  one = app.entry_point()",
        ),
    ],
    ids=["another name", "no entry point"],
)
def test_a_function_that_is_not_served_under_its_name_is_refused(project: Project, main: str, complaint: str) -> None:
    assert complaint in refusal(project({"functions/one/main.py": main}))


def declared(project: Project, entry: str, body: str = "...") -> Path:
    return project(
        {
            "infra/catalogue.yaml": ENTRY.format(entry=entry, queues=QUEUES),
            "mine/one/main.py": TASKS.format(body=body),
        }
    )


ALL = "invoked_by: [queue], tasks: [cook, wash], enqueues: []"
ONE_QUEUE = "invoked_by: [queue], tasks: [cook, wash], enqueues: [tasks]"


@pytest.mark.parametrize(
    ("entry", "body", "line"),
    [
        ("invoked_by: [people], tasks: []", "...", "invoked_by: [people, queue]"),
        ("invoked_by: [queue], tasks: []", "...", "tasks: [cook, wash]"),
        ("invoked_by: [queue], tasks: [cook]", "...", "tasks: [cook, wash]"),
        ("invoked_by: [queue], tasks: [cook, wash, dry]", "...", "tasks: [cook, wash]"),
        (ALL, 'semaphore("s").wait(wash.call(dish=dish))', "enqueues: [admit, tasks]"),
        (ONE_QUEUE, 'semaphore("s").signal("x")', "enqueues: [tasks, admit]"),
        (ALL, "wash.call(dish=dish).enqueue()", "enqueues: [tasks]"),
        (
            "invoked_by: [queue], tasks: [cook, wash], enqueues: [tasks, batches]",
            'batch("b").populate([], semaphore="printers")',
            "enqueues: [tasks, batches, admit]",
        ),
        (ONE_QUEUE, 'batch("b").populate([])', "enqueues: [tasks, batches]"),
        (ONE_QUEUE, 'replace(wash.call(dish=dish), queue="slow")', "enqueues: [tasks, slow]"),
        (ALL, 'critical_section("s").run(wash.call(dish=dish))', "enqueues: [admit, tasks]"),
        (ALL, 'standings("kind").declare([])', "enqueues: [standings]"),
        (f"{ALL}, invokes: []", 'invoke("two", "/")', "invokes: [two]"),
        (ALL, "invoke(dish)", "invokes: [NAME, …]"),
        (
            f"{ALL}, flows: [], archives: [old]",
            "pass\n\n\n@app.flow(archive='gs://new/flows')\nasync def tidy(): ...",
            "archives: [old, new]",
        ),
    ],
)
def test_what_the_entry_lacks_is_named_with_the_line_to_write(
    project: Project, entry: str, body: str, line: str
) -> None:
    message = refusal(declared(project, entry, body))
    assert f"in the catalogue, functions.one, write  {line}" in message
    assert "main.py:" in message


def test_an_isolated_function_uses_no_part_of_the_kit_that_needs_a_right(project: Project) -> None:
    code = 'from signalbox import Function, documents\n\napp = Function("one")\none = app.entry_point()\n'
    root = declared(project, "isolated: true")
    (root / "mine/one/main.py").write_text(code)
    assert "documents (main.py:1) needs a right, and the function is isolated" in refusal(root)


def test_the_task_of_a_unit_completes_batches(project: Project) -> None:
    root = declared(project, ALL)
    main = root / "mine/one/main.py"
    main.write_text(main.read_text().replace("cook(dish: str)", "cook(unit: Unit, dish: str)"))
    assert "write  enqueues: [batches, tasks]" in refusal(root)


JOBS = """from signalbox import resource


class Job:
    title: str


one = resource("jobs", Job, each_user=True)
"""


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [("", "main.py:8 has items of each user, and no user signs in"), ("auth: firebase", "")],
    ids=["private", "firebase"],
)
def test_a_resource_with_items_of_each_user_needs_users(project: Project, entry: str, complaint: str) -> None:
    catalogue = ENTRY.format(entry=entry, queues=f"links: {QUEUE}\n  {QUEUES}")
    root = project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": JOBS})
    if complaint:
        message = refusal(root)
        assert complaint in message
        assert "write  auth: firebase" in message
    else:
        check_all(load(root / "infra/catalogue.yaml"), root)


THRESHOLD = """from signalbox import Function, standing_changed

app = Function("one")


@standing_changed(app, "count", at_least=2)
def popular(standing: dict) -> None: ...


one = app.entry_point()
"""


def test_a_task_of_a_threshold_is_declared_as_any_task(project: Project) -> None:
    def root(entry: str) -> Path:
        catalogue = ENTRY.format(entry=entry, queues=QUEUES)
        return project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": THRESHOLD})

    assert "write  tasks: [popular]" in refusal(root("invoked_by: [queue], tasks: []"))
    accepted = root("")
    [function] = load(accepted / "infra/catalogue.yaml").functions.values()
    assert (function.tasks, function.invoked_by) == (("popular",), ("queue",))
    check_all(load(accepted / "infra/catalogue.yaml"), accepted)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("invoked_by: [people], objects: []", "invoked_by: [people, queue]"),
        ("invoked_by: [queue], objects: []", "objects: [Counter]"),
        ("invoked_by: [queue], objects: [Counter, Other]", "objects: [Counter]"),
        ("invoked_by: [queue], objects: [Counter], enqueues: [tasks]", "enqueues: [tasks, objects]"),
        ("invoked_by: [queue], objects: [Counter], enqueues: [objects]", "enqueues: [objects, tasks]"),
    ],
)
def test_an_entry_declares_the_classes_of_objects_and_the_queues_of_their_turns(
    project: Project, entry: str, line: str
) -> None:
    counter = "@app.object\nclass Counter:\n    total: int = 0\n"
    main = f"from signalbox import Function\n\napp = Function('one')\n\n{counter}\none = app.entry_point()\n"
    catalogue = ENTRY.format(entry=entry, queues=QUEUES)
    assert f"write  {line}" in refusal(project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": main}))


@pytest.mark.parametrize(
    ("entry", "body", "line"),
    [
        ("invoked_by: [people], flows: []", "sleep(1)", "invoked_by: [people, queue]"),
        ("invoked_by: [queue], flows: []", "sleep(1)", "flows: [checkout]"),
        ("invoked_by: [queue], flows: [checkout, other]", "sleep(1)", "flows: [checkout]"),
        ("invoked_by: [queue], flows: [checkout], enqueues: []", "sleep(1)", "enqueues: [flows, tasks]"),
        (
            "invoked_by: [queue], flows: [checkout], enqueues: [flows, batches, tasks]",
            'lock("s")',
            "[flows, batches, tasks, admit]",
        ),
        (
            "invoked_by: [queue], flows: [checkout], enqueues: [flows, tasks]",
            "batch([])",
            "[flows, tasks, batches]",
        ),
    ],
)
def test_an_entry_declares_the_flows_and_the_queues_of_their_turns(
    project: Project, entry: str, body: str, line: str
) -> None:
    code = f"@app.flow\ndef checkout():\n    yield flow.{body}\n"
    main = f"from signalbox import Function, flow\n\napp = Function('one')\n\n{code}\none = app.entry_point()\n"
    catalogue = ENTRY.format(entry=entry, queues=QUEUES)
    assert line in refusal(project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": main}))


def test_who_calls_objects_of_another_function_enqueues_to_their_queue(project: Project) -> None:
    main = "from signalbox import objects\n\none = lambda _: objects('Counter', 'a').add(amount=1)\n"
    catalogue = ENTRY.format(entry="invoked_by: [people], enqueues: []", queues=QUEUES)
    assert "write  enqueues: [objects]" in refusal(
        project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": main})
    )


@pytest.mark.parametrize(
    "body",
    ["...", 'batch("b").status()', 'standings("item", "a").get()', 'semaphore = "a local name elsewhere"'],
)
def test_an_entry_that_declares_what_the_code_does_is_accepted(project: Project, body: str) -> None:
    root = declared(project, ALL, body)
    check_all(load(root / "infra/catalogue.yaml"), root)


def test_the_local_stack_refuses_what_would_not_run_in_the_cloud(project: Project, tmp_path: Path) -> None:
    root = declared(project, "invoked_by: [people], tasks: []")
    with pytest.raises(StackError, match=r"invoked_by: \[people, queue\]"):
        Stack(folder=tmp_path / "state", catalogue=root / "infra/catalogue.yaml")


WEEKLY = """
schedules:
  weekly: {{function: one, task: report, arguments: {arguments}, cron: "0 6 * * 1", local_every_seconds: 60}}
"""
REPORT = """from typing import Literal

from signalbox import Function, TaskContext

app = Function("one")


@app.task
def report(context: TaskContext, pages: int, *, kind: Literal["long"] = "long", made: "Elsewhere" = None) -> None: ...


one = app.entry_point()
"""


def scheduled(project: Project, arguments: str) -> Path:
    entry = ENTRY.format(entry="invoked_by: [queue], tasks: [report]", queues=QUEUES)
    catalogue = f"{entry}{WEEKLY.format(arguments=arguments)}".replace(
        "functions:\n",
        "functions:\n  tasks: {folder: functions/two, invoked_by: [people, schedule], enqueues: [tasks]}\n",
    )
    two = {"functions/two/main.py": "tasks = print\n"}
    return project({"infra/catalogue.yaml": catalogue, "mine/one/main.py": REPORT, **two})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("{pages: 3, page: 1}", "report takes no argument 'page'"),
        ("{kind: long}", "report needs the argument 'pages'"),
        ("{pages: 3, context: {}}", "report takes no argument 'context'"),
    ],
)
def test_a_schedule_whose_arguments_its_task_does_not_take_is_refused(
    project: Project, arguments: str, complaint: str
) -> None:
    root = scheduled(project, arguments)
    with pytest.raises(CatalogueError, match=re.escape(f"schedules.weekly.arguments: {complaint}")):
        load(root / "infra/catalogue.yaml")


@pytest.mark.parametrize("arguments", ["{pages: 3}", "{pages: 3, kind: long, made: 1}"])
def test_a_schedule_whose_arguments_fit_as_far_as_can_be_seen_is_accepted(project: Project, arguments: str) -> None:
    root = scheduled(project, arguments)
    check_all(load(root / "infra/catalogue.yaml"), root)
