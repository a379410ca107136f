"""The harness: deliveries, faults, events, schedules and HTTP calls, on functions made here and on the catalogue's."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, Problem, Request, Unit, batch, documents, flows, objects
from signalbox.adapters import settings
from signalbox.core.problems import Unavailable
from signalbox.flows.api.runs import function_of
from signalbox.testing import Faults, Harness, TaskFailed
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.simulated_cloud import UnknownFunction

ROOT = Path(__file__).parents[3]


class Jammed(Problem):
    title = "Paper jam"


class Printer:
    """A function whose task fails `failures` times, and counts its runs."""

    def __init__(self, harness: Harness) -> None:
        self.app = app = Function("printer")
        self.failures: list[Exception] = []
        self.runs: list[str] = []

        @app.task
        def print_page(unit: Unit, page: str) -> str:
            self.runs.append(page)
            if self.failures:
                raise self.failures.pop(0)
            return f"page {page} of {unit.batch}"

        @app.task
        def clean() -> None:
            if self.failures:
                raise self.failures.pop(0)

        @app.http("POST")
        def print_all(request: Request) -> dict[str, Any]:
            pages: Any = request.json_object()["pages"]
            batch("job").populate((print_page.call(page=page) for page in pages), on_complete=clean.call())
            return {"pages": len(pages)}

        self.print_page = print_page
        harness.add(app)


@pytest.fixture
def printer(harness: Harness) -> Printer:
    return Printer(harness)


def outcome() -> list[Any]:
    return [batch("job").status()[name] for name in ("state", "size", "failed")]


@pytest.mark.parametrize(
    "faults",
    [
        Faults(),
        Faults(duplicate=1),
        Faults(lose_answer=1),
        Faults(unavailable=1),
        Faults(late=1),
        Faults(reorder=True, seed=3),
        Faults(duplicate=0.5, lose_answer=0.5, unavailable=0.5, late=0.5, reorder=True, seed=1),
    ],
    ids=lambda faults: repr(faults)[7:70],
)
def test_a_batch_completes_under_every_fault_of_its_deliveries(
    harness: Harness, printer: Printer, faults: Faults
) -> None:
    assert harness.post("printer", json={"pages": list("abcd")}).json == {"pages": 4}
    harness.run(faults)
    assert outcome() == ["completed", 4, 0]
    assert set(printer.runs) == set("abcd")


def test_a_late_task_is_delivered_when_it_is_due(harness: Harness, printer: Printer) -> None:
    harness.post("printer", json={"pages": ["a"]})
    begun_at = harness.clock.now
    harness.run(Faults(late=1, late_seconds=7200))
    assert harness.clock.now - begun_at >= timedelta(hours=2)


def test_a_lost_answer_and_a_503_bring_a_task_again_and_only_the_former_has_run(
    harness: Harness, printer: Printer
) -> None:
    harness.post("printer", json={"pages": ["a"]})
    harness.run(Faults(unavailable=1))
    assert printer.runs == ["a"]


def test_a_run_raises_what_a_task_raised(harness: Harness, printer: Printer) -> None:
    printer.failures = [RuntimeError("out of ink")]
    harness.post("printer", json={"pages": ["a"]})
    with pytest.raises(TaskFailed, match="printer/print_page was answered with 500") as failed:
        harness.run()
    assert str(failed.value.__cause__) == "out of ink"


def test_a_run_that_does_not_raise_retries_until_the_task_is_given_up(harness: Harness, printer: Printer) -> None:
    printer.failures = [RuntimeError("out of ink")] * 100
    harness.post("printer", json={"pages": ["a"]})
    harness.run(raise_errors=False)
    assert outcome() == ["completed", 1, 1]
    assert len(printer.runs) == 10
    assert [(each.what, str(each.exception)) for each in harness.abandoned] == [
        ("printer/clean", "Gave up after 10 attempts. Last error: RuntimeError: out of ink")
    ]


def test_what_was_abandoned_with_a_problem_is_kept_for_a_look(harness: Harness, printer: Printer) -> None:
    harness.post("printer", json={"pages": []})
    printer.failures = [Jammed("Open the lid.")]
    harness.run()
    assert [(each.what, each.status, str(each.exception)) for each in harness.abandoned] == [
        ("printer/clean", 204, "Open the lid.")
    ]


def test_what_is_not_due_waits_for_the_clock(harness: Harness, printer: Printer) -> None:
    batch("job").populate([printer.print_page.call(page="a").after(600)])
    harness.run(due_only=True)
    assert (printer.runs, len(harness.tasks)) == ([], 1)
    harness.advance(601)
    harness.run(due_only=True)
    assert (printer.runs, harness.tasks) == (["a"], [])


def test_time_travels_on_the_way_each_task_is_delivered_at_its_time(harness: Harness) -> None:
    app, runs = Function("clockwork"), []
    begun = harness.clock.now

    @app.task
    def tick(number: int) -> None:
        runs.append((number, round((harness.clock.now - begun).total_seconds())))
        tick.call(number=number + 1).enqueue(delay_seconds=86_400)

    harness.add(app)
    tick.call(number=0).enqueue()
    harness.travel(3.5 * 86_400)
    assert runs == [(0, 0), (1, 86_400), (2, 2 * 86_400), (3, 3 * 86_400)]
    assert harness.clock.now - begun == timedelta(days=3.5)
    assert [each.task for each in harness.tasks] == ["tick"]


def test_a_document_is_followed_by_its_copies_in_the_kits_own_functions(harness: Harness) -> None:
    harness.put("documents/order", json={"customer": {"key": "ann"}})
    harness.put("documents/ann", json={"name": "Ann"})
    harness.run(Faults(duplicate=1, reorder=True, lose_answer=1))
    assert harness.get("documents/order").json["customer"] == {"key": "ann", "name": "Ann"}


def test_an_event_that_is_held_back_and_comes_late_changes_nothing_that_is_newer(harness: Harness) -> None:
    harness.put("documents/order", json={"customer": {"key": "ann"}})
    harness.put("documents/ann", json={"name": "Ann"})
    held = harness.events.pop()
    harness.run()
    documents.put("ann", {"name": "Anna"})
    harness.run()
    assert [delivery.status for delivery in harness.deliver_event(held)] == [200]
    harness.run()
    assert documents.get("order")["customer"]["name"] == "Anna"


def test_writes_invoke_the_event_handlers_that_were_added(harness: Harness) -> None:
    app, seen = Function("ordered"), []

    @app.document_written("documents/{key}")
    def ordered(event: DocumentEvent, key: str) -> None:
        seen.append((key, event.before is None, event.after is None))

    harness.add(app)
    documents.put("order", {"n": 1})
    documents.delete("order")
    harness.run()
    assert seen == [("order", True, False), ("order", False, True)]


def test_a_handler_of_events_that_fails_is_called_again(harness: Harness) -> None:
    app, calls = Function("ordered"), []

    @app.document_written("documents/{key}")
    def ordered(event: DocumentEvent, key: str) -> None:
        calls.append(key)
        if len(calls) == 1:
            raise Unavailable("a service is away")

    harness.add(app)
    documents.put("order", {})
    harness.run()
    assert calls == ["order", "order"]


def test_a_schedule_is_run_on_demand(harness: Harness) -> None:
    assert harness.run_schedule("sweep").status == 204
    assert harness.run_schedule("verify").status == 202
    harness.run()
    assert len(harness.get("verifications").json["verifications"]) == 1


def test_a_function_is_loaded_from_its_folder(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text('WORD = "hello"\n')
    (tmp_path / "main.py").write_text(
        "from greeting import WORD\n"
        "from signalbox import Function\n"
        'app = Function("greeter")\n'
        '@app.http("GET", "/{name}")\n'
        "def greet(request, name):\n"
        '    return {WORD: name, "copies": request.query["copies"]}\n'
        "greeter = app.entry_point()\n"
    )
    harness.load(tmp_path, "greeter")
    assert harness.get("greeter/ann?copies=2").json == {"hello": "ann", "copies": "2"}
    assert harness.get("greeter").status == 404


def test_what_is_added_before_the_harness_is_entered_is_known_inside_and_gone_after_it() -> None:
    before = settings.settings()
    other = Harness()
    other.add(Function("kiosk"))
    assert settings.settings() is before
    with other:
        assert "kiosk" in (settings.settings().task_functions or ())
    assert settings.settings() is before


def test_a_schedule_and_a_task_that_are_not_there_are_named_with_those_that_are(harness: Harness) -> None:
    with pytest.raises(LookupError, match=r"no schedule 'swep'; there are: .*sweep"):
        harness.run_schedule("swep")
    with pytest.raises(LookupError, match="0 tasks 'print_page' wait, not one; there are: none"):
        harness.take("print_page")


def test_a_function_that_is_not_there_is_named_with_those_that_are(harness: Harness) -> None:
    with pytest.raises(UnknownFunction, match=r"no function 'semaphore_wiat'; there are: .*semaphore_wait"):
        harness.post("semaphore-wiat/s")


def test_a_test_delivers_a_task_twice_and_later_than_others(harness: Harness, printer: Printer) -> None:
    harness.post("printer", json={"pages": ["a", "b"]})
    harness.deliver_task(harness.take("expand"))
    first, second = (each for each in harness.tasks if each.task == "print_page")
    assert [harness.deliver_task(second).status, harness.deliver_task(second, retries=1).status] == [204, 204]
    assert harness.deliver_task(first).status == 204
    harness.run()
    assert outcome() == ["completed", 2, 0]


CATALOGUE = """
functions:
  tasks: {folder: TASKS, invoked_by: [people, schedule], enqueues: [tasks]}
  reports:
    {folder: reports, invoked_by: [queue], enqueues: [tasks, objects, flows], tasks: [send], flows: [year],
     objects: [Book]}
