"""What the clients do when functions do not answer, tokens expire, and leases end."""

import asyncio
import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import httpx
import pytest

from signalbox.catalogue.reading import load
from signalbox.client import ApiError, AsyncClient, Client, LeaseLost, NotFound, PreconditionFailed, Unavailable, call
from signalbox.client.aio import semaphores as aio_semaphores
from signalbox.client.blocking import semaphores as blocking_semaphores
from signalbox.client.blocking import transport as blocking_transport
from signalbox.client.event_reader import EventReader
from signalbox.client.identity import NoIdentity, Tokens, default_token, expiry
from signalbox.client.load_groups import LOAD_DOCUMENTS_MAX, Group
from signalbox.client.requests import lines, request
from signalbox.client.retries import Answered, Attempts, Patience
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.setup.blocking_client import generated
from tests.serving import serving

Answers = list[httpx.Response | Exception]
URL = "https://functions.example/dev-"


class Function:
    """A function that gives these answers, one a request, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **options: Any) -> Client:
        return Client(URL, token=lambda audience: f"for {audience}", transport=httpx.MockTransport(self), **options)


def problem(status: int, slug: str, **fields: Any) -> httpx.Response:
    body = {"type": f"urn:signalbox:problem:{slug}", "title": "A title", "status": status, **fields}
    return httpx.Response(status, json=body)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a blocking client makes between its attempts, which take no time."""
    made: list[float] = []
    monkeypatch.setattr(blocking_transport, "sleep", made.append)
    return made


def test_the_generated_modules_are_those_of_the_asynchronous_ones() -> None:
    for path, text in generated().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run `make docs`"


def test_a_call_is_repeated_with_its_key_until_there_is_an_answer(pauses: list[float]) -> None:
    none = httpx.ConnectError("refused")
    busy = httpx.Response(503, headers={"Retry-After": "2"}, json={})
    function = Function(none, busy, httpx.Response(502), httpx.Response(202, json={"operation": "o"}))
    with function.client() as client:
        assert client.tasks.enqueue(call("f", "t")) == "o"
    assert len({request.content for request in function.requests}) == 1
    assert "id" in json.loads(function.requests[0].content)
    assert pauses[1] == 2
    assert [str(request.url) for request in function.requests] == [f"{URL}tasks"] * 4
    assert {request.headers["Authorization"] for request in function.requests} == {f"Bearer for {URL}tasks"}


def test_what_draws_an_id_is_repeated_under_one_key() -> None:
    calls: list[tuple[dict[str, str], Callable[[Any], str]]] = [
        ({"flow": "f", "id": "i"}, lambda errands: str(errands.start_new(what="tea").id)),
        ({"batch": "i"}, lambda errands: str(errands.act_on_all("cancel", state="running").id)),
    ]
    for answer, send in calls:
        function = Function(httpx.ConnectError("lost"), httpx.Response(502), httpx.Response(201, json=answer))
        with function.client() as client:
            assert send(client.flow("office", "errand")) == "i"
        assert len({request.headers["Idempotency-Key"] for request in function.requests}) == 1


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.documents.add({}),
        lambda client: client.verifications.begin(),
        lambda client: client.semaphore("till").signal({"id": "a", "token": 1, "ends_at": ""}),
        lambda client: client.batch("b").retry([7]),
        lambda client: client.flow("shop", "checkout").run("o-7").send("approval"),
        lambda client: client.flow("shop", "checkout").run("o-7").cancel("late"),
        lambda client: client.object("shop", "Stock", "cup").post("put"),
        lambda client: client.object("shop", "Stock", "cup").delete(),
        lambda client: client.request("POST", "shop/stock"),
    ],
)
def test_what_has_no_id_in_its_body_is_repeated_under_one_key(send: Callable[[Client], object]) -> None:
    done = {"released": True, "call": "c", "ready": False}
    function = Function(httpx.ReadError("cut"), httpx.Response(200, json=done), httpx.Response(200, json=done))
    with function.client() as client:
        send(client)
        send(client)
    first, again, other = (request.headers["Idempotency-Key"] for request in function.requests)
    assert first == again != other


