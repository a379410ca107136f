"""Tasks are created and delivered, and events delivered, over connections that function processes keep open."""

import asyncio
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from google.api_core import exceptions as google

from signalbox.adapters.cloud_tasks import task_request
from signalbox.adapters.settings import from_environment
from signalbox.adapters.sqlite.file import StoreFileError, Synchronous
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.effects import Effect
from signalbox.core.ports import Put
from signalbox_tools.local.child_processes import free_port
from signalbox_tools.local.cloud_tasks.api_methods import TaskMethods
from signalbox_tools.local.cloud_tasks.http_delivery import Dispatcher
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key
from signalbox_tools.local.cloud_tasks.protobuf_messages import Queue
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.cloud_tasks.queue_rules import Tombstones
from signalbox_tools.local.cloud_tasks.request_validation import validate_queue
from signalbox_tools.local.cloud_tasks.shared_by_queues import QueueContext
from signalbox_tools.local.cloud_tasks.sqlite_storage import SeparateFile, StoreFile, TaskStorage
from signalbox_tools.local.cloud_tasks.task_creation import creating
from signalbox_tools.local.function_channel import LEAVING, BadFrame, Channel, FrameReader, frame
from signalbox_tools.local.function_processes import FunctionProcesses, listen
from signalbox_tools.local.functions.channel_threads import ChannelCreator, DeliveryThreads, environ_of
from signalbox_tools.local.injected_faults import Chaos

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

FUNCTIONS = "http://127.0.0.1:9/"
SETTINGS = from_environment({"SIGNALBOX_PROJECT": "p", "SIGNALBOX_FUNCTION_URL": FUNCTIONS + "{function}"})
QUEUE = f"projects/p/locations/{SETTINGS.location}/queues/{SETTINGS.queue_prefix}tasks"
WAIT_SECONDS_MAX = 20.0
IDENTITY = Identity(new_private_key())


def request(name: str, body: str = "") -> dict[str, Any]:
    """Return the request that creates a task, as the kit makes it."""
    return task_request(SETTINGS, Effect(name, "tasks", "social_code", "greet", {"body": body}, "/tasks/greet"), "")