queues:
  tasks: QUEUE
  objects: QUEUE
  flows: QUEUE
schedules:
  weekly: {function: reports, task: send, arguments: {pages: 3}, cron: "0 6 * * mon", local_every_seconds: 60}
"""
QUEUE = (
    "{dispatches_per_second: 1, concurrent_max: 1, attempts_max: -1, backoff_min_seconds: 1, "
    "backoff_max_seconds: 1, doublings_max: 0}"
)
REPORTS = """
from signalbox import Function, documents, flow

app = Function("reports")

@app.task
def send(pages: int) -> None:
    documents.put(flow_key(), {"pages": pages})

@app.object
class Book:
    pages: int = 0

    def add(self, pages: int) -> None:
        self.pages += pages

@app.flow
async def year(n: int):
    await flow.sleep(n)

def flow_key():
    from signalbox.adapters import runtime
    return f"report-{runtime.ports().clock.now:%d}"

reports = app.entry_point()
"""


@pytest.fixture
def reporting(tmp_path: Path) -> Harness:
    """A harness on a catalogue with a function that no test has loaded."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "reports").mkdir()
    text = CATALOGUE.replace("QUEUE", QUEUE).replace("TASKS", str(ROOT / "functions/tasks"))
    (tmp_path / "infra/catalogue.yaml").write_text(text)
    (tmp_path / "reports/main.py").write_text(REPORTS)
    return Harness(tmp_path / "infra/catalogue.yaml")


