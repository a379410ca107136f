"""The local stack with test functions: the effects of a write, a task and a schedule, and what survives a kill."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox_tools.local import child_processes
from signalbox_tools.local.services.supervisor import Service, Supervisor
from signalbox_tools.local.stack import Stack, StackError
from tests.emulator.polling_until import eventually
from tests.required_programs import EMULATOR
from tests.started_commands import started

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
ROOT = Path(__file__).parents[3]
CATALOGUE = """
functions:
  notes: {invoked_by: [people], enqueues: [chores]}
  note_written: {invoked_by: [event]}
  note_task: {invoked_by: [queue]}
  note_desk: {}
  tick: {invoked_by: [schedule]}
queues:
  chores:
    dispatches_per_second: 100
    concurrent_max: 4
    attempts_max: -1
    backoff_min_seconds: 0.1
    backoff_max_seconds: 1
    doublings_max: 4
triggers:
  notes: {function: note_written, event: google.cloud.firestore.document.v1.written, document: "notes/{key}"}
schedules:
  tick: {function: tick, cron: "* * * * *", local_every_seconds: 0.5}
"""
NOTES = """
from datetime import UTC, datetime, timedelta

import wording
from signalbox.adapters.http.routes import Response, Routes
from signalbox.core.ports import Put
from signalbox.core.effects import Effect, name_of

routes = Routes("notes")

@routes.on("PUT", "/{key}")
def put(ports, request, key):
    ports.store.commit([Put(f"notes/{key}", {"number": request.json()})])
    return Response(200, wording.SAID)

@routes.on("POST", "/{key}")
def enqueue(ports, request, key):
    effect = Effect(
        name=name_of(key), queue="chores", function="note_task", task="note", payload={"key": key}, path="/tasks/note"
    )
    ports.queue.create([effect])
    return Response(202)

@routes.on("POST", "/{key}/tomorrow")
def enqueue_for_tomorrow(ports, request, key):
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    named = {"name": name_of(key), "queue": "chores", "function": "note_task", "task": "note", "path": "/tasks/note"}
    ports.queue.create([Effect(**named, payload={}, not_before=tomorrow)])
    return Response(202)

@routes.on("GET", "/{collection}/{key}")
def get(ports, request, collection, key):
    return Response(200, ports.store.read(f"{collection}/{key}")[0].data or {})

notes = routes.entry_point()
"""
NOTE_WRITTEN = """
import wording
from signalbox.adapters import runtime
from signalbox.adapters.http.event_deliveries import document_written
from signalbox.core.ports import Put

@document_written("note_written")
def note_written(event):
    runtime.ports().store.commit([Put(f"seen/{event.key}", {"number": event.after["number"], "by": wording.SAID})])
"""
NOTE_TASK = """
from signalbox import Function
from signalbox.adapters import runtime
from signalbox.core.ports import Put

app = Function("note_task")

@app.task
def note(key):
    runtime.ports().store.commit([Put(f"done/{key}", {"done": True})])

note_task = app.entry_point()
"""
DESK = """
from signalbox import DocumentEvent, Function
from signalbox.adapters import runtime
from signalbox.core.ports import Delete, Put

app = Function("note_desk")

def keep(path, **data):
    runtime.ports().store.commit([Put(path, data)])

@app.on_document("desks/{key}", on="created", queue="chores")
def opened(event: DocumentEvent, key: str) -> None:
    keep(f"opened/{key}", number=event.after["number"])

@app.on_document("desks/{key}", on="deleted", queue="chores")
def closed(event: DocumentEvent, key: str) -> None:
    keep(f"closed/{key}", number=event.before["number"])

@app.on_document("desks/{key}/{rest=**}", queue="chores")
def below(event: DocumentEvent, key: str, rest: str) -> None:
    keep(f"below/{key}", rest=rest)

@app.http("POST")
def write(request) -> None:
    keep("desks/a", number=1)
    keep("desks/a", number=2)
    keep("desks/a/lines/b", number=3)
    runtime.ports().store.commit([Delete("desks/a")])

note_desk = app.entry_point()
"""
TICK = """
from signalbox.adapters.http.task_deliveries import schedule_entry
from signalbox.core.ports import Put