def test_each_item_of_a_list_comes_once() -> None:
    first: dict[str, Any] = {"rates": [{"name": "a"}], "next_page_token": "t"}
    empty: dict[str, Any] = {"rates": [], "next_page_token": "u"}
    last: dict[str, Any] = {"rates": [{"name": "b"}]}
    function = Function(*(httpx.Response(200, json=page) for page in (first, empty, last)))
    with function.client() as client:
        assert [each["name"] for each in client.rates.list()] == ["a", "b"]
    assert [request.url.params.get("page_token") for request in function.requests] == [None, "t", "u"]


def test_a_request_has_all_parameters_of_its_address() -> None:
    function = Function(*(httpx.Response(200, json={}) for _ in range(2)))
    with function.client() as client:
        client.request("GET", "/shop/stock/?item=&count=1&flag&next=/a/", parameters={"more": ""})
        client.request("GET", "shop/stock?tag=a&tag=")
    first, second = (request.url for request in function.requests)
    assert (first.path, first.query) == ("/dev-shop/stock", b"item=&count=1&flag=&next=%2Fa%2F&more=")
    assert second.query == b"tag=a&tag="


def test_a_query_may_have_an_argument_of_any_name() -> None:
    function = Function(httpx.Response(200, json={"result": 3}))
    with function.client() as client:
        assert client.flow("shop", "order").run("7").query("count", name="tea") == 3
    assert json.loads(function.requests[0].url.params["arguments"]) == {"name": "tea"}


def test_it_gives_up_after_a_time(pauses: list[float]) -> None:
    busy = Function(httpx.Response(503, text="busy"))
    with busy.client(retry_seconds=0) as client, pytest.raises(Unavailable) as failed:
        client.documents.get("a")
    assert (failed.value.status, failed.value.detail, pauses) == (503, "busy", [])
    slow = Function(httpx.ReadTimeout("slow"))
    with (
        slow.client(retry_seconds=0) as client,
        pytest.raises(Unavailable, match=r"GET https://functions\.example/dev-documents/a: ReadTimeout"),
    ):
        client.documents.get("a")


@pytest.mark.parametrize(("before", "is_repeated"), [((), False), ((httpx.ReadError("cut"),), True)])
def test_a_failed_condition_says_whether_an_earlier_attempt_may_be_the_reason(
    before: tuple[Exception, ...], is_repeated: bool
) -> None:
    function = Function(*before, problem(412, "precondition-failed"))
    with function.client() as client, pytest.raises(PreconditionFailed) as failed:
        client.documents.put("a", {}, if_match='"1"')
    assert failed.value.is_repeated is is_repeated
    assert function.requests[0].headers["If-Match"] == '"1"'


@pytest.mark.parametrize("text", ["<html>", "[]", "", "[" * 100_000])
def test_an_answer_of_the_platform_is_shown_as_it_is(text: str) -> None:
    with Function(httpx.Response(403, text=text)).client() as client, pytest.raises(ApiError) as failed:
        client.documents.get("a b/c")
    assert (failed.value.status, failed.value.slug, failed.value.detail) == (403, "", text[:300])


def test_a_problem_with_a_null_has_no_text_there() -> None:
    answer = httpx.Response(400, json={"type": None, "title": "Bad request", "detail": None, "field": None})
    with Function(answer).client() as client, pytest.raises(ApiError) as failed:
        client.documents.get("a")
    assert (str(failed.value), failed.value.slug, failed.value.detail) == ("400 Bad request", "", "")


def test_problems_have_their_fields() -> None:
    function = Function(problem(400, "bad-key", detail="No.", field="key", more=1))
    with function.client() as client, pytest.raises(ApiError, match=r"400 bad-key: No\.") as failed:
        client.documents.get("a")
    assert (failed.value.field, failed.value.title, failed.value.problem["more"]) == ("key", "A title", 1)


