"""Threads and new contexts of a user's code: with a copy of the context their calls are the task's, else refused."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import pytest

from signalbox import Function, Request, TaskContext, documents, flow, objects, rate, semaphore, transaction
from signalbox.adapters import known_requests, runtime
from signalbox.adapters.http.request_log import logged_request
from signalbox.adapters.known_requests import Requests, UnknownRequest
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

Spread = Callable[[Callable[[int], None]], None]
"""Call a function with 0, 1 and 2, each elsewhere, and raise its errors."""


def by_pool(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(work, number) for number in range(3)]:
            future.result()


def by_pool_with_copies(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(copy_context().run, work, number) for number in range(3)]:
            future.result()


def by_executor(work: Callable[[int], None]) -> None:
    async def all_of_them() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, work, number) for number in range(3)))

    asyncio.run(all_of_them())


def by_to_thread(work: Callable[[int], None]) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(3)))

    asyncio.run(all_of_them())


def by_new_contexts(work: Callable[[int], None]) -> None:
    for number in range(3):
        Context().run(work, number)


SHARED_POOL = ThreadPoolExecutor(3)


def by_shared_pool(work: Callable[[int], None]) -> None:
    for future in [SHARED_POOL.submit(work, number) for number in range(3)]:
        future.result()


CARRYING = [by_pool_with_copies, by_to_thread]
NOT_CARRYING = [by_pool, by_executor, by_new_contexts, by_shared_pool]


@pytest.mark.parametrize("spread", CARRYING)
def test_calls_and_transactions_of_threads_with_copies_are_made_once(harness: Harness, spread: Spread) -> None:
    app, mails, same = Function("shop"), Counter[int](), list[int]()

    @app.task
    def mail(number: int) -> None:
        mails[number] += 1

    @app.task
    def ping() -> None:
        same.append(1)

    def pay(number: int) -> None:
        mail.call(number=number).enqueue()
        ping.call().enqueue()

        def book(accounts: Any) -> None:
            before = accounts.get("account") or {"paid": 0}
            accounts.put("account", {"paid": before["paid"] + 1 + 0 * number})

        transaction(book)

    @app.task
    def work(context: TaskContext) -> None:
        spread(pay)
        if context.attempt == 1:
            raise RuntimeError("delivered again")

    harness.add(app)
    documents.put("account", {"paid": 0})
    work.call().enqueue()
    harness.run(raise_errors=False)
    assert (mails, len(same)) == ({0: 1, 1: 1, 2: 1}, 3)
    assert documents.get("account") == {"key": "account", "paid": 3}


@pytest.mark.parametrize("spread", NOT_CARRYING)
def test_calls_of_threads_that_do_not_know_their_task_are_refused_with_what_to_write(
    harness: Harness, spread: Spread
) -> None:
    app, refusals = Function("shop"), list[str]()

    @app.task
    def mail(number: int) -> None:
        raise AssertionError("it was enqueued")

    acts: list[Callable[[], object]] = [
        lambda: mail.call(number=1).enqueue(),
        lambda: documents.put("a", {}),
        lambda: documents.get("a"),
        lambda: semaphore("press").acquire(),
        lambda: rate("r").acquire(),
        lambda: objects("Till", "a").add(),
        lambda: transaction(lambda _: None),
    ]

    def act(number: int) -> None:
        for each in acts:
            try:
                each()
            except UnknownRequest as error:
                refusals.append(str(error))

    @app.task
    def work() -> None:
        spread(act)

    @app.object
    class Till:
        def add(self) -> None: ...

    harness.add(app)
    work.call().enqueue()
    harness.run()
    assert len(refusals) == 3 * len(acts)
    assert all("contextvars.copy_context().run" in refusal for refusal in refusals)


@pytest.mark.parametrize("spread", CARRYING)
def test_writes_of_a_request_from_threads_have_its_author(harness: Harness, spread: Spread) -> None:
    from signalbox.core.authors import AUTHOR

    app, authors = Function("shop"), list[str]()

    @app.http("GET")
    def route(request: Request) -> None:
        spread(lambda _: authors.append(AUTHOR.get()))

    harness.add(app)
    harness.get("shop")
    assert authors == ["function:shop"] * 3


@pytest.mark.parametrize("spread", [by_pool, by_new_contexts])
def test_threads_and_new_contexts_do_not_evade_what_a_flow_a_query_and_a_method_may_not_do(
    harness: Harness, spread: Spread
) -> None:
    app, refused = Function("shop"), Counter[str]()

    def act(kind: str) -> None:
        def work(_: int) -> None:
            try:
                documents.put("a", {})
            except UnknownRequest:
                refused[kind] += 1

        spread(work)

    @app.object
    class Till:
        coins: int = 0

        def add(self) -> None:
            act("method")

    @app.flow
    async def sale() -> None:
        def why() -> None:
            act("query")

        flow.answer("why", why)
        act("flow")
        await flow.event("x")

    harness.add(app)
    sale.start("s")
    harness.run()
    refused["flow"] = 0
    assert harness.get("shop/flows/sale/s/queries/why").json["entries"] == 0
    assert harness.post("shop/objects/Till/a/add", json={}).status == 200
    assert refused == {"flow": 3, "query": 3, "method": 3}
    assert harness.get("documents/a").status == 404


# --- who may call without a request ---


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, harness: Harness) -> Requests:
    """The requests of a process that has not handled any yet."""
    requests = Requests()
    for module in (known_requests, runtime, __import__("signalbox.adapters.http.request_log", fromlist=["x"])):
        monkeypatch.setattr(module, "REQUESTS", requests)
    return requests


def outcome_in_thread(code: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            code()
        except Exception as error:  # noqa: BLE001  it is the outcome
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(5)
    return raised[0]


def test_a_thread_of_a_module_calls_the_kit_at_any_time(requests: Requests) -> None:
    begin, ended, raised = threading.Event(), threading.Event(), list[Exception]()

    def loop() -> None:
        begin.wait(5)
        try:
            runtime.ports()
        except Exception as error:  # noqa: BLE001  it is asserted below
            raised.append(error)
        ended.set()

    threading.Thread(target=loop, daemon=True).start()
    with logged_request("shop", {}, "GET"):
        begin.set()
        assert ended.wait(5)
    assert raised == []


def test_without_a_request_every_thread_calls_the_kit(requests: Requests) -> None:
    assert outcome_in_thread(runtime.ports) is None
    with logged_request("shop", {}, "GET"):
        assert isinstance(outcome_in_thread(runtime.ports), UnknownRequest)
    assert outcome_in_thread(runtime.ports) is None


def test_outside_of_a_request_threads_act_while_another_one_starts_a_run(harness: Harness) -> None:
    app, running, done = Function("shop"), threading.Event(), threading.Event()

    @app.flow
    async def sale() -> None:
        if not done.is_set():
            running.set()
            done.wait(5)

    def put() -> None:
        assert running.wait(5)
        try:
            documents.put("a", {"by": "a script"})
        finally:
            done.set()

    harness.add(app)
    with ThreadPoolExecutor(2) as pool:
        stored = pool.submit(put)
        started = pool.submit(sale.start, "1")
        stored.result()
        started.result()
    assert documents.get("a") == {"key": "a", "by": "a script"}


def test_outside_of_a_request_a_pool_starts_runs_and_asks_queries(harness: Harness) -> None:
    app = Function("shop")

    @app.flow
    async def sale() -> None:
        flow.answer("number", lambda: 1)
        await flow.event("paid")

    def act(number: int) -> Any:
        return sale.start(str(number)).query("number")

    harness.add(app)
    all_begun = threading.Barrier(8, timeout=5)
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: all_begun.wait(), range(8)):
            pass
        assert [*pool.map(act, range(40))] == [1] * 40


def test_outside_of_a_request_threads_that_a_flow_starts_do_not_act(harness: Harness) -> None:
    app, raised = Function("shop"), list[BaseException | None]()

    @app.flow
    async def sale() -> None:
        raised.append(outcome_in_thread(lambda: documents.put("a", {})))
        raised.append(outcome_in_thread(lambda: raised.append(outcome_in_thread(runtime.ports))))

    harness.add(app)
    sale.start("1")
    assert [type(each) for each in raised[:3]] == [UnknownRequest, UnknownRequest, type(None)]


def test_threads_that_handle_requests_at_once_know_them_and_the_main_thread_is_free(requests: Requests) -> None:
    both = threading.Barrier(3, timeout=5)

    def serve() -> None:
        with logged_request("shop", {}, "GET"):
            both.wait()
            runtime.ports()
            both.wait()
        both.wait()

    with ThreadPoolExecutor(2) as pool:
        served = [pool.submit(serve) for _ in range(2)]
        both.wait()
        runtime.ports()
        both.wait()
        both.wait()
        assert [each.result(5) for each in served] == [None, None]


def test_a_request_inside_another_one_leaves_the_outer_one_known(requests: Requests) -> None:
    with logged_request("shop", {}, "GET"):
        with logged_request("desk", {}, "GET"):
            runtime.ports()
        runtime.ports()
        with pytest.raises(UnknownRequest, match="A new context called the kit"):
            Context().run(runtime.ports)
    Context().run(runtime.ports)