@schedule_entry("tick")
def tick(ports):
    ports.store.commit([Put("ticks/last", {"ticked": True})])
"""


def project(folder: Path) -> Path:
    """Write a project with five small functions; two have a file of the same name next to ``main.py``."""
    sources = {"notes": NOTES, "note_written": NOTE_WRITTEN, "note_task": NOTE_TASK, "note_desk": DESK, "tick": TICK}
    for name, source in sources.items():
        (folder / "functions" / name).mkdir(parents=True)
        (folder / "functions" / name / "main.py").write_text(source)
    for name in ("notes", "note_written"):
        (folder / "functions" / name / "wording.py").write_text(f"SAID = {name!r}")
    (folder / "infra").mkdir()
    catalogue = folder / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE)
    return catalogue


@pytest.fixture(scope="module", params=["sqlite", "emulator"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if request.param == "emulator":
        EMULATOR.require()
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder=folder / "state", catalogue=project(folder), store=request.param) as running:
        yield running


def client(stack: Stack) -> httpx.Client:
    return httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX)


def surely(send: Callable[[], httpx.Response]) -> Any:
    """Retry until there is a good answer, as a client does whose server may crash."""
    return eventually(lambda: _good_answer(send))


def _good_answer(send: Callable[[], httpx.Response]) -> Any:
    with suppress(httpx.TransportError):
        response = send()
        if response.is_success:
            return response.json() if response.content else True
    return None


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_write_reaches_the_event_function_and_files_of_one_name_do_not_collide(stack: Stack) -> None:
    with client(stack) as http:
        assert http.put("notes/first", json=1).json() == "notes"
        stack.wait_until_idle(SECONDS_MAX)
        assert http.get("notes/seen/first").json() == {"number": 1, "by": "note_written"}


def test_each_handler_of_documents_gets_the_events_of_its_pattern_and_kind(stack: Stack) -> None:
    with client(stack) as http:
        assert http.post("note-desk", json={}).status_code == 204
        stack.wait_until_idle(SECONDS_MAX)
        found = [http.get(f"notes/{kind}/a").json() for kind in ("opened", "closed", "below")]
    assert found == [{"number": 1}, {"number": 2}, {"rest": "lines/b"}]


def test_a_schedule_is_called_and_a_task_runs(stack: Stack) -> None:
    with client(stack) as http:
        assert http.post("notes/chore").status_code == 202
        assert eventually(lambda: http.get("notes/done/chore").json()) == {"done": True}
        assert eventually(lambda: http.get("notes/ticks/last").json()) == {"ticked": True}


def test_the_front_page_lists_what_people_may_call_and_anything_else_is_a_problem(stack: Stack) -> None:
    with client(stack) as http:
        pages = {name: stack.base_url + name for name in ("docs", "console")}
        listed = {"functions": {name: stack.base_url + name for name in ("notes", "note-desk")}, **pages}
        assert http.get("").json() == listed
        refused = http.get("nothing-here")
        assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
        assert http.post("note-written").status_code == 404
        assert http.post("tick", follow_redirects=False).status_code == 404


def test_the_counts_are_the_sums_of_what_the_functions_log(stack: Stack) -> None:
    with client(stack) as http:
        stack.wait_until_idle(SECONDS_MAX)
        before = stack.counts()
        http.get("notes/seen/first")
        after = eventually(lambda: (now := stack.counts()) != before and now)
    assert after["reads"] == before["reads"] + 1
    assert after["events"] == before["events"] == after["events_delivered"]


def test_a_stack_is_not_idle_before_the_event_of_the_last_write_was_handled(stack: Stack) -> None:
    with client(stack) as http:
        for number in range(20):
            http.put(f"notes/burst-{number}", json=number)
        stack.wait_until_idle(SECONDS_MAX)
        seen = [http.get(f"notes/seen/burst-{number}").json()["number"] for number in range(20)]
    assert seen == list(range(20))


def test_a_task_of_tomorrow_does_not_keep_a_stack_from_being_idle(stack: Stack) -> None:
    with client(stack) as http:
        assert http.post("notes/patience/tomorrow").status_code == 202
    stack.wait_until_idle(SECONDS_MAX)


def test_every_service_may_be_killed_and_the_next_write_and_task_still_arrive(stack: Stack) -> None:
    for part in stack.service_names:
        kill_and_write(stack, part)


def kill_and_write(stack: Stack, part: str) -> None:
    group = stack.pid(part)
    assert group
    stack.kill(part)
    eventually(lambda: not group_lives(group))
    eventually(lambda: stack.pid(part) not in (None, group) and stack.is_up(part), 3 * SECONDS_MAX)
    with client(stack) as http:
        surely(lambda: http.put(f"notes/{part}", json=2))
        surely(lambda: http.post(f"notes/after-{part}"))
        assert eventually(lambda: surely(lambda: http.get(f"notes/seen/{part}")))["number"] == 2
        assert eventually(lambda: surely(lambda: http.get(f"notes/done/after-{part}"))) == {"done": True}


def test_no_process_is_left_after_the_end_of_a_stack_and_none_of_the_data_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "events.sqlite").write_text("left by an earlier stack")
    with Stack(folder=tmp_path / "state", catalogue=project(tmp_path)) as stack, client(stack) as http:
        assert (stack.store, "firestore" in stack.service_names) == ("sqlite", False)
        http.put("notes/first", json=1)
        stack.wait_until_idle(SECONDS_MAX)
        assert http.get("notes/seen/first").json()["number"] == 1
        groups = [stack.pid(name) for name in stack.service_names]
    assert len(groups) == 4
    assert None not in groups
    eventually(lambda: not any(group_lives(group) for group in groups if group))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_services_end_with_a_stack_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    script = (
        "import json, pathlib, sys, time; here = pathlib.Path(sys.argv[1])\n"
        "from signalbox_tools.local.stack import Stack\n"
        "with Stack(folder=here, catalogue=here / 'infra' / 'catalogue.yaml') as stack:\n"
        "    print(json.dumps([stack.pid(name) for name in stack.service_names]), flush=True); time.sleep(60)\n"
    )
    project(tmp_path)
    command = [sys.executable, "-c", script, str(tmp_path)]
    with started(command, ROOT, dict(os.environ), subprocess.PIPE) as owner:
        assert owner.stdout
        groups = json.loads(owner.stdout.readline())
        assert groups
        assert all(group_lives(group) for group in groups)
        owner.send_signal(number)
        eventually(lambda: not any(group_lives(group) for group in groups))


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    catalogue = project(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match=r"is taken .*in use.* Choose another: PORT="),
    ):
        Stack(port=taken.getsockname()[1], folder=tmp_path / "state", catalogue=catalogue)


def test_a_service_that_keeps_crashing_stops_the_others_too(tmp_path: Path) -> None:
    steady = Service("steady", ("sleep", "60"), ready=lambda: True)
    dying = Service("dying", (sys.executable, "-c", "raise SystemExit('no way')"), ready=lambda: False)
    supervisor = Supervisor([steady, dying], tmp_path)
    with pytest.raises(StackError, match=r"dying died 3 times before it was ready(?s:.)*no way"):
        supervisor.start()
    steady_group = supervisor.pid("steady")
    assert steady_group
    eventually(lambda: not group_lives(steady_group))
    with pytest.raises(StackError):
        supervisor.kill("steady")


def test_a_child_starts_without_the_handlers_of_a_fork() -> None:
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(1))
    child = child_processes.start(("true",), output=subprocess.DEVNULL)
    assert (child.wait(), forks) == (0, [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere `start` raises FileNotFoundError")
def test_a_command_that_does_not_exist_is_named_in_the_output() -> None:
    child = child_processes.start(("no-such-command",), output=subprocess.PIPE)
    output, _ = child.communicate()
    assert (child.returncode, output) == (1, b"no-such-command cannot be run: No such file or directory\n")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_does_not_ignore_the_signals_that_python_ignores() -> None:
    child = child_processes.start(("grep", "SigIgn", "/proc/self/status"), output=subprocess.PIPE)
    output, _ = child.communicate()
    ignored = int(output.split()[1], 16)
    assert not any(ignored & 1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_a_stopped_process_takes_what_it_started_with_it() -> None:
    child = child_processes.start(("sh", "-c", "sleep 60 & echo begun; exec sleep 60"), output=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    child_processes.stop(child)
    eventually(lambda: not group_lives(child.pid))