def test_documents_of_a_load_that_are_not_available_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbox.client.blocking.documents.sleep", lambda _: None)
    bad = {"type": "urn:signalbox:problem:bad-value", "title": "Bad", "status": 400}
    first = [{"key": "a", "status": 503}, {"key": "b", "status": 201}, {"key": "c", "status": 400, "problem": bad}]
    again = [{"key": "a", "status": 200}]
    function = Function(*(httpx.Response(200, json={"results": results}) for results in (first, again)))
    with function.client() as client:
        report = client.documents.load({"key": key, "größe": 1} for key in "abc")
    assert (report.stored, report.refused) == (2, [("c", bad)])
    assert json.loads(function.requests[1].content) == {"key": "a", "größe": 1}


def test_a_group_of_a_load_has_bounds() -> None:
    group = Group()
    assert group.takes(b"x" * 10**9)
    group.add("a", b"x" * (4 * 1024 * 1024))
    assert not group.takes(b"x")
    many = Group()
    for number in range(LOAD_DOCUMENTS_MAX):
        many.add(str(number), b"{}")
    assert not many.takes(b"{}")


def test_events_are_read_line_by_line() -> None:
    reader = EventReader("GET batches/b/events")
    lines = ["id: 1", "event: unit", 'data: {"a":', "data: 1}", "", ": a comment", "", "data:2", ""]
    found = [event for line in lines if (event := reader.line(line))]
    assert found == [{"event": "unit", "id": "1", "data": {"a": 1}}, {"event": "message", "id": "1", "data": 2}]


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85", "\U0001f6a6"])
def test_a_text_in_a_stream_may_have_any_letter(letter: str) -> None:
    shown = json.dumps({"index": 0, "state": "succeeded", "attempt": 0, "result": letter}, ensure_ascii=False).encode()
    stream = b"id: 8\r\nevent: complete\r\ndata: " + shown + b"\r\n\r\n"
    function = Function(*(httpx.Response(200, content=cut_small(body)) for body in (stream, shown + b"\n" + shown)))
    with function.client() as client:
        assert [event["data"]["result"] for event in client.batch("b").watch()] == [letter]
        assert [unit["result"] for unit in client.batch("b").results()] == [letter, letter]


def test_a_text_that_utf_8_lacks_is_sent_for_the_server_to_decide() -> None:
    refused = {"results": [{"key": "a", "status": 400, "problem": {"detail": "a lone surrogate"}}]}
    function = Function(httpx.Response(200, json=refused), httpx.Response(200, json={}))
    with function.client() as client:
        report = client.documents.load([{"key": "a", "text": "é\ud800"}])
        client.batch("b").complete(0, result="\ud800")
    assert [key for key, _ in report.refused] == ["a"]
    contents = [request.content for request in function.requests]
    assert contents == ['{"key": "a", "text": "é\\ud800"}\n'.encode(), b'{"result": "\\ud800"}']


def cut_small(content: bytes) -> Iterator[bytes]:
    """Iterate over parts of a body that are cut inside letters and lines."""
    yield from (content[at : at + 3] for at in range(0, len(content), 3))


@pytest.mark.parametrize("torn", [b"", b"event: unit\nid: 8\n", b"event: unit\nid: 8\ndata: 2\n"])
def test_a_stream_that_breaks_is_opened_after_its_last_whole_event(torn: bytes) -> None:
    def broken() -> Iterator[bytes]:
        yield b"id: 7\nevent: unit\ndata: 1\n\n" + torn
        raise httpx.ReadError("cut")

    ended = httpx.Response(200, text="id: 8\nevent: complete\ndata: {}\n\n")
    function = Function(httpx.Response(200, content=broken()), ended)
    with function.client() as client:
        assert [event["event"] for event in client.batch("b").watch()] == ["unit", "complete"]
    assert [request.headers.get("Last-Event-ID") for request in function.requests] == [None, "7"]


