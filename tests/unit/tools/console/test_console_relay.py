"""`signalbox console -p …`: it forwards only reads, with gcloud's identity, and only for its own page."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Request, Response

from signalbox.catalogue.project import Project
from signalbox_tools.cli.main import main
from signalbox_tools.console.actions import ACT_ON_RUNS, ACTIONS, REASON_HEADER
from signalbox_tools.console.relay import KEY_HEADER, Relay
from signalbox_tools.console.serving import server_of, write_line
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.status.status_lines import QueueNow
from tests.serving import serving

TARGET = Target("demo-project", "dev", "us-central1", {"prefix": "dev"})


class Deployment:
    """Functions in the cloud: they answer requests with the currently valid token, and record all requests."""

    def __init__(self) -> None:
        self.good = "token-1"
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.released = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        self.asked.append((request.method, environ["REQUEST_URI"], dict(request.headers)))
        return self.answer(request)(environ, start_response)

    def answer(self, request: Request) -> Response:
        if request.headers.get("Authorization") != f"Bearer {self.good}":
            return Response("<html>401</html>", 401, content_type="text/html")
        if request.path.endswith("/events"):
            return Response(self._events(), content_type="text/event-stream; charset=utf-8")
        if request.path.endswith("/page"):
            return Response("<script>alert(1)</script>", content_type="text/html")
        if request.path.endswith("/none"):
            return Response('{"title": "Not found"}', 404, content_type="application/problem+json")
        cookies = {"Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*", "ETag": '"1"'}
        return Response('{"semaphores": []}', headers=cookies, content_type="application/json")

    def _events(self) -> Iterator[bytes]:
        yield b"event: progress\ndata: {}\n\n"
        self.released.wait(30)
        yield b"event: complete\ndata: {}\n\n"


class Gcloud:
    """Prints a new token for each request."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, command: Sequence[str], *, folder: Path, **_: object) -> Outcome:
        assert folder == TARGET.root
        if "print-identity-token" not in command:
            return Outcome(0, "ann@example.com\n", "")
        self.tokens += 1
        return Outcome(0, f"token-{self.tokens}\n", "")


Opened = tuple[httpx.Client, Relay]
"""A client that has opened the printed address, and the relay."""


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return Deployment()


@pytest.fixture(scope="module")
def opened(deployed: Deployment) -> Iterator[Opened]:
    with serving(deployed) as upstream:
        server, relay = server_of(TARGET, 0, Gcloud(), f"{upstream}dev-")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
            client.headers[KEY_HEADER] = relay.key
            yield client, relay
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def deployment(deployed: Deployment, opened: Opened) -> Deployment:
    """Return the deployment with no recorded requests."""
    deployed.good = opened[1].tokens.token("")
    deployed.asked.clear()
    return deployed


@pytest.fixture
def client(opened: Opened, deployment: Deployment) -> httpx.Client:
    return opened[0]


def test_a_read_is_passed_on_with_the_token_which_stays_here(client: httpx.Client, deployment: Deployment) -> None:
    answer = client.get("/semaphores/caf%C3%A9?a=b%2Fc", headers={"X-Own": "1", "Accept": "application/json"})
    assert (answer.status_code, answer.json(), answer.headers["ETag"]) == (200, {"semaphores": []}, '"1"')
    [(method, address, headers)] = deployment.asked
    assert (method, address) == ("GET", "/dev-semaphores/caf%C3%A9?a=b%2Fc")
    assert (headers["Authorization"], headers["Accept"]) == (f"Bearer {deployment.good}", "application/json")
    assert "X-Own" not in headers
    assert "Cookie" not in headers
    assert deployment.good not in answer.text + json.dumps(dict(answer.headers))
    assert not {"Set-Cookie", "Access-Control-Allow-Origin"} & set(answer.headers)
    assert "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_gets_are_passed_on(client: httpx.Client, deployment: Deployment, method: str) -> None:
    assert client.request(method, "/semaphores/a").status_code == 405
    assert deployment.asked == []


