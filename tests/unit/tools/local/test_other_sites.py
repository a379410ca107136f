"""Pages of other sites and other host names cannot reach the local stack; programs and origins in `cors` can."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from werkzeug.test import Client

from signalbox.adapters import settings as adapters_settings
from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.local.loopback import programs_only
from signalbox_tools.local.services.function_settings import settings_of

MAIN = """
from signalbox import Function, Request

app = Function("{name}")

@app.http("POST")
def write(request: Request) -> dict:
    return request.json_object()

@app.http("GET")
def read(request: Request) -> dict:
    return {{}}

{name} = app.entry_point()
"""
PAGE = "https://app.example.com"
HERE = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a client of a stack with a private function, and one that a page may call."""
    root = tmp_path_factory.mktemp("project")
    for name in ("desk", "shop"):
        (root / name).mkdir()
        (root / name / "main.py").write_text(MAIN.format(name=name))
    functions = {name: {"folder": name, "invoked_by": ["people"]} for name in ("desk", "shop")}
    functions["shop"] |= {"public": True, "cors": [PAGE]}  # type: ignore[dict-item]  # entries as YAML has them
    (root / "infra").mkdir()
    (root / "infra" / "catalogue.yaml").write_text(yaml.safe_dump({"functions": functions}))
    catalogue = load(Path(root / "infra" / "catalogue.yaml"))
    with Harness():
        adapters_settings.bind(settings_of(catalogue))
        yield Client(mounted(catalogue))


def status(client: Client, path: str, method: str = "POST", **headers: str) -> int:
    given: dict[str, Any] = {"Host": "127.0.0.1:8080"} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    return client.open(path, method=method, json={} if method == "POST" else None, headers=given).status_code


LINK = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
REQUESTS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "a program's": ("desk", "POST", {}, 200),
    "by localhost": ("desk", "POST", {"Host": "localhost:9000"}, 200),
    "by IPv6": ("desk", "POST", {"Host": "[::1]:8080"}, 200),
    "of the own page": ("desk", "POST", {"Origin": HERE, "Sec_Fetch_Site": "same-origin"}, 200),
    "of the own page in an older browser": ("desk", "POST", {"Origin": HERE}, 200),
    "of a typed address": ("desk", "GET", {"Sec_Fetch_Site": "none"}, 200),
    "of a followed link": ("desk", "GET", LINK, 200),
    "by another name": ("desk", "POST", {"Host": "evil.example"}, 403),
    "a read by another name": ("", "GET", {"Host": "evil.example:8080"}, 403),
    "the console by another name": ("console", "GET", {"Host": "127.0.0.1.evil.example"}, 403),
    "no name at all": ("desk", "POST", {"Host": ""}, 403),
    "a malformed name": ("desk", "POST", {"Host": "[::1"}, 403),
    "a name with a user": ("desk", "POST", {"Host": "evil.example@127.0.0.1"}, 403),
    "a name with a path": ("desk", "POST", {"Host": "127.0.0.1/.evil.example"}, 403),
    "a name with a query": ("desk", "POST", {"Host": "localhost?.evil.example"}, 403),
    "a port that is none": ("desk", "POST", {"Host": "127.0.0.1:x.evil.example"}, 403),
    "a zone": ("desk", "POST", {"Host": "[::1%evil.example]"}, 403),
    "of another page": ("desk", "POST", {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}, 403),
    "of another page in an older browser": ("desk", "POST", {"Origin": "https://evil.example"}, 403),
    "of a page at another port": (
        "desk",
        "POST",
        {"Origin": "http://127.0.0.1:5173", "Sec_Fetch_Site": "same-site"},
        403,
    ),
    "of a sandboxed page": ("desk", "POST", {"Origin": "null", "Sec_Fetch_Site": "cross-site"}, 403),
    "another page's image": ("desk", "GET", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 403),
    "another page's frame": ("console", "GET", LINK | {"Sec_Fetch_Dest": "iframe"}, 403),
    "a form of another page": ("desk", "POST", LINK | {"Origin": "https://evil.example"}, 403),
    "of a permitted page": ("shop", "POST", {"Origin": PAGE, "Sec_Fetch_Site": "cross-site"}, 200),
    "of a permitted page elsewhere": ("desk", "POST", {"Origin": PAGE, "Sec_Fetch_Site": "cross-site"}, 403),
    "a permitted page's image": ("shop", "GET", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 200),
    "of another page to the open one": ("shop", "POST", {"Origin": "https://evil.example"}, 403),
}


@pytest.mark.parametrize("whose", REQUESTS)
def test_a_request_is_answered_or_refused_by_whose_it_is(client: Client, whose: str) -> None:
    path, method, headers, expected = REQUESTS[whose]
    assert status(client, f"/{path}", method, **headers) == expected


def test_an_address_longer_than_googles_front_ends_accept_is_refused(client: Client) -> None:
    for length, expected in ((32_768, 200), (32_769, 414), (2_000_000, 414)):
        uri = f"/desk?{'a' * (length - 6)}"
        asked = client.get("/desk", environ_overrides={"RAW_URI": uri}, headers={"Host": "127.0.0.1:8080"})
        assert asked.status_code == expected


def test_a_preflight_is_answered_for_a_permitted_page_alone(client: Client) -> None:
    asked = {"Access_Control_Request_Method": "POST", "Sec_Fetch_Site": "cross-site"}
    assert status(client, "/shop", "OPTIONS", Origin=PAGE, **asked) == 204
    assert status(client, "/shop", "OPTIONS", Origin="https://evil.example", **asked) == 403


def test_what_a_form_of_a_page_can_send_is_not_parsed(client: Client) -> None:
    host = {"Host": "127.0.0.1:8080"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", ""):
        refused = client.post("/desk", data='{"n": 1}', headers=host, content_type=kind)
        assert (refused.status_code, refused.json and refused.json["title"]) == (415, "Unsupported media type"), kind
    for kind in ("application/json", "application/json; charset=utf-8", "application/merge-patch+json"):
        assert client.post("/desk", data='{"n": 1}', headers=host, content_type=kind).json == {"n": 1}
    assert client.post("/desk", headers=host).json == {}  # no body has no type


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Origin": HERE}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
    ],
)
def test_the_stacks_own_services_answer_programs_only(headers: dict[str, str], expected: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async def asked() -> int:
        application = web.Application(middlewares=[programs_only])
        application.router.add_get("/", answer)
        async with TestClient(TestServer(application)) as caller:
            return (await caller.get("/", headers=headers)).status

    assert asyncio.run(asked()) == expected