@pytest.mark.parametrize("torn", [b"", b'{"index": 5, "att'])
def test_a_download_that_breaks_is_continued_after_its_last_whole_line(torn: bytes, pauses: list[float]) -> None:
    def lines(*indexes: int) -> bytes:
        return b"".join(b'{"index": %d, "attempt": 0, "state": "succeeded", "result": 1}\n' % each for each in indexes)

    def broken() -> Iterator[bytes]:
        yield lines(3, 1) + torn
        raise httpx.RemoteProtocolError("incomplete chunked read")

    function = Function(
        httpx.Response(200, content=broken()), problem(503, "busy"), httpx.Response(200, content=lines(5))
    )
    with function.client() as client:
        assert [unit["index"] for unit in client.batch("b").results("succeeded")] == [3, 1, 5]
    asked = [dict(request.url.params) for request in function.requests]
    assert asked == [{"state": "succeeded"}, *[{"state": "succeeded", "after": "1"}] * 2]
    with Function(problem(503, "busy")).client(retry_seconds=0) as client, pytest.raises(Unavailable):
        next(client.batch("b").results())


@pytest.mark.parametrize(
    "answer", [problem(503, "busy"), httpx.Response(200, text=""), httpx.Response(200, text="<html>\n\n")]
)
def test_a_stream_that_does_not_begin_is_opened_again_after_a_pause(
    answer: httpx.Response, pauses: list[float]
) -> None:
    answer.headers["Retry-After"] = "1"
    ended = httpx.Response(200, text="id: 8\nevent: complete\ndata: {}\n\n")
    with Function(answer, ended).client() as client:
        assert [event["event"] for event in client.batch("b").watch()] == ["complete"]
    assert pauses == [1.0]
    with Function(answer).client(retry_seconds=0) as client, pytest.raises(Unavailable):
        next(client.batch("b").watch())


def test_a_stream_that_was_quiet_is_opened_again_however_long_it_was(pauses: list[float]) -> None:
    ended = httpx.Response(200, text="id: 8\nevent: complete\ndata: {}\n\n")
    with Function(httpx.Response(200, text="retry: 1000\n\nid: 7\n\n"), ended).client(retry_seconds=0) as client:
        assert [event["event"] for event in client.batch("b").watch()] == ["complete"]
    assert pauses == [1.0]


@pytest.mark.parametrize("text", ["<html>sign in</html>", "[" * 100_000, "\udcff"])
def test_a_successful_answer_that_is_no_json_is_an_error_that_shows_it(text: str) -> None:
    content = text.encode(errors="surrogateescape")
    with Function(httpx.Response(200, content=content)).client() as client, pytest.raises(ApiError) as failed:
        client.documents.get("a")
    assert (failed.value.status, failed.value.title) == (200, "Unreadable answer")
    beginning = content[:300].decode(errors="replace")
    assert failed.value.detail == f"the answer to GET documents/a is not JSON: {beginning}"


READ: dict[str, Callable[[Client], object]] = {
    "GET documents/a": lambda client: client.documents.get("a"),
    "POST documents/:query": lambda client: client.documents.first("n==1"),
    "POST documents": lambda client: client.documents.load([{"key": "a"}]),
    "GET documents/a/versions/1/changes": lambda client: client.documents.changes("a", 1),
    "GET verifications": lambda client: client.verifications.list(),
    "GET semaphores": lambda client: list(client.semaphores.list()),
    "GET semaphores/till": lambda client: client.semaphore("till").show(),
    "POST semaphore-wait/till": lambda client: client.semaphore("till").acquire(id="a"),
    "POST semaphore-signal/till": lambda client: client.semaphore("till").signal(
        {"id": "a", "token": 1, "ends_at": ""}
    ),
    "POST rates/mail/acquire": lambda client: client.rate("mail").acquire(),
    "POST tasks": lambda client: client.tasks.enqueue(call("f", "t")),
    "GET failures?count=true": lambda client: client.failures.count(),
    "GET failures/f": lambda client: client.failures.get("f"),
    "GET batches/b": lambda client: client.batch("b").result(1),
    "GET batches/b/results": lambda client: list(client.batch("b").results()),
    "POST shop/objects/Stock/cup/put?wait_seconds=30.0": lambda client: client.object("shop", "Stock", "cup").call(
        "put"
    ),
    "POST shop/flows/order": lambda client: client.flow("shop", "order").start_new(),
    "GET shop/flows/order/7": lambda client: client.flow("shop", "order").run("7").show(),
    "GET shop/flows/order/7/queries/count": lambda client: client.flow("shop", "order").run("7").query("count"),
    "GET shop/flows/order/7/log": lambda client: client.flow("shop", "order").run("7").whole_log(),
    "GET standings": lambda client: client.standings.kinds(),
}
"""Calls that read something of their answer, by the request that they send."""