class Functions:
    """An application that notes its requests, and answers with the statuses of a task in turn; 204 after them."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)
        self.requests: list[WSGIEnvironment] = []
        self.bodies: list[bytes] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        self.bodies.append(environ["wsgi.input"].read())
        self.requests.append(environ)
        self.may_end.wait(WAIT_SECONDS_MAX)
        start_response(self.statuses.pop(0) if self.statuses else "204 No Content", [])
        return [b""]

    def seen(self, key: str) -> list[str]:
        return [environ[key] for environ in self.requests]


class Queues:
    """The local Cloud Tasks in this process, on a port of the channel."""

    def __init__(self, registry: QueueRegistry, processes: FunctionProcesses, port: int) -> None:
        self.processes, self.address = processes, f"127.0.0.1:{port}"
        self.queue = registry.find(QUEUE)
        self.threads: list[DeliveryThreads] = []

    async def create(self, *names: str) -> list[Exception | None]:
        return await asyncio.to_thread(ChannelCreator(self.address).attempts, [request(name) for name in names])

    async def until(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + WAIT_SECONDS_MAX
        while not holds():
            assert time.monotonic() < give_up_at, "nothing happened"
            await asyncio.sleep(0.002)

    async def until_empty(self) -> None:
        await self.until(lambda: not self.queue.tasks and not self.queue.running)

    async def until_served(self) -> None:
        await self.until(lambda: bool(self.processes))


@asynccontextmanager
async def queues(file: SeparateFile | StoreFile, port: int = 0) -> AsyncIterator[Queues]:
    async with AsyncExitStack() as closing:
        storage = TaskStorage(file)
        closing.push_async_callback(storage.close)
        processes = FunctionProcesses()
        dispatcher = await closing.enter_async_context(Dispatcher(IDENTITY, processes, FUNCTIONS))
        registry = QueueRegistry(QueueContext(storage, dispatcher.deliver, Tombstones(), time.time, Chaos(), 3600))
        registry.restore()
        quick = Queue(name=QUEUE, retry_config={"min_backoff": {"nanos": 20_000_000}})
        validate_queue(quick)
        await registry.configure([quick])
        closing.callback(registry.stop)
        port = port or free_port()
        listening = await listen(processes, port, creating(TaskMethods(registry).create))
        closing.callback(listening.close)
        registry.begin()
        running = Queues(registry, processes, port)
        yield running
        for threads in running.threads:
            threads.leave()
            await asyncio.to_thread(threads.join, WAIT_SECONDS_MAX)


def threads_of(running: Queues, functions: Functions, count: int = 2) -> DeliveryThreads:
    threads = DeliveryThreads([running.address], functions, count)
    threads.start()
    running.threads.append(threads)
    return threads


async def run_one_task(running: Queues, functions: Functions) -> None:
    """Create the task `greet-1` for one thread of the functions, and wait until it has ended."""
    threads_of(running, functions, count=1)
    await running.until_served()
    await running.create("greet-1")
    await running.until_empty()


@pytest.fixture
def file(tmp_path: Path) -> SeparateFile:
    return SeparateFile(tmp_path / "tasks.sqlite")


def test_frames_are_read_however_the_bytes_are_cut() -> None:
    sent = frame(["a", {"b": "é\ud800"}], b"\n{}\x00") + frame(LEAVING) + frame(7, b"x" * 300)
    for size in range(1, 60):
        reader = FrameReader()
        chunks = [sent[at : at + size] for at in range(0, len(sent), size)]
        read = [each for chunk in chunks for each in reader.frames(chunk)]
        assert read == [(["a", {"b": "é\ud800"}], b"\n{}\x00"), (LEAVING, b""), (7, b"x" * 300)]


@pytest.mark.parametrize("sent", [b"POST / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02{\n"])
def test_bytes_of_another_protocol_are_refused(sent: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().frames(sent))


def test_a_task_reaches_the_functions_with_the_headers_that_cloud_tasks_sends(file: SeparateFile) -> None:
    functions = Functions("503 Unavailable")

    async def run() -> None:
        async with queues(file) as running:
            threads_of(running, functions)
            await running.until_served()
            assert await running.create("greet-1") == [None]
            await running.until_empty()

    asyncio.run(run())
    assert functions.seen("PATH_INFO") == ["/social-code/tasks/greet"] * 2
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKNAME") == ["greet-1"] * 2
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKRETRYCOUNT") == ["0", "1"]
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKEXECUTIONCOUNT") == ["0", "0"]
    assert functions.requests[1]["HTTP_X_CLOUDTASKS_TASKPREVIOUSRESPONSE"] == "503"
    assert functions.seen("CONTENT_TYPE") == ["application/json"] * 2
    assert functions.bodies == [request("greet-1")["task"]["http_request"]["body"]] * 2


def test_a_name_is_taken_once_and_the_other_tasks_of_a_call_are_created(file: SeparateFile) -> None:
    async def run() -> list[Exception | None]:
        async with queues(file) as running:
            running.queue.message.state = 2  # paused
            assert await running.create("a") == [None]
            return await running.create("b", "a", "c", "not/a/name")

    created, exists, also, invalid = asyncio.run(run())
    assert (created, also) == (None, None)
    assert isinstance(exists, google.AlreadyExists)
    assert isinstance(invalid, google.InvalidArgument)


def test_a_connection_that_ends_in_a_task_is_one_failed_attempt(file: SeparateFile) -> None:
    functions = Functions()

    async def run() -> None:
        async with queues(file) as running:
            dying = await asyncio.to_thread(Channel, running.address, WAIT_SECONDS_MAX)
            dying.send(frame({"process": 1}))
            await running.until_served()
            await running.create("greet-1")
            received = await asyncio.to_thread(dying.receive)
            assert received is not None
            assert received[0][2]["X-CloudTasks-TaskRetryCount"] == "0"
            threads_of(running, functions)
            dying.close()
            await running.until_empty()

    asyncio.run(run())
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKRETRYCOUNT")[-1:] != ["0"]
    assert len(functions.requests) == 1


def test_a_process_that_leaves_finishes_its_task_and_receives_no_other(file: SeparateFile) -> None:
    leaving, staying = Functions(), Functions()

    async def run() -> None:
        async with queues(file) as running:
            leaving.may_end.clear()
            old = threads_of(running, leaving, count=1)
            await running.until_served()
            await running.create("first")
            await running.until(lambda: len(leaving.requests) == 1)
            await running.create("second")
            old.leave()
            new = Channel(running.address, WAIT_SECONDS_MAX)
            new.send(frame({"process": os.getpid() + 1}))
            assert (await asyncio.to_thread(new.response))[2]["X-CloudTasks-TaskName"] == "second"
            leaving.may_end.set()
            await asyncio.to_thread(old.join, WAIT_SECONDS_MAX)
            new.send(frame((204, "")))
            await running.until_empty()
            new.close()

    asyncio.run(run())
    assert leaving.seen("HTTP_X_CLOUDTASKS_TASKNAME") == ["first"]
    assert staying.requests == []


def test_tasks_wait_while_all_threads_are_busy_and_each_runs_once(file: SeparateFile) -> None:
    functions = Functions()

    async def run() -> None:
        async with queues(file) as running:
            threads_of(running, functions, count=3)
            await running.until_served()
            assert await running.create(*[f"t-{number}" for number in range(40)]) == [None] * 40
            await running.until_empty()

    asyncio.run(run())
    assert sorted(functions.seen("HTTP_X_CLOUDTASKS_TASKNAME")) == sorted(f"t-{number}" for number in range(40))


def test_a_delivery_waits_for_a_process_and_ends_without_a_response_when_the_last_one_leaves() -> None:
    async def run() -> list[tuple[int, str] | None]:
        processes, port = FunctionProcesses(), free_port()
        with closing(await listen(processes, port)):
            waiting = [asyncio.create_task(processes.deliver(frame(number), WAIT_SECONDS_MAX)) for number in range(2)]
            process = await asyncio.to_thread(Channel, f"127.0.0.1:{port}", WAIT_SECONDS_MAX)
            process.send(frame({"process": 1}))
            assert await asyncio.to_thread(process.receive) == (0, b"")
            process.send(frame(LEAVING) + frame((204, "")))
            outcomes = await asyncio.gather(*waiting)
            process.close()
            return outcomes

    assert asyncio.run(run()) == [(204, ""), None]


def test_a_delivery_that_ends_while_it_waits_for_a_thread_is_kept_no_longer() -> None:
    async def run() -> None:
        processes = FunctionProcesses()
        with pytest.raises(TimeoutError):
            await processes.deliver(frame(1), 0.01)
        cancelled = asyncio.create_task(processes.deliver(frame(2), WAIT_SECONDS_MAX))
        await asyncio.sleep(0)
        assert len(processes._waiting) == 1
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not processes._waiting

    asyncio.run(run())


def test_a_connection_of_a_queue_that_was_restarted_is_an_unconfirmed_task_and_then_a_new_connection(
    tmp_path: Path,
) -> None:
    async def run() -> list[list[Exception | None]]:
        port, outcomes = free_port(), []
        async with queues(SeparateFile(tmp_path / "tasks.sqlite"), port) as running:
            running.queue.message.state = 2  # paused
            creator = ChannelCreator(running.address)
            outcomes.append(await asyncio.to_thread(creator.attempts, [request("a")]))
        creator._idle[0].close()
        outcomes.append(await asyncio.to_thread(creator.attempts, [request("b")]))
        async with queues(SeparateFile(tmp_path / "tasks.sqlite"), port) as running:
            outcomes.append(await asyncio.to_thread(creator.attempts, [request("b")]))
            outcomes.append(await asyncio.to_thread(creator.attempts, [request("a")]))
        return outcomes

    first, lost, again, known = asyncio.run(run())
    assert (first, again) == ([None], [None])
    assert isinstance(lost[0], google.ServiceUnavailable)
    assert isinstance(known[0], google.AlreadyExists)


def test_a_function_that_raises_outside_of_its_application_gets_its_task_again(file: SeparateFile) -> None:
    class Broken(Functions):
        def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            if not self.requests:
                self.requests.append(environ)
                raise SystemExit(1)
            return super().__call__(environ, start_response)

    functions = Broken()

    async def run() -> None:
        async with queues(file) as running:
            await run_one_task(running, functions)

    asyncio.run(run())
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKRETRYCOUNT") == ["0", "1"]


def test_a_task_has_the_environment_that_gunicorn_makes_of_its_request() -> None:
    headers = {"X-A": " é\t", "Content-Type": "text/é", "X_CloudTasks-TaskPreviousResponse": "5", "Content_Type": "a/b"}
    read = environ_of("POST", f"{FUNCTIONS}social-code/a%C3%A9?x=%41", headers, b"\x00\xff\n")
    assert read["wsgi.input"].read() == b"\x00\xff\n"
    assert (read["HTTP_X_A"], read["CONTENT_TYPE"]) == ("Ã©", "text/Ã©")
    assert (read["HTTP_ACCEPT"], read["HTTP_ACCEPT_ENCODING"]) == ("*/*", "gzip, deflate")
    assert (read["PATH_INFO"], read["QUERY_STRING"]) == ("/social-code/aÃ©", "x=%41")
    assert "HTTP_X_CLOUDTASKS_TASKPREVIOUSRESPONSE" not in read


def test_a_value_that_is_nested_too_deeply_is_no_frame() -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().frames(struct.pack(">I", 100_000) + b"[" * 100_000))


def test_a_connection_that_the_other_side_has_reset_has_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = Channel(f"127.0.0.1:{server.getsockname()[1]}", None)
        connection, _ = server.accept()
        assert not channel.ended()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its close is a reset
        connection.close()
        assert channel.ended()
        channel.close()


def test_a_connection_ends_with_its_process_although_a_fork_of_it_lives() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = Channel(f"127.0.0.1:{server.getsockname()[1]}", WAIT_SECONDS_MAX)
        connection, _ = server.accept()
        connection.settimeout(WAIT_SECONDS_MAX)
        may_end, ends = os.pipe()
        child = os.fork()
        if not child:
            os.close(ends)
            os.read(may_end, 1)
            os._exit(0)
        try:
            channel.close()
            assert connection.recv(1) == b""
        finally:
            os.close(ends)
            os.close(may_end)
            os.waitpid(child, 0)
            connection.close()


def test_a_fork_that_returns_from_a_function_responds_to_no_task_and_receives_none(file: SeparateFile) -> None:
    children: list[int] = []

    class Forking(Functions):
        def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            if not (child := os.fork()):
                return []
            children.append(child)
            return super().__call__(environ, start_response)

    functions = Forking()

    async def run() -> None:
        async with queues(file) as running:
            await run_one_task(running, functions)
            await running.until(lambda: os.waitpid(children[0], os.WNOHANG)[0] == children[0])
            children.clear()

    try:
        asyncio.run(run())
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    assert functions.seen("HTTP_X_CLOUDTASKS_TASKRETRYCOUNT") == ["0"]


def test_an_answer_without_an_end_ends_at_the_deadline_of_its_task(file: SeparateFile) -> None:
    ended = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                time.sleep(0.001)
                yield b"more"
        finally:
            ended.set()

    class Endless(Functions):
        def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            answer = super().__call__(environ, start_response)
            return endless() if len(self.requests) == 1 else answer

    functions = Endless()

    async def run() -> None:
        async with queues(file) as running:
            threads_of(running, functions, count=1)
            await running.until_served()
            running.queue.message.state = 2  # paused
            await running.create("greet-1")
            task = running.queue.tasks[f"{QUEUE}/tasks/greet-1"]
            task.spec.dispatch_deadline.FromMilliseconds(50)  # less than the least that a caller may choose
            running.queue.message.state = 1
            running.queue.pump()
            await running.until_empty()

    asyncio.run(run())
    assert ended.is_set()
    assert len(functions.requests) > 1


def test_a_date_that_no_calendar_has_is_no_retry_after(file: SeparateFile) -> None:
    class Late(Functions):
        def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
            self.requests.append(environ)
            late = [("Retry-After", "Mon, 01 Jan 99999999999999999 00:00:00 GMT")]
            start_response("503 Unavailable" if len(self.requests) == 1 else "204 No Content", late)
            return [b""]

    functions = Late()

    async def run() -> None:
        async with queues(file) as running:
            await run_one_task(running, functions)

    asyncio.run(run())
    assert functions.requests[1]["HTTP_X_CLOUDTASKS_TASKPREVIOUSRESPONSE"] == "503"


def test_a_task_that_cannot_be_read_is_refused_at_once(file: SeparateFile) -> None:
    async def run() -> list[Exception | None]:
        async with queues(file) as running:
            unreadable = request("a")
            unreadable["task"]["http_request"]["url"] += "\ud800"
            creator = ChannelCreator(running.address)
            return await asyncio.to_thread(creator.attempts, [request("b"), unreadable])

    created, refused = asyncio.run(run())
    assert created is None
    assert isinstance(refused, google.Unknown)


@pytest.mark.parametrize("sent", [frame((204, "")), frame((204, 7)), frame({}), frame([1, 2, 3])])
def test_a_process_that_responds_wrongly_loses_its_connection_and_no_task(file: SeparateFile, sent: bytes) -> None:
    functions, has_task = Functions(), sent != frame((204, ""))

    async def run() -> None:
        async with queues(file) as running:
            wrong = await asyncio.to_thread(Channel, running.address, WAIT_SECONDS_MAX)
            wrong.send(frame({"process": 1}))
            await running.until_served()
            if has_task:
                await running.create("greet-1")
                assert await asyncio.to_thread(wrong.receive)
            wrong.send(sent)
            with suppress(OSError):
                assert await asyncio.to_thread(wrong.receive) is None
            threads_of(running, functions, count=1)
            await running.create("greet-2")
            await running.until_empty()

    asyncio.run(run())
    assert set(functions.seen("HTTP_X_CLOUDTASKS_TASKNAME")) == {"greet-2"} | ({"greet-1"} if has_task else set())


@pytest.mark.parametrize("level", ["NORMAL", "FULL"])
def test_a_full_disk_refuses_tasks_and_leaves_no_part_of_them(tmp_path: Path, level: Synchronous) -> None:
    path = tmp_path / "store.sqlite"

    async def run() -> list[str]:
        file = StoreFile(path, level)
        async with queues(file) as running:
            running.queue.message.state = 2  # paused
            assert await running.create("before") == [None]
            [pages] = file.database.execute("PRAGMA page_count").fetchone()
            file.database.execute(f"PRAGMA max_page_count = {pages}")
            full = request("full", "x" * 50_000)
            creator = ChannelCreator(running.address)
            [refused] = await asyncio.to_thread(creator.attempts, [full])
            assert isinstance(refused, google.ServiceUnavailable)
            store.commit([Put("documents/a", {"n": 1})])  # the lock is free
            file.database.execute("PRAGMA max_page_count = 1000000")
            assert await asyncio.to_thread(creator.attempts, [full, request("before")]) == [None, ANY]
        async with queues(StoreFile(path, level)) as running:
            return sorted(name.rpartition("/")[2] for name in running.queue.tasks)

    store = SqliteStore(path)
    assert asyncio.run(run()) == ["before", "full"]
    store.close()


def test_a_second_server_of_the_queues_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    first = StoreFile(path, "NORMAL")
    with pytest.raises(StoreFileError, match="Another process delivers the tasks"):
        StoreFile(path, "NORMAL")
    first.close()
    StoreFile(path, "NORMAL").close()


def test_tasks_are_kept_in_the_file_of_the_documents(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    async def create() -> None:
        async with queues(StoreFile(path, "NORMAL")) as running:
            running.queue.message.state = 2  # paused
            assert await running.create("kept") == [None]
            store.commit([Put("documents/b", {"n": 2})])  # no lock of the queues is left

    async def restored() -> list[str]:
        async with queues(StoreFile(path, "FULL")) as running:
            return [name.rpartition("/")[2] for name in running.queue.tasks]

    store = SqliteStore(path)
    store.commit([Put("documents/a", {"n": 1})])
    asyncio.run(create())
    assert asyncio.run(restored()) == ["kept"]
    assert [snapshot.data for snapshot in store.read("documents/a", "documents/b")] == [{"n": 1}, {"n": 2}]
    store.close()