@pytest.fixture
def acting(opened: Opened, deployment: Deployment) -> tuple[Client, list[Mapping[str, Any]], dict[str, str]]:
    """Return a client of a relay that was started to act, its log, and the headers of its own page."""
    client, relay = opened
    lines: list[Mapping[str, Any]] = []
    console = replace(relay.console, acts=True)
    headers = {KEY_HEADER: relay.key, "Origin": f"http://{client.base_url.netloc.decode()}", REASON_HEADER: "why%20not"}
    return Client(replace(relay, console=console, log=lines.append)), lines, headers


Acting = tuple[Client, list[Mapping[str, Any]], dict[str, str]]


def test_an_action_is_passed_on_with_its_body_and_logged(
    opened: Opened, deployment: Deployment, acting: Acting
) -> None:
    client, lines, headers = acting
    path, base = "/shop/flows/checkout/o%207/cancel", str(opened[0].base_url)
    answer = client.post(path, base_url=base, json={"reason": "late"}, headers={**headers, "Idempotency-Key": "k"})
    assert answer.status_code == 200
    [(method, address, sent)] = deployment.asked
    assert (method, address, sent["Content-Type"]) == ("POST", f"/dev-{path[1:]}", "application/json")
    assert (sent["Authorization"], sent["Idempotency-Key"]) == (f"Bearer {deployment.good}", "k")
    call = {"action": "cancel", "call": f"POST {path}", "status": 200}
    assert lines == [{"message": "console action", "account": "ann@example.com", "reason": "why not", **call}]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/semaphores/the%20printer/pause", "pause-semaphore"),
        ("/semaphores/the%20printer/resume", "resume-semaphore"),
        ("/rates/mails/pause", "pause-rate"),
        ("/rates/mails/resume", "resume-rate"),
    ],
)
def test_pauses_are_passed_on_and_logged(
    opened: Opened, deployment: Deployment, acting: Acting, path: str, name: str
) -> None:
    client, lines, headers = acting
    assert client.post(path, base_url=str(opened[0].base_url), json={}, headers=headers).status_code == 200
    assert [address for _, address, _ in deployment.asked] == [f"/dev-{path[1:]}"]
    assert [(line["action"], line["call"], line["reason"]) for line in lines] == [(name, f"POST {path}", "why not")]


def test_an_action_on_all_that_match_is_logged_with_what_it_does(opened: Opened, acting: Acting) -> None:
    client, lines, headers = acting
    path, asked = "/shop/flows/checkout/:act", {"action": "cancel", "label": "tenant:a", "reason": "late"}
    assert client.post(path, base_url=str(opened[0].base_url), json=asked, headers=headers).status_code == 200
    assert [(line["action"], line["call"], line["asked"]) for line in lines] == [("act-on-runs", f"POST {path}", asked)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/batches"),
        ("POST", "/documents"),
        ("PUT", "/documents"),
        ("DELETE", "/documents"),
        ("PUT", "/documents/a/versions"),
        ("DELETE", "/documents/a/versions"),
        ("DELETE", "/semaphores/a"),
        ("PUT", "/semaphores/a"),
        ("POST", "/semaphores/a"),
        ("POST", "/semaphore-wait/a"),
        ("POST", "/rates/a/acquire"),
        ("PUT", "/rates/a"),
        ("POST", "/shop/flows/checkout/o-1"),
        ("POST", "/shop/objects/Stock/cup/put"),
        ("POST", "/shop/flows/checkout/o-1/resume/more"),
        ("POST", "/shop/flows/checkout/o-1/delete"),
        ("DELETE", "/shop/flows/checkout"),
        ("POST", "/shop/flows/checkout"),
        ("POST", "/shop/flows/:act"),
        ("POST", "/tasks/flows/checkout/:act"),
        ("POST", "/tasks/flows/checkout/o-1/resume"),
        ("POST", "/quilt"),
        ("DELETE", "/failures"),
    ],
)
def test_nothing_but_actions_is_passed_on(
    opened: Opened, deployment: Deployment, acting: Acting, method: str, path: str
) -> None:
    client, lines, headers = acting
    answer = client.open(path, method=method, base_url=str(opened[0].base_url), headers=headers)
    assert answer.status_code in (404, 405)
    assert (deployment.asked, lines) == ([], [])