def test_travel_runs_the_schedules_of_tasks_at_their_times(reporting: Harness) -> None:
    with reporting as harness:  # it starts on Thursday, 1 January 2026
        harness.travel(14 * 86_400)
        assert harness.ids("documents") == ["report-05", "report-12"]


def test_each_time_of_a_flows_schedule_starts_one_run(tmp_path: Path) -> None:
    scheduled = '@app.schedule("0 6 * * fri", arguments={"n": 60})\n@app.flow\nasync def year'
    text = CATALOGUE.replace("QUEUE", QUEUE).replace("TASKS", str(ROOT / "functions/tasks"))
    for path, content in (
        ("infra/catalogue.yaml", text.replace("tasks: [send]", "tasks: [send, year]")),
        ("annals/main.py", REPORTS.replace("@app.flow\nasync def year", scheduled)),
    ):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content.replace("reports", "annals"))
    with Harness(tmp_path / "infra/catalogue.yaml") as harness:  # it starts on Thursday, 1 January 2026

        def states() -> list[str]:
            found = harness.call("annals", "/flows/year").json
            return sorted(run["state"] for run in found["flows"]) if found else []

        harness.travel(14 * 86_400)
        assert states() == ["completed"] * 2
        for _ in range(2):  # the scheduler calls again, at the same planned time
            harness.run_schedule("annals-year")
        harness.run()
        assert states() == ["completed"] * 3


def test_flows_and_objects_of_other_functions_are_those_of_the_catalogue(reporting: Harness) -> None:
    with reporting as harness:
        objects("Book", "1").add(pages=2)
        assert [task.function for task in harness.tasks] == ["reports"]
        with pytest.raises(Problem, match=r"The catalogue has no .*Boko"):
            objects("Boko", "1").add(pages=2)
        assert function_of("year") == "reports"


def test_a_call_that_the_stack_refuses_is_refused(reporting: Harness) -> None:
    refused = {"function": "reports", "task": "sned", "payload": {}}
    with reporting as harness:
        assert harness.post("tasks", json=refused).json["detail"].startswith("The catalogue has no task of reports")
        assert harness.post("tasks", json={**refused, "task": "send", "payload": {"pages": 1}}).status == 202
        other = Function("printer")

        @other.task
        def print_page() -> None: ...

        harness.add(other)
        print_page.call().enqueue()


def test_functions_of_two_harnesses_may_have_classes_and_flows_of_one_name() -> None:
    def function(name: str) -> Function:
        app = Function(name)

        @app.object
        class Till:
            function: str = name

            def open(self) -> str:
                return self.function

        @app.flow
        async def sale() -> Any:
            return await objects("Till", "a").open()

        return app

    apps = [function("kiosk"), function("market")]
    for app in (*apps, *apps):
        with Harness() as harness:
            harness.add(app)
            call = objects("Till", "a").open()
            run = flows("sale", "1").start()
            harness.run()
            assert (call.result(), run.status().result) == (app.name, app.name)