OF_ANY_FIELDS = {"GET documents/a", "GET semaphores/till"}
"""Those whose answer may be any object."""


@pytest.mark.parametrize(
    ("asked", "answer"), [*product(READ, ("[]", "7")), *((asked, "{}") for asked in READ if asked not in OF_ANY_FIELDS)]
)
def test_a_successful_answer_of_another_shape_is_an_error_that_names_the_request(asked: str, answer: str) -> None:
    with Function(httpx.Response(200, text=answer)).client() as client, pytest.raises(ApiError) as failed:
        READ[asked](client)
    assert (failed.value.status, failed.value.title) == (200, "Unreadable answer")
    assert failed.value.detail.startswith(f"the answer to {asked} ")
    assert failed.value.detail.endswith(f": {answer}")


@pytest.mark.parametrize(
    ("asked", "answer", "why"),
    [
        ("POST tasks", {"operation": 1}, "has another 'operation' than expected"),
        ("GET semaphores", {"semaphores": {}}, "has another 'semaphores' than expected"),
        ("GET semaphores", {"semaphores": [1]}, "is not an object"),
        ("POST documents", {"results": []}, "has not a result for each document"),
        ("POST documents", {"results": [{}]}, "has no 'status'"),
        ("POST documents", {"results": [{"status": 400}]}, "has no 'problem'"),
        ("POST semaphore-wait/till", {"acquired": True, "lease": {"id": "a"}}, "has no 'ends_at'"),
        ("POST rates/mail/acquire", {"granted": False}, "has no 'retry_after_seconds'"),
        (
            "POST shop/objects/Stock/cup/put?wait_seconds=30.0",
            {"ready": True, "error": {"title": "Sold out"}},
            "has no 'status'",
        ),
    ],
)
def test_an_answer_without_what_is_read_of_it_is_an_error_that_says_what(asked: str, answer: Any, why: str) -> None:
    with Function(httpx.Response(200, json=answer)).client() as client, pytest.raises(ApiError, match=why) as failed:
        READ[asked](client)
    assert asked in failed.value.detail


def test_an_unreadable_answer_is_the_same_error_where_it_is_awaited() -> None:
    async def get() -> None:
        async with AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=[]))) as client:
            await client.batch("b").show()

    with pytest.raises(ApiError, match="the answer to GET batches/b is not an object"):
        asyncio.run(get())


def test_an_event_that_is_no_json_is_an_error_that_shows_it() -> None:
    answer = httpx.Response(200, text="id: 8\nevent: unit\ndata: <html>\n\n")
    with Function(answer).client() as client, pytest.raises(ApiError, match="GET batches/b/events is not JSON: <html>"):
        next(client.batch("b").watch())


def test_an_answer_that_cannot_be_unpacked_is_none_at_all() -> None:
    torn = httpx.DecodingError("torn")
    with Function(torn, httpx.Response(200, json={"key": "a"})).client() as client:
        assert client.documents.get("a") == {"key": "a"}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_make_it_another_address_is_not_sent(name: str) -> None:
    function = Function()
    with function.client() as client:
        for send in (
            lambda: client.documents.delete(name),
            lambda: client.semaphore("till").end_lease(name),
            lambda: client.flow("shop", "checkout").run(name).delete(),
        ):
            with pytest.raises(ValueError, match="cannot be a key, a name or an id"):
                send()
    assert function.requests == []