@pytest.mark.parametrize(
    "target",
    [
        "DELETE /semaphores/a#/leases/b",
        "POST /batches/a#/retry",
        "POST xsweep/semaphores/a/pause",
        "GET xtodos/semaphores",
        "POST /semaphores/\x01/pause",
        "POST /semaphores/\xe9/pause",
    ],
)
def test_what_would_reach_another_address_than_it_names_is_not_passed_on(
    opened: Opened, deployment: Deployment, acting: Acting, target: str
) -> None:
    client, lines, headers = acting
    method, _, address = target.partition(" ")
    raw = {"RAW_URI": address, "REQUEST_URI": address}
    base = str(opened[0].base_url)
    answer = client.open("/semaphores/a", method=method, base_url=base, headers=headers, environ_overrides=raw)
    assert answer.status_code == 400
    assert (deployment.asked, lines) == ([], [])


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"label": "\\ud800"}', b"{"])
def test_an_action_with_a_strange_body_is_logged_too(
    opened: Opened, acting: Acting, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    client, lines, headers = acting
    path, sent = "/shop/flows/checkout/:act", {**headers, "Content-Type": "application/json"}
    assert client.post(path, base_url=str(opened[0].base_url), data=body, headers=sent).status_code == 200
    [line] = lines
    write_line({**line, "reason": "caf\xe9 \x9b31m \u202e"})
    written = capsys.readouterr().out
    assert json.loads(written.encode()) == {**line, "reason": "caf\xe9 \x9b31m \u202e"}
    assert "caf\xe9 \\u009b31m \\u202e" in written


SECURITY: list[tuple[str, dict[str, str], int]] = [
    ("with another `Origin`, `null` or none", {"Origin": "http://evil.example"}, 403),
    ("with another `Origin`, `null` or none", {"Origin": "null"}, 403),
    ("with another `Origin`, `null` or none", {"Origin": ""}, 403),
    ("with `Sec-Fetch-Site` of another site", {"Sec-Fetch-Site": "cross-site"}, 403),
    ("without the key of the printed address, which is new at each start", {KEY_HEADER: "guess"}, 403),
    ("to another host name, as by DNS rebinding", {"Host": "evil.example"}, 403),
    ("without a reason", {REASON_HEADER: " "}, 400),
    ("with a body that is not JSON, is chunked, or exceeds 102,400 bytes", {"Content-Type": "text/plain"}, 413),
    ("with a body that is not JSON, is chunked, or exceeds 102,400 bytes", {"Transfer-Encoding": "chunked"}, 413),
    ("with a body that is not JSON, is chunked, or exceeds 102,400 bytes", {"Content-Length": "102401"}, 413),
]


@pytest.mark.parametrize(("changed", "status"), [row[1:] for row in SECURITY])
def test_an_action_needs_the_page_its_key_a_reason_and_json(
    opened: Opened, deployment: Deployment, acting: Acting, changed: dict[str, str], status: int
) -> None:
    client, lines, headers = acting
    path, base = "/failures/f/retry", str(opened[0].base_url)
    data = "1" * int(changed.get("Content-Length", 2))
    answer = client.post(
        path, base_url=base, data=data, headers={"Content-Type": "application/json", **headers, **changed}
    )
    assert answer.status_code == status
    assert (deployment.asked, lines) == ([], [])


class Queues:
    """Queues of a deployment, in memory; `links` may not be changed."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def now(self) -> Sequence[QueueNow]:
        return [QueueNow("tasks", 3, 1, 2.5, 40)]

    def pause(self, name: str) -> None:
        if name == "links":
            raise CommandFailed("PERMISSION_DENIED")
        self.changes.append(f"pause {name}")

    def resume(self, name: str) -> None:
        self.changes.append(f"resume {name}")


def test_a_queue_is_paused_by_the_relay_itself_and_logged(
    opened: Opened, deployment: Deployment, acting: Acting
) -> None:
    _, lines, headers = acting
    relay, queues = opened[1], Queues()
    console = replace(relay.console, acts=True, queues=queues)
    client, base = Client(replace(relay, console=console, log=lines.append)), str(opened[0].base_url)
    shown = client.get("/console/queues", base_url=base, headers=headers).get_json()["queues"]
    counts = {"tasks": 3, "running": 1, "oldest_seconds": 2.5, "per_minute": 40}
    assert shown == [{"name": "tasks", **counts, "state": "running"}]
    statuses = [
        client.post(f"/console/queues/{path}", base_url=base, headers=headers).status_code
        for path in (
            "tasks/pause",
            "tasks/resume",
            "links/pause",
            "none/pause",
            "tasks/purge",
            "tasks",
            "tasks-9/pause",
        )
    ]
    assert statuses == [204, 204, 502, 404, 405, 405, 204]
    assert queues.changes == ["pause tasks", "resume tasks", "pause tasks-9"], "a shard that the catalogue had"
    assert [(line["action"], line["status"]) for line in lines] == [
        ("pause-queue", 204),
        ("resume-queue", 204),
        ("pause-queue", 502),
        ("pause-queue", 404),
        ("pause-queue", 204),
    ]
    assert client.post("/console/queues/tasks/pause", base_url=base, headers={"Origin": "null"}).status_code == 403
    assert deployment.asked == []


class Schedules(Queues):
    """Schedules of which one is paused."""

    def paused(self) -> list[str]:
        return ["sweep"]


def test_a_schedule_is_paused_and_resumed_by_the_relay_itself(
    opened: Opened, deployment: Deployment, acting: Acting
) -> None:
    _, lines, headers = acting
    relay, schedules = opened[1], Schedules()
    console = replace(relay.console, acts=True, schedules=schedules)
    client, base = Client(replace(relay, console=console, log=lines.append)), str(opened[0].base_url)
    assert client.get("/console/schedules", base_url=base, headers=headers).get_json() == {"paused": ["sweep"]}
    statuses = [
        client.post(f"/console/schedules/{path}", base_url=base, headers=headers).status_code
        for path in ("sweep/pause", "sweep/resume", "none/pause", "sweep/run")
    ]
    assert statuses == [204, 204, 404, 405]
    assert schedules.changes == ["pause sweep", "resume sweep"]
    assert [(line["action"], line["status"]) for line in lines] == [
        ("pause-schedule", 204),
        ("resume-schedule", 204),
        ("pause-schedule", 404),
    ]
    assert deployment.asked == []


def test_the_page_has_buttons_only_where_it_may_act(opened: Opened, acting: Acting) -> None:
    client, _, headers = acting
    assert opened[0].get("/console/about").json()["actions"] == {}
    about = client.get("/console/about", base_url=str(opened[0].base_url), headers=headers).get_json()
    assert about["actions"].keys() == ACTIONS.keys()


def test_the_page_acts_on_each_run_if_callers_cannot_read_batches(opened: Opened) -> None:
    console = replace(opened[1].console, acts=True, queues=Queues())
    functions = {name: each for name, each in console.catalogue.functions.items() if name != "batches"}
    without = replace(console, catalogue=replace(console.catalogue, functions=functions))
    assert {*console._actions} - {*without._actions} == {ACT_ON_RUNS}


def docs() -> str:
    return (Path(__file__).parents[4] / "docs" / "console.md").read_text("utf-8")


def test_the_security_table_of_the_docs_is_what_was_tested() -> None:
    table = docs().partition("<!-- security -->")[2].partition("\n\n")[0]
    others = {
        "| without `--act` | 405 |",
        "| that edits or deletes a document without the `If-Match` of the version shown | 428 |",
        "| that is not one of the calls above | 404 or 405 |",
        "| whose address is not encoded, has a `#` or does not begin with `/` | 400 |",
    }
    assert set(table.splitlines()[3:]) - others == {f"| {what} | {status} |" for what, _, status in SECURITY}


def test_the_page_of_the_docs_names_each_action() -> None:
    table = docs().partition("| page | buttons")[2].partition("\n\n")[0]
    assert {each.title for each in ACTIONS.values() if each.title not in table} == set()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/semaphore-wait/a",
        "/sweep",
        "/quilt/q",
        "/todos/page",
        "/shop/stock",
        "/shop/flows",
        "/nothing",
        "//example.com/a",
        "/semaphores/../sweep",
        "/semaphores/%2e%2e/sweep",
        "/semaphores%2f..%2fsweep",
        "/@example.com/",
        "/.example.com/",
        "/console/none.js",
    ],
)
def test_only_the_kits_own_reads_are_passed_on(opened: Opened, deployment: Deployment, path: str) -> None:
    client, relay = opened
    raw = b"GET %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nConnection: close\r\n\r\n"
    host = client.base_url.netloc
    assert b" 404 " in exchange(client, raw % (path.encode(), host, KEY_HEADER.encode(), relay.key.encode()))
    assert deployment.asked == []


def exchange(client: httpx.Client, request: bytes) -> bytes:
    """Send bytes as they are, which a client would tidy up; return the first line of the answer."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_document_is_changed_only_as_it_was_seen(
    opened: Opened, deployment: Deployment, acting: Acting, method: str
) -> None:
    client, lines, headers = acting
    base = str(opened[0].base_url)
    for wrong in ({}, {"If-Match": ""}, {"If-Match": "*"}, {"If-Match": '"6", "7"'}, {"If-Match": '"6","7"'}):
        answer = client.open("/documents/a", method=method, base_url=base, json={}, headers={**headers, **wrong})
        assert answer.status_code == 428
    assert (deployment.asked, lines) == ([], [])
    answer = client.open("/documents/a", method=method, base_url=base, json={}, headers={**headers, "If-Match": '"7"'})
    [(sent, _, given)] = deployment.asked
    assert (answer.status_code, sent, given["If-Match"], len(lines)) == (200, method, '"7"', 1)


