"""Calls of one function by another: in the harness, on the local stack, and over HTTP."""

import base64
import gzip
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from signalbox import Function, NotFound, Problem, Unavailable, flow, flows, invoke, write_rows
from signalbox.adapters import settings
from signalbox.adapters.http import invocations
from signalbox.adapters.http.invocations import InvocationFailed, InvocationRefused
from signalbox.catalogue.reading import load
from signalbox.flows.api.warnings import FlowWarning
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox_tools.local.functions import server
from signalbox_tools.local.functions.iam import _current
from tests.serving import serving

ADD = {"sources": [], "tests": "check(1 + 2 == 3)"}


@pytest.fixture
def called(harness: Harness) -> list[Any]:
    """Return what the function `adder` was called with; it answers according to that."""
    app, seen = Function("adder"), list[Any]()

    @app.http("POST", "/sums")
    def add(request: Any) -> dict[str, Any]:
        seen.append(request.json_object())
        match seen[-1].get("fail"):
            case "busy":
                raise Unavailable("busy")
            case "refused":
                raise Problem("Send two numbers.")
            case "broken":
                raise RuntimeError("a secret")
        return {"sum": sum(seen[-1]["numbers"])}

    @app.http("DELETE", "/sums")
    def forget(_: Any) -> None:
        seen.clear()

    harness.add(app)
    return seen


def test_a_function_gets_the_answer_of_another_one(called: list[Any]) -> None:
    assert invoke("adder", "/sums", {"numbers": [1, 2]}) == {"sum": 3}
    assert called == [{"numbers": [1, 2]}]
    assert invoke("adder", "/sums", method="DELETE") is None
    assert called == []


@pytest.mark.parametrize(
    ("fail", "raised", "says"),
    [
        ("busy", Unavailable, "adder answered 503: Service unavailable"),
        ("refused", InvocationRefused, "adder answered 400: Bad request: Send two numbers."),
        ("broken", InvocationFailed, "adder answered 500: Internal error"),
    ],
)
@pytest.mark.usefixtures("called")
def test_an_error_of_the_called_function_is_permanent_transient_or_counted(
    fail: str, raised: type[Exception], says: str
) -> None:
    with pytest.raises(raised, match=says):
        invoke("adder", "/sums", {"fail": fail})


@pytest.fixture
def over_http(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Response], list[Request]]]:
    """Return a function that has calls answered over HTTP, and returns the requests as they come."""
    requests: list[Request] = []
    answers: list[Response] = []

    @Request.application
    def application(request: Request) -> Response:
        request.get_data()
        requests.append(request)
        time.sleep(float(request.headers.get("X-Sleep", 0)))
        return answers[-1]

    def answered(answer: Response) -> list[Request]:
        answers.append(answer)
        return requests

    with serving(application) as base:
        before = settings.bind(replace(settings.settings(), function_url=base + "{function}"))
        invocations._session.cache_clear()
        yield answered
        settings.bind(before)
        monkeypatch.undo()


def test_a_call_is_one_request_with_a_json_body(over_http: Callable[[Response], list[Request]]) -> None:
    requests = over_http(Response('{"sum": 3}', content_type="application/json"))
    assert invoke("my_adder", "/sums", {"numbers": [1, 2]}) == {"sum": 3}
    [request] = requests
    assert (request.method, request.path, request.json) == ("POST", "/my-adder/sums", {"numbers": [1, 2]})


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://api.example.com/", "https://api.example.com/my-adder/sums"),
        ("https://europe-west1-p.cloudfunctions.net/dev-", "https://dev-my-adder-1.europe-west1.run.app/sums"),
        ("", "https://dev-my-adder-1.europe-west1.run.app/sums"),
    ],
)
def test_a_call_goes_through_the_domain_if_the_functions_own_addresses_are_closed(
    monkeypatch: pytest.MonkeyPatch, base_url: str, address: str
) -> None:
    called: list[tuple[str, str]] = []

    class Session:
        def __init__(self, audience: str) -> None:
            self.audience = audience

        def request(self, _: str, url: str, **__: object) -> Any:
            called.append((url, self.audience))
            return nullcontext(SimpleNamespace(status_code=204, raw=SimpleNamespace(read1=lambda *_, **__: b"")))

    monkeypatch.setattr(invocations, "_session", Session)
    function_url = "https://dev-{function}-1.europe-west1.run.app"
    deployed = replace(
        settings.settings(), project="p", location="europe-west1", base_url=base_url, function_url=function_url
    )
    before = settings.bind(deployed)
    try:
        assert invoke("my_adder", "/sums") is None
    finally:
        settings.bind(before)
    assert called == [(address, "https://dev-my-adder-1.europe-west1.run.app")], "the audience is the function's own"


def test_an_answer_of_the_platform_is_an_attempt_and_names_the_entry(
    over_http: Callable[[Response], list[Request]],
) -> None:
    over_http(Response("<html>Forbidden", 403))
    with pytest.raises(InvocationFailed, match="is it in `invokes` of this function's entry"):
        invoke("adder")
    over_http(Response("<html>no instance", 429))
    with pytest.raises(Unavailable):
        invoke("adder")


def test_an_answer_that_is_not_json_is_no_problem_of_the_callers_own_request(
    over_http: Callable[[Response], list[Request]],
) -> None:
    over_http(Response("a,b\n1,2\n", content_type="text/csv"))
    with pytest.raises(InvocationFailed, match="adder answered 200 with a body that is not JSON"):
        invoke("adder", "/table", method="GET")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_answer_leads_to_no_other_address(over_http: Callable[[Response], list[Request]], status: int) -> None:
    """A function of another database could make its caller read addresses that only the caller reaches."""
    requests = over_http(Response("{}", status, headers={"Location": "/other/secrets"}))
    with pytest.raises(InvocationFailed, match=f"adder answered {status}, a redirect"):
        invoke("adder", "/sums")
    assert [request.path for request in requests] == ["/adder/sums"]