def test_the_address_of_all_functions_has_no_segments() -> None:
    function = Function(httpx.Response(200, json={}))
    with function.client() as client:
        client.request("GET", "/")
    assert str(function.requests[0].url) == URL


def test_pauses_grow_and_have_an_end() -> None:
    attempts = Attempts(ends_at=1_000.0)
    pauses = [attempts.pause_seconds(0.0, 0.99, Answered(503)) for _ in range(12)]
    assert pauses == sorted(pauses)
    assert pauses[-1] < 8
    assert all(attempts.pause_seconds(0.0, 0.99, Answered(503)) < 8 for _ in range(2_000))
    patience = Patience(ends_at=5.0)
    assert patience.next_pause(4.9, "it") == pytest.approx(0.1)
    assert patience.next_pause(0.0, "it", least=3.0) == 3.0
    assert patience.next_pause(4.0, "it", least=3.0) == 1.0
    with pytest.raises(TimeoutError, match="it has not ended"):
        patience.next_pause(5.0, "it has not ended")


def test_a_lease_is_asked_for_again_when_the_function_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(blocking_semaphores, "sleep", slept.append)
    refused = [httpx.Response(200, json={"acquired": False}, headers={"Retry-After": text}) for text in ("4", "3", "")]
    granted = httpx.Response(200, json={"acquired": True, "lease": {"id": "a~1", "token": 1, "ends_at": ""}})
    function = Function(*refused, granted, httpx.Response(200, json={"released": True}))
    with function.client() as client, client.semaphore("till").lease(timeout_seconds=60, lease_seconds=60):
        assert slept[:2] == [4, 3]
        assert slept[2] < 1
    assert len({json.loads(request.content)["id"] for request in function.requests[:4]}) == 1


# --- tokens ---