@pytest.mark.parametrize("path", ["/shop/flows/checkout", "/shop/flows/checkout/7/log", "/accounts/objects/Account/a"])
def test_flows_and_objects_of_any_function_are_read(client: httpx.Client, deployment: Deployment, path: str) -> None:
    assert client.get(path).status_code == 200
    assert deployment.asked[0][1] == f"/dev-{path[1:]}"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_request_that_names_another_host_is_refused(client: httpx.Client, deployment: Deployment, host: str) -> None:
    assert client.get("/semaphores/a", headers={"Host": host}).status_code in (400, 403)
    assert client.get("/console", headers={"Host": host}).status_code in (400, 403)
    assert deployment.asked == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_from_another_sites_page_is_refused(client: httpx.Client, deployment: Deployment, site: str) -> None:
    assert client.get("/semaphores/a", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert client.get("/semaphores/a", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert len(deployment.asked) == 1


def test_who_has_not_the_printed_key_gets_nothing(client: httpx.Client, deployment: Deployment) -> None:
    with httpx.Client(base_url=client.base_url, trust_env=False) as other:
        for path in (
            "/semaphores/a",
            "/console/about",
            "/console/map",
            "/console/status",
            "/console/none.js",
            "/nothing",
        ):
            for headers in ({}, {KEY_HEADER: "guess"}, {KEY_HEADER: ""}):
                answer = other.get(path, headers=headers)
                assert (answer.status_code, answer.json()["title"]) == (403, "Key missing")
        assert [other.get(path).status_code for path in ("/console", "/console/main.js")] == [200, 200]
    assert deployment.asked == []


def test_the_key_is_in_no_response_and_in_no_cookie_which_every_port_would_receive(opened: Opened) -> None:
    client, relay = opened
    address = client.base_url
    with httpx.Client(base_url=address, trust_env=False) as other:
        for path in ("/console", f"/console?key={relay.key}", "/semaphores/a"):
            answer = other.get(path)
            assert "Set-Cookie" not in answer.headers
            assert relay.key not in answer.text + str(answer.headers)
        cookie = {"Cookie": f"{KEY_HEADER}={relay.key}; signalbox-console-{address.port}={relay.key}"}
        assert other.get(f"/semaphores/a?key={relay.key}", headers=cookie).status_code == 403


def test_the_page_is_served_and_knows_where_it_is(client: httpx.Client) -> None:
    page = client.get("/console")
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    about = client.get("/console/about").json()
    assert (about["where"], about["has_status"], about["has_queues"]) == ("demo-project, dev, us-central1", True, True)
    assert {"function": "shop", "flow": "checkout"} in about["flows"]


def test_a_token_that_has_expired_is_renewed_once(client: httpx.Client, deployment: Deployment) -> None:
    number = int(deployment.good.removeprefix("token-"))
    deployment.good = f"token-{number + 1}"
    assert client.get("/semaphores").status_code == 200
    assert [headers["Authorization"] for _, _, headers in deployment.asked] == [
        f"Bearer token-{number}",
        f"Bearer token-{number + 1}",
    ]


def test_a_caller_without_the_right_gets_googles_message(client: httpx.Client, deployment: Deployment) -> None:
    deployment.good = "another's"
    answer = client.get("/semaphores")
    assert (answer.status_code, answer.headers["Content-Type"]) == (401, "application/problem+json")
    assert answer.json()["detail"] == "<html>401</html>"
    assert len(deployment.asked) == 2


def test_a_problem_of_the_api_is_passed_on_as_it_is(client: httpx.Client) -> None:
    answer = client.get("/semaphores/none")
    assert (answer.status_code, answer.json()) == (404, {"title": "Not found"})


def test_a_response_that_is_not_the_apis_reaches_the_page_as_a_problem(client: httpx.Client) -> None:
    answer = client.get("/documents/page")
    assert (answer.status_code, answer.headers["Content-Type"]) == (502, "application/problem+json")


def test_a_stream_is_passed_on_as_it_comes(client: httpx.Client, deployment: Deployment) -> None:
    with client.stream("GET", "/batches/b/events", headers={"Last-Event-ID": "x.1.1"}) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: progress"  # the deployment has sent no more
        deployment.released.set()
        assert "event: complete" in list(lines)
    assert deployment.asked[0][2]["Last-Event-Id"] == "x.1.1"


def test_a_deployment_that_is_not_reached_is_a_problem(opened: Opened) -> None:
    client, relay = opened
    console = Client(replace(relay, base_url="http://127.0.0.1:9/dev-"))
    answer = console.get("/semaphores", base_url=str(client.base_url), headers={KEY_HEADER: relay.key})
    assert (answer.status_code, answer.get_json()["title"]) == (502, "The deployment cannot be reached")


def test_a_machine_without_an_account_is_refused_before_anything_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    def refused(command: Sequence[str], **_: object) -> Outcome:
        return Outcome(1, "", "You do not currently have an active account selected.")

    with pytest.raises(CommandFailed, match="active account"):
        server_of(TARGET, 0, refused)


def test_without_a_project_the_console_is_that_of_the_stack_of_this_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Project, "state", tmp_path)
    assert main(["console"]) == 1
    assert "signalbox dev" in capsys.readouterr().err