def test_an_answer_has_a_limit_of_bytes(
    over_http: Callable[[Response], list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocations, "ANSWER_BYTES_MAX", 1_000)
    over_http(Response((b" " * 400 for _ in range(100_000)), content_type="application/json"))
    with pytest.raises(InvocationFailed, match="with more than 1,000 bytes"):
        invoke("adder")
    over_http(Response(gzip.compress(b"0" * 10_000_000)[:1_000], headers={"Content-Encoding": "gzip"}))
    with pytest.raises(InvocationFailed, match="a body that is not JSON"):
        invoke("adder")


def test_an_answer_that_comes_in_drops_ends_at_the_time_out(over_http: Callable[[Response], list[Request]]) -> None:
    def drops() -> Iterator[bytes]:
        for _ in range(1_000):
            time.sleep(0.02)
            yield b" "

    over_http(Response(drops(), content_type="application/json"))
    with pytest.raises(InvocationFailed, match="adder took over"):
        invoke("adder", timeout_seconds=0.3)


def test_a_reason_of_another_function_is_quoted_in_part(over_http: Callable[[Response], list[Request]]) -> None:
    over_http(Response(json.dumps({"title": "No", "detail": "x" * 100_000}), 400))
    with pytest.raises(InvocationRefused) as refused:
        invoke("adder")
    assert len(refused.value.detail) < 600


def test_a_call_on_this_machine_passes_no_proxy_of_the_environment(
    over_http: Callable[[Response], list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    over_http(Response("{}"))
    assert invoke("adder") == {}


@pytest.mark.parametrize("path", ["@other.example/sums", ".other.example/", "sums", ""])
def test_a_path_names_no_other_host(over_http: Callable[[Response], list[Request]], path: str) -> None:
    requests = over_http(Response("{}"))
    with pytest.raises(ValueError, match="must begin with a slash"):
        invoke("adder", path)
    assert requests == []


def test_a_function_that_is_not_there_or_too_slow(
    over_http: Callable[[Response], list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    over_http(Response("{}"))
    headers = {"X-Sleep": "2"}
    monkeypatch.setattr(invocations.Invocation, "headers", headers)
    with pytest.raises(InvocationFailed, match="adder took over"):
        invoke("adder", timeout_seconds=0.1)
    settings.bind(replace(settings.settings(), function_url="http://127.0.0.1:9/{function}"))
    with pytest.raises(Unavailable, match="was not reached"):
        invoke("other")


FLAVOR = {"Metadata-Flavor": "Google"}
SHOWS_IT = """
from google.auth.transport.requests import Request
from signalbox.adapters.http.invocations import _session

session = _session("https://adder-1.us-central1.run.app")
session.credentials.refresh(Request())
print(session.credentials.token)
"""


def test_the_token_is_the_functions_own_and_for_the_called_address() -> None:
    """Google's library gets it from the metadata server, which is a stand-in here."""

    @Request.application
    def metadata(request: Request) -> Response:
        if not request.path.endswith("/identity"):
            return Response('{"email": "fn@example.com"}', headers=FLAVOR, content_type="application/json")
        expiring = {"aud": request.args.get("audience"), "exp": time.time() + 3600}
        part = base64.urlsafe_b64encode(json.dumps(expiring).encode()).decode().rstrip("=")
        return Response(f"e30.{part}.e30", headers=FLAVOR, content_type="text/plain")

    with serving(metadata) as base:
        host = base.removeprefix("http://").rstrip("/")
        environment = {
            **os.environ,
            "GCE_METADATA_HOST": host,
            "GCE_METADATA_IP": host,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", textwrap.dedent(SHOWS_IT)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    claims = json.loads(base64.urlsafe_b64decode(ran.stdout.split(".")[1] + "=="))
    assert claims["aud"] == "https://adder-1.us-central1.run.app"


def test_on_the_local_stack_a_function_calls_those_in_its_entry_only(harness: Harness) -> None:
    del harness
    catalogue = load()
    before = invocations.bind(server._sent_to(server.mounted(catalogue)))
    token = _current.set(catalogue.functions["social_code"])
    try:
        assert invoke("social_sandbox", "/runs", {"runs": [ADD]})["results"][0]["success"]
        with pytest.raises(InvocationFailed, match="Add documents to the function's invokes"):
            invoke("documents", "/ann", method="GET")
    finally:
        _current.reset(token)
        invocations.bind(before)


def test_an_unknown_route_is_a_problem(called: list[Any]) -> None:
    with pytest.raises(InvocationRefused, match="404"):
        invoke("adder", "/products", {})
    assert called == []
    assert not issubclass(InvocationRefused, NotFound)


def test_a_flow_that_is_dropped_calls_nothing_and_writes_no_file(
    called: list[Any], harness: Harness, tmp_path: Path
) -> None:
    app = Function("desk")
    with pytest.warns(FlowWarning, match=r"invoke\(\)|write_rows\(\)"):

        @app.flow
        async def waits() -> None:
            try:
                await flow.event("go")
            finally:
                with suppress(BaseException):
                    invoke("adder", "/sums", {"numbers": [1]})
                with suppress(BaseException):
                    write_rows(tmp_path / "out.ndjson", [{}])

    harness.add(app)
    waits.start("1")
    harness.run()
    assert flows("waits", "1").status().state == "running"
    assert (called, list(tmp_path.iterdir())) == ([], [])
