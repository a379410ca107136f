"""The page that documents the API: it shows every call, sends one, and loads nothing from another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
import yaml
from werkzeug.test import Client

from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.local.functions.server import mounted
from tests.serving import serving
from tests.yaml_files import read_yaml

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from playwright.sync_api import Page, ViewportSize

API = read_yaml(Path(__file__).parents[2] / "openapi.yaml")
SCROLLS_MAX = 200
PASSES_MAX = 5
TALL: ViewportSize = {"width": 1_280, "height": 5_000}
"""A window that shows many calls at once: a few scrolls reach the end."""
FUNCTIONS = {
    "accounts",
    "atlas",
    "machines",
    "philosophers",
    "quilt",
    "seats",
    "shop",
    "social-code",
    "social-sandbox",
    "todos",
}
"""The functions of the examples, by the segments of their addresses."""

METHODS = ("get", "put", "post", "patch", "delete")


def operations(description: Any) -> set[tuple[str, str]]:
    return {(path, method) for path, item in description["paths"].items() for method in METHODS if method in item}


@pytest.fixture(scope="module")
def app() -> Iterator[WSGIApplication]:
    with Harness():
        yield mounted(load())


def description(app: WSGIApplication) -> Any:
    answer = Client(app).get("/openapi.yaml", base_url="http://127.0.0.1:9999/")
    assert answer.content_type == "application/yaml"
    return yaml.safe_load(answer.data)


def test_the_page_shows_every_call_and_sends_one_and_loads_nothing_from_elsewhere(
    page: Page, app: WSGIApplication
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size(TALL)
    with serving(app) as base:
        page.goto(f"{base}docs#/semaphores/list_semaphores")
        page.click("#operations-semaphores-list_semaphores .execute")
        page.wait_for_selector(".live-responses-table .response")
        assert page.inner_text(".live-responses-table .response .response-col_status").startswith("200")
        assert base in page.inner_text(".request-url")
        described = len(operations(description(app)))
        assert len(shown(page, described)) == described
        assert [url for url in asked if not url.startswith((base, "data:"))] == []


def test_the_page_is_dark_if_the_browser_is_and_as_wide_as_a_phone(page: Page, app: WSGIApplication) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    with serving(app) as base:
        page.goto(f"{base}docs")
        page.wait_for_selector(".swagger-ui .info")
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(28, 32, 34)"
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.get_attribute("meta[name=viewport]", "content") == "width=device-width, initial-scale=1"


def shown(page: Page, awaited: int) -> set[str]:
    """Return the ids of all operations. Of many, the page has only those in sight, so it is scrolled to its end.

    A slow machine draws some only after the page was scrolled on, so it is scrolled again while any is awaited.
    """
    found: set[str] = set()
    for _ in range(PASSES_MAX):
        found |= passed(page)
        if len(found) >= awaited:
            break
    return found


def passed(page: Page) -> set[str]:
    """Return the ids of the operations that are seen in one pass over the page."""
    found: set[str] = set()
    page.evaluate("scrollTo(0, 0)")
    for _ in range(SCROLLS_MAX):
        page.wait_for_timeout(50)
        found |= set(page.evaluate("[...document.querySelectorAll('.opblock')].map(block => block.id)"))
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 1"):
            return found
        page.evaluate("scrollBy(0, innerHeight / 2)")
    raise AssertionError("the page does not end")


def test_the_description_is_the_projects_with_this_stack_as_its_server(app: WSGIApplication) -> None:
    served = description(app)
    assert served["servers"] == [{"url": "http://127.0.0.1:9999", "description": "This machine."}]
    assert {path: served["paths"][path] for path in API["paths"]} == API["paths"]
    schemas = served["components"]["schemas"]
    assert {name: schemas[name] for name in API["components"]["schemas"]} == API["components"]["schemas"]
    assert {name.partition(".")[0] for name in schemas.keys() - API["components"]["schemas"]} <= FUNCTIONS
    rest = {"servers", "paths", "components"}
    assert {key: served[key] for key in served.keys() - rest} == {key: API[key] for key in API.keys() - rest}


def test_the_description_has_the_routes_of_all_other_functions(app: WSGIApplication) -> None:
    served = description(app)
    added = operations(served) - operations(API)
    assert {path.split("/")[1] for path, _ in added} == FUNCTIONS
    called = served["paths"]["/atlas/cities/{id}"]["patch"]
    assert [(each["name"], each["in"]) for each in called["parameters"]] == [
        ("id", "path"),
        ("If-Match", "header"),
        ("If-None-Match", "header"),
    ]
    assert called["tags"] == ["atlas"]
    assert called["summary"]
    assert "application/json" in called["requestBody"]["content"]
    assert "requestBody" not in served["paths"]["/atlas/cities"]["get"]


def test_a_route_has_the_name_and_the_docstring_of_its_handler(app: WSGIApplication) -> None:
    described = description(app)["paths"]
    assert [path for path, item in described.items() for each in item.values() if "lambda" in str(each)] == []
    called = described["/shop/stock"]["post"]
    assert called["operationId"] == "shop_deliver_post"
    assert called["summary"] == "Put an item into stock, once under a delivery's name, and open the docks."


def test_each_flow_has_the_schemas_of_its_arguments_and_its_result(app: WSGIApplication) -> None:
    described = description(app)["paths"]["/shop/flows/checkout/{id}"]
    [_, start] = described["post"]["requestBody"]["content"]["application/json"]["schema"]["allOf"]
    whole, text = {"type": "integer"}, {"type": "string"}
    arguments = {"order": text, "item": text, "count": whole, "amount": whole}
    assert start == {
        "properties": {"arguments": {"type": "object", "properties": arguments, "required": list(arguments)}},
        "required": ["arguments"],
    }
    assert described["post"]["summary"].startswith("Sell `count` of an i")
    [_, status] = described["get"]["responses"]["200"]["content"]["application/json"]["schema"]["allOf"]
    assert status == {"properties": {"result": {"type": "object", "additionalProperties": text}}}


def test_each_method_has_the_schemas_of_its_arguments_and_its_result(app: WSGIApplication) -> None:
    called = description(app)["paths"]["/shop/objects/Stock/{key}/reserve"]["post"]
    assert called["requestBody"]["content"]["application/json"]["schema"] == {
        "type": "object",
        "properties": {"order": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["order", "count"],
    }
    [_, done] = called["responses"]["200"]["content"]["application/json"]["schema"]["allOf"]
    assert done == {"properties": {"result": {"type": "integer"}}}


def test_the_description_of_all_functions_is_valid_openapi(app: WSGIApplication) -> None:
    schemathesis.openapi.from_dict(description(app)).validate()


def test_a_route_shows_the_schema_of_its_body(app: WSGIApplication) -> None:
    described = description(app)
    body = described["paths"]["/shop/stock"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/shop.Delivery.argument"}
    assert described["components"]["schemas"]["shop.Delivery.argument"]["required"] == ["item", "count"]


def test_a_resource_is_described_on_the_page_as_by_itself(app: WSGIApplication) -> None:
    served = description(app)
    assert served["components"]["schemas"]["atlas.City"]["required"]
    listed = served["paths"]["/atlas/cities"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert listed == {"type": "array", "items": {"$ref": "#/components/schemas/atlas.City"}}


@pytest.mark.parametrize("path", ["/docs/nothing.js", "/docs/LICENSE", "/docs/../main.py", "/docs/a/b", "/docsy"])
def test_what_belongs_to_no_page_is_not_found(app: WSGIApplication, path: str) -> None:
    assert Client(app).get(path).status_code == 404


def test_the_pages_are_read_only(app: WSGIApplication) -> None:
    client = Client(app)
    assert [client.post(path).status_code for path in ("/docs", "/openapi.yaml")] == [404, 404]
    head = client.head("/docs")
    assert (head.status_code, head.data) == (200, b"")
