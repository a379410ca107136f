"""`DATA=folder`: a stack continues where the one before it ended, with its waiters and queues."""

import signal
from pathlib import Path

import httpx
import pytest

from signalbox.catalogue.project import Project
from signalbox_tools.cli.main import main
from signalbox_tools.local import child_processes
from signalbox_tools.local.stack import Stack, StackError
from tests.emulator.polling_until import eventually
from tests.required_programs import EMULATOR

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
CATALOGUE = """
functions:
  documents: {{folder: {root}/functions/documents, invoked_by: [people]}}
  semaphores: {{folder: {root}/functions/semaphores, invoked_by: [people], enqueues: [admit, tasks]}}
  semaphore_signal: {{folder: {root}/functions/semaphore_signal, invoked_by: [people], enqueues: [admit, tasks]}}
  semaphore_admit: {{folder: {root}/functions/semaphore_admit, invoked_by: [queue], enqueues: [admit, tasks]}}
  batches: {{folder: {root}/functions/batches, invoked_by: [people], enqueues: [batches, tasks]}}
  batch_expand: {{folder: {root}/functions/batch_expand, invoked_by: [queue], enqueues: [admit, batches, tasks]}}
  recorder: {{folder: recorder, invoked_by: [people, queue], enqueues: [batches, flows, objects, tasks],
    objects: [Tape], flows: [collect]}}
  waiters: {{folder: waiters, invoked_by: [people, queue], enqueues: [admit, tasks, batches, links], tasks: [work]}}
queues:
  admit: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  tasks: *queue
  batches: *queue
  links: *queue
  flows: *queue
  objects: *queue
history:
  towns: {{prefix: "town-"}}
"""
WAITERS = """
from signalbox import Function, Lease, Request, batch, documents, semaphore

app = Function("waiters")


@app.http("POST", "/{name}")
def wait(request: Request, name: str) -> bool:
    semaphore("door").ensure(permits=1, lease_seconds=600)
    return semaphore("door").wait(work.call(name=name), id=name)


@app.task
def work(lease: Lease, name: str) -> None:
    documents.put(f"worked-{name}", {"lease": lease.id})


waiters = app.entry_point()
"""
RECORDER = """
import time
from pathlib import Path

from signalbox import Function, Object, flow

app = Function("recorder")
OPEN = Path({path!r})


@app.object
class Tape:
    key: str
    names: list[str] = []

    def hold(self) -> None:
        while not OPEN.exists():
            time.sleep(0.05)

    def record(self, name: str) -> None:
        self.names.append(name)

    def play(self) -> list[str]:
        return self.names


@app.flow
async def collect(count: int):
    if not OPEN.exists():
        raise RuntimeError("the recorder is closed")
    names = []
    for _ in range(count):
        names.append(await flow.event("name"))
    return names


recorder = app.entry_point()
"""