def token(expires_at: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def test_a_token_is_renewed_before_it_expires_and_is_of_one_function() -> None:
    now, fetched = [0.0], list[str]()

    def fetch(audience: str) -> str:
        fetched.append(audience)
        return token(now[0] + 3_600)

    tokens = Tokens(fetch, lambda: now[0])
    for now[0] in (0, 1_000, 3_299, 3_300, 3_301):
        tokens.token("a")
    tokens.token("b")
    assert fetched == ["a", "a", "b"]


@pytest.mark.parametrize("text", ["", "a.b", "a.%%%.c", "a.e30.c", token(7).replace("header", "h")])
def test_a_token_that_says_no_expiry_is_fetched_each_time(text: str) -> None:
    assert expiry(text) in (0.0, 7.0)


def test_a_local_stack_gets_no_token() -> None:
    function = Function(httpx.Response(200, json={"key": "a"}))
    with Client("http://127.0.0.1:8080", transport=httpx.MockTransport(function)) as client:
        client.documents.get("a")
    assert "Authorization" not in function.requests[0].headers
    assert str(function.requests[0].url) == "http://127.0.0.1:8080/documents/a"


def test_a_person_s_token_is_gcloud_s(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.auth.exceptions import DefaultCredentialsError
    from google.oauth2 import id_token

    def no_account(*_: Any) -> str:
        raise DefaultCredentialsError("no account here")

    monkeypatch.setattr(id_token, "fetch_id_token", no_account)
    ended = subprocess.CompletedProcess([], 0, "a-token\n", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    assert default_token("https://f.example") == "a-token"
    ended.returncode, ended.stderr = 1, "not signed in"
    with pytest.raises(NoIdentity, match=r"no account here.*not signed in"):
        default_token("https://f.example")


# --- leases ---


@pytest.fixture
def base() -> Iterator[str]:
    with Harness(), serving(mounted(load())) as url:
        yield url


class Clock:
    """The time by which a client's leases end. Only a test moves it; a client's pause moves it at once."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(blocking_semaphores, "lease_clock", clock)
    monkeypatch.setattr(blocking_semaphores, "sleep", clock.sleep)
    monkeypatch.setattr(aio_semaphores, "lease_clock", clock)
    return clock


def test_a_lease_is_renewed_until_its_block_ends(base: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(base) as client:
        till = client.semaphore("till")
        till.ensure(permits=1, lease_seconds=0.3)
        renewed = counted(monkeypatch, type(till), "renew")
        with till.lease(timeout_seconds=1) as lease:
            for _ in range(3):
                clock.now += 0.2
                before = len(renewed)
                wait_until(lambda: len(renewed) > before + 1)  # noqa: B023  # the first may have been asked for earlier
                lease.check()
            with pytest.raises(TimeoutError, match="till has no free permit"), till.lease(timeout_seconds=0.1):
                pass
        assert till.show()["free"] == 1
        with till.lease(timeout_seconds=1) as again:
            assert again.token > lease.token


@pytest.mark.usefixtures("clock")
def test_a_lease_that_was_ended_is_lost(base: str) -> None:
    def hold(error: Exception | None = None) -> None:
        with till.lease(timeout_seconds=1) as lease:
            till.end_lease(lease.id, "a test")
            if error is not None:
                raise error
            wait_until(lambda: lease.is_lost)

    with Client(base) as client:
        till = client.semaphore("till")
        till.ensure(permits=1, lease_seconds=0.3)
        with pytest.raises(LeaseLost, match="of till ended before it was released"):
            hold()
        with pytest.raises(KeyError, match="the block's own"):
            hold(KeyError("the block's own"))


def test_a_lease_that_cannot_be_renewed_is_lost_when_it_must_have_ended(base: str, clock: Clock) -> None:
    is_lost: list[bool] = []

    def hold() -> None:
        with till.lease(timeout_seconds=1) as lease:
            client._transport.base_url = "http://127.0.0.1:9/"
            for seconds in (0.299, 0.002):
                clock.now += seconds
                is_lost.append(lease.is_lost)
            client._transport.base_url = base

    with Client(base, retry_seconds=0) as client:
        till = client.semaphore("till")
        till.ensure(permits=1, lease_seconds=0.3)
        with pytest.raises(LeaseLost):
            hold()
    assert is_lost == [False, True]


def test_a_renewal_that_is_answered_late_counts_from_when_it_was_asked(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renew(*_: object) -> bool:
        clock.now += 12
        return True

    with Function().client() as client:
        till = client.semaphore("till")
        monkeypatch.setattr(blocking_semaphores.Semaphore, "renew", renew)
        lease = blocking_semaphores.HeldLease(till, 10)
        lease.begin({"id": "a", "token": 1, "ends_at": ""}, clock.now)
        lease._renew()
    assert lease.is_lost


@pytest.mark.usefixtures("clock")
def test_a_renewal_without_a_token_is_tried_again(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(base) as client:
        till = client.semaphore("till")
        till.ensure(permits=1, lease_seconds=0.3)
        asked: list[Any] = []
        real = blocking_semaphores.Semaphore.renew

        def renew(*arguments: Any) -> bool:
            asked.append(arguments)
            if len(asked) == 1:
                raise NoIdentity("not now")
            return real(*arguments)

        monkeypatch.setattr(blocking_semaphores.Semaphore, "renew", renew)
        with till.lease(timeout_seconds=1) as lease:
            wait_until(lambda: len(asked) > 3)
            lease.check()


def test_a_lease_is_renewed_while_other_code_is_awaited(
    base: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = counted(monkeypatch, aio_semaphores.Semaphore, "renew")

    async def run() -> int:
        async with AsyncClient(base) as client:
            till = client.semaphore("till")
            await till.ensure(permits=1, lease_seconds=0.3)
            async with till.lease(timeout_seconds=1) as lease:
                for _ in range(3):
                    clock.now += 0.2
                    before = len(renewed)
                    while len(renewed) <= before + 1:  # the first may have been asked for earlier
                        await asyncio.sleep(0.01)
                    lease.check()
            shown = await till.show()
            return int(shown["free"])

    assert asyncio.run(run()) == 1


@pytest.mark.slow
def test_only_one_of_many_holders_is_inside(base: str) -> None:
    inside, most = [0], [0]

    def work() -> None:
        with Client(base) as client, client.semaphore("till").lease(timeout_seconds=30):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            inside[0] -= 1

    with Client(base) as client:
        client.semaphore("till").ensure(permits=1)
    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == ([0], [1])


def counted(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[Any]:
    """Return a list to which each call of a method adds its result."""
    found: list[Any] = []
    inner = getattr(kind, name)

    def called(*args: Any, **named: Any) -> Any:
        found.append(inner(*args, **named))
        return found[-1]

    monkeypatch.setattr(kind, name, called)
    return found


def wait_until(has_happened: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not has_happened():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_the_whole_log_is_of_one_execution() -> None:
    def page(execution: str, *entries: int, has_more: bool = False) -> httpx.Response:
        shown = {"execution_id": execution, "arguments": {}, "entries": [{"number": number} for number in entries]}
        return httpx.Response(200, json=shown | ({"next_page_token": "2"} if has_more else {}))

    function = Function(page("a-0", 1, 2, has_more=True), page("a-1"), page("a-1", 1, 2, has_more=True), page("a-1", 3))
    log = function.client().flow("shop", "order").run("7").whole_log()
    assert (log["execution_id"], [entry["number"] for entry in log["entries"]]) == ("a-1", [1, 2, 3])


@pytest.mark.parametrize(
    ("host", "is_sent_past_a_proxy"),
    [("127.0.0.1", True), ("127.83.12.201", True), ("localhost", True), ("127.0.0.1.example", False)],
)
def test_what_a_local_stack_receives_passes_no_proxy_of_the_environment(
    host: str, is_sent_past_a_proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def handle(pool: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        asked.append(type(pool._pool).__name__)
        return httpx.Response(200, json={})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Client(f"http://{host}:8080/") as client:
        client.documents.get("x")
    assert asked == ["ConnectionPool" if is_sent_past_a_proxy else "HTTPProxy"]


def test_googles_404_of_a_function_of_the_kit_names_the_entry_to_add() -> None:
    page = httpx.MockTransport(lambda _: httpx.Response(404, text="<html>Page not found</html>"))
    with Client(URL, token=lambda _: "", transport=page) as client:
        with pytest.raises(NotFound, match=r"404 Not deployed: documents is not deployed .* add `api: \[documents\]`"):
            client.documents.get("x")
        with pytest.raises(NotFound, match="Page not found"):
            client.request("GET", "shop/x")


def test_a_value_that_looks_like_a_large_one_is_returned_as_it_was_sent() -> None:
    value = {"$payload": {"sha256": "0" * 64, "bytes": 1}}
    wrapped = {"$payload": {"value": value}}
    ended = httpx.Response(200, json={"state": "completed", "result": wrapped})
    page = {"execution_id": "a-0", "arguments": {"value": wrapped}, "entries": [{"value": value}]}
    function = Function(ended, httpx.Response(200, json=page), httpx.Response(200, json={"value": value}))
    run = function.client().flow("shop", "order").run("7")
    assert run.result(5) == value
    log = run.whole_log()
    assert (log["arguments"], log["entries"]) == ({"value": wrapped}, [{"value": wrapped}])


def test_half_of_a_surrogate_pair_is_sent_as_its_escape() -> None:
    values: list[Any] = ["\ud800", {"\udfff": "ü"}]
    assert [json.loads(line) for line in lines(values).splitlines()] == values
    assert json.loads(request("POST", "a", body=values).content or b"") == values