@pytest.fixture(params=[pytest.param("emulator", marks=pytest.mark.marathon), "sqlite"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "emulator":
        EMULATOR.require()
    monkeypatch.setenv("STORE", request.param)
    (tmp_path / "infra").mkdir()
    (tmp_path / "waiters").mkdir()
    (tmp_path / "waiters" / "main.py").write_text(WAITERS)
    (tmp_path / "recorder").mkdir()
    (tmp_path / "recorder" / "main.py").write_text(RECORDER.format(path=str(tmp_path / "open")))
    root = Path(__file__).parents[3]
    (tmp_path / "infra" / "catalogue.yaml").write_text(CATALOGUE.format(root=root))
    return tmp_path


def stack_of(project: Path, port: int) -> Stack:
    return Stack(port, project / ".local", catalogue=project / "infra" / "catalogue.yaml", data=project / "data")


@pytest.mark.parametrize("project", ["emulator", "sqlite"], indirect=True)
def test_documents_semaphores_batches_and_queues_outlive_a_restart(project: Path) -> None:
    port = child_processes.free_port()
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        http.put("documents/town", json={"name": "stuffville"}).raise_for_status()
        http.post("batches", json={"id": "b1", "units": [1, 2]}).raise_for_status()
        assert http.post("waiters/first").json() is True
        assert http.post("waiters/second").json() is False
        assert eventually(lambda: http.get("documents/worked-first").json().get("lease"))
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        assert http.get("documents/town").json()["name"] == "stuffville"
        assert http.get("batches/b1").json()["size"] == 2
        assert http.get("semaphores/door").json()["free"] == 0
        assert [waiter["id"] for waiter in http.get("semaphores/door").json()["waiters"]] == ["second"]

        def signal_and_look_for_second() -> bool:  # a first task that the stop interrupted runs again, with a new lease
            lease = http.get("documents/worked-first").json()["lease"]
            http.post("semaphore-signal/door", json={"lease": lease}).raise_for_status()
            return "lease" in http.get("documents/worked-second").json()

        assert eventually(signal_and_look_for_second)


@pytest.mark.marathon
def test_waiters_keep_their_order_over_a_restart(project: Path) -> None:
    port, names = child_processes.free_port(), ["zoe", "ben", "mia", "ann"]
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        assert http.post("waiters/first").json() is True
        for name in names:
            assert http.post(f"waiters/{name}").json() is False
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        assert [waiter["id"] for waiter in http.get("semaphores/door").json()["waiters"]] == names


@pytest.mark.marathon
def test_events_of_flows_and_calls_of_objects_that_wait_keep_their_order_over_a_restart(project: Path) -> None:
    port, names = child_processes.free_port(), ["zoe", "ben", "mia", "ann"]
    collect, tape = "recorder/flows/collect/1", "recorder/objects/Tape/t"
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        http.post(collect, json={"arguments": {"count": len(names)}}).raise_for_status()
        assert eventually(lambda: http.get(collect).json()["state"] == "stuck")
        http.post(f"{tape}/hold?wait_seconds=0", json={}, headers={"Idempotency-Key": "first"}).raise_for_status()
        for name in names:  # the ids are in another order than the messages
            key = {"Idempotency-Key": f"id of {name}"}
            http.post(f"{collect}/events/name", json={"value": name}, headers=key).raise_for_status()
            posted = http.post(f"{tape}/record?wait_seconds=0", json={"name": name}, headers=key).raise_for_status()
            assert posted.json()["ready"] is False
    (project / "open").touch()
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        http.post(f"{collect}/resume", json={}).raise_for_status()
        assert eventually(lambda: http.get(collect).json().get("result")) == names
        assert http.post(f"{tape}/play", json={}).json()["result"] == names


@pytest.mark.marathon
@pytest.mark.parametrize("target", ["emulator", "sqlite"])
def test_work_goes_on_in_another_store_from_an_export_of_a_running_stack(
    project: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    EMULATOR.require()
    port, names = child_processes.free_port(), ["zoe", "ben", "mia", "ann"]
    collect, tape, file = "recorder/flows/collect/1", "recorder/objects/Tape/t", project / "export.ndjson"
    catalogue = project / "infra" / "catalogue.yaml"
    monkeypatch.setattr(Project, "find", lambda: Project.of(catalogue))
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        http.put("documents/town", json={"name": "stuffville"}).raise_for_status()
        assert [http.post(f"waiters/{name}").json() for name in ("first", *names)] == [True, *[False] * len(names)]
        http.post(collect, json={"arguments": {"count": len(names)}}).raise_for_status()
        assert eventually(lambda: http.get(collect).json()["state"] == "stuck")
        for name in names:
            http.post(f"{collect}/events/name", json={"value": name}).raise_for_status()
            http.post(f"{tape}/record", json={"name": name}).raise_for_status()
        assert main(["data", "export", str(file)]) == 0
    (project / "open").touch()
    other = project / "other"
    assert main(["data", "import", str(file), "--data", str(other), "--store", target]) == 0
    with (
        Stack(port, project / ".local", catalogue=catalogue, data=other, store=target) as stack,
        httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http,
    ):
        assert http.get("documents/town").json()["name"] == "stuffville"
        assert [waiter["id"] for waiter in http.get("semaphores/door").json()["waiters"]] == names
        lease = http.get("documents/worked-first").json()["lease"]
        http.post("semaphore-signal/door", json={"lease": lease}).raise_for_status()
        assert eventually(lambda: "lease" in http.get("documents/worked-zoe").json())
        http.post(f"{collect}/resume", json={}).raise_for_status()
        assert eventually(lambda: http.get(collect).json().get("result")) == names
        assert http.post(f"{tape}/play", json={}).json()["result"] == names


def test_the_versions_of_a_history_outlive_a_restart(project: Path) -> None:
    port = child_processes.free_port()
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        for size in range(4):
            http.put("documents/town-a", json={"size": size}).raise_for_status()
        before = http.get("documents/town-a/versions").json()["versions"]
    with stack_of(project, port) as stack, httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as http:
        after = http.get("documents/town-a/versions").json()["versions"]
        assert [one["version"] for one in after] == [one["version"] for one in before]
        sizes = [http.get(f"documents/town-a/versions/{one['version']}").json()["document"]["size"] for one in after]
        assert sizes == [3, 2, 1, 0]
        http.put("documents/town-a", json={"size": 4}).raise_for_status()
        assert len(http.get("documents/town-a/versions").json()["versions"]) == 5
        if stack.store == "sqlite":
            assert after == before, "this store also keeps the times"


def test_a_kept_queue_calls_the_port_that_it_was_made_for(project: Path) -> None:
    with stack_of(project, port := child_processes.free_port()):
        pass
    with pytest.raises(StackError, match=f"start with PORT={port}"), stack_of(project, child_processes.free_port()):
        pass


def test_a_second_ctrl_c_does_not_stop_the_saving() -> None:
    with child_processes.interrupts_ignored():
        signal.raise_signal(signal.SIGINT)
