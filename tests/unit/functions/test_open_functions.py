"""An open function has only the routes that the catalogue exposes, and a rule decides each request.

The cells of the table "What an open function answers" in SECURITY.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from werkzeug.test import Client, TestResponse

from signalbox import Access, Function, Problem, Request, documents, flow
from signalbox.adapters import settings as adapters_settings
from signalbox.catalogue.reading import CATALOGUE, Catalogue, CatalogueError, load
from signalbox.testing import Harness, user_token
from signalbox_tools.local.functions.server import mounted
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.packaging.function_checks import check
from signalbox_tools.packaging.imported_modules import PackagingError

MAIN = """
from signalbox import Access, Function, documents, flow

app = Function("shop")


@app.object
class Cart:
    amount: int = 0

    def add(self, amount: int) -> int:
        self.amount += amount
        return self.amount


@app.object
class Ledger:
    sum: int = 0

    def add(self, amount: int) -> None:
        self.sum += amount


@app.flow
async def order(item: str):
    answer = await flow.event("approved")
    return answer


@app.flow
async def refund():
    await flow.sleep(1)


@app.task
def charge() -> None:
    documents.put("charged", {"sum": 1})


@app.access("Cart", "order")
def own(access: Access) -> bool:
    return access.id == access.request.user.id and access.action in ("call", "get", "start", "event")


shop = app.entry_point()
"""
QUEUE = {
    "dispatches_per_second": 100,
    "concurrent_max": 8,
    "attempts_max": -1,
    "backoff_min_seconds": 0.2,
    "backoff_max_seconds": 60,
    "doublings_max": 8,
}
ENTRY = {
    "folder": "shop",
    "invoked_by": ["people", "queue"],
    "enqueues": ["flows", "objects", "tasks"],
    "tasks": ["charge"],
    "objects": ["Cart", "Ledger"],
    "flows": ["order", "refund"],
    "auth": "firebase",
    "exposes": ["Cart", "order"],
}
CHARGE = {"function": "shop", "task": "charge", "payload": {}}
OF_THE_EXAMPLE = CHARGE | {"payload": {"order": "1", "amount": 1}}


def catalogue_of(root: Any, main: str = MAIN, **changes: Any) -> Catalogue:
    for folder in ("shop", "infra"):
        (root / folder).mkdir(exist_ok=True)
    (root / "shop" / "main.py").write_text(main)
    content = {"functions": {"shop": ENTRY | changes}, "queues": dict.fromkeys(("flows", "objects", "tasks"), QUEUE)}
    (root / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content))
    return load(root / "infra" / "catalogue.yaml")


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return catalogue_of(tmp_path_factory.mktemp("project"))


@pytest.fixture
def client(catalogue: Catalogue) -> Iterator[Client]:
    """Return a client of the local stack's server, which here requires no token for tasks."""
    with Harness():
        adapters_settings.bind(replace(settings_of(catalogue), tasks_account=""))
        yield Client(mounted(catalogue))


def as_user(client: Client, user: str, method: str, path: str, body: Any = None) -> TestResponse:
    headers = {"Authorization": f"Bearer {user_token(user)}"}
    return client.open(f"/shop{path}", method=method, json=body, headers=headers)


STATUSES = [
    # what the rule permits
    ("POST", "/objects/Cart/ann/add", {"amount": 1}, 200, 403),
    ("GET", "/objects/Cart/ann", None, 200, 403),
    ("POST", "/flows/order/ann", {"arguments": {"item": "tea"}}, 201, 403),
    ("GET", "/flows/order/ann", None, 404, 403),
    ("POST", "/flows/order/ann/events/approved", {"value": "yes"}, 404, 403),
    # what it does not
    ("DELETE", "/objects/Cart/ann", None, 403, 403),
    ("GET", "/objects/Cart", None, 403, 403),
    ("GET", "/objects/Cart/ann/calls/c", None, 403, 403),
    ("GET", "/flows/order", None, 403, 403),
    ("GET", "/flows/order/ann/log", None, 403, 403),
    ("POST", "/flows/order/ann/cancel", {}, 403, 403),
    ("POST", "/flows/order/ann/resume", {}, 403, 403),
    ("DELETE", "/flows/order/ann", None, 403, 403),
    # what the catalogue does not expose
    ("POST", "/objects/Ledger/ann/add", {"amount": 1}, 404, 404),
    ("GET", "/objects/Ledger", None, 404, 404),
    ("POST", "/flows/refund/ann", {}, 404, 404),
    ("GET", "/flows/refund", None, 404, 404),
    # the tasks of a request
    ("POST", "/flows/order/ann", {"arguments": {"item": "tea"}, "on_complete": CHARGE}, 403, 403),
    ("POST", "/objects/Cart/ann/calls/c/then", {"continuation": CHARGE}, 403, 403),
    ("POST", "/objects/Cart/ann/calls/c/object/add", {"amount": 1}, 403, 403),
    ("POST", "/tasks/charge", {"operation": "o", "task": "charge", "payload": {}}, 404, 404),
    ("POST", "/turns/turn", {}, 404, 404),
]


@pytest.mark.parametrize(("method", "path", "body", "own", "anothers"), STATUSES)
def test_a_user_reaches_what_the_catalogue_exposes_and_the_rule_permits(
    client: Client, method: str, path: str, body: Any, own: int, anothers: int
) -> None:
    statuses = [as_user(client, user, method, path, body).status_code for user in ("bob", "ann")]
    assert statuses == [anothers, own]
    assert client.open(f"/shop{path}", method=method, json=body).status_code == 401


def test_a_public_function_decides_by_its_rule_alone(tmp_path: Any) -> None:
    main = MAIN.replace("access.id == access.request.user.id", 'access.request.header("X-Key") == "k"')
    public = catalogue_of(tmp_path, main, auth="", public=True)
    with Harness():
        adapters_settings.bind(replace(settings_of(public), tasks_account=""))
        client = Client(mounted(public))
        path = "/shop/objects/Cart/ann/add"
        assert client.post(path, json={"amount": 1}).status_code == 403
        assert client.post(path, json={"amount": 1}, headers={"X-Key": "k"}).status_code == 200


def test_a_private_function_has_all_routes_and_no_rule_is_asked(tmp_path: Any) -> None:
    private = catalogue_of(tmp_path, auth="", exposes=[])
    with Harness():
        adapters_settings.bind(replace(settings_of(private), tasks_account=""))
        client = Client(mounted(private))
        assert client.post("/shop/objects/Ledger/ann/add", json={"amount": 1}).status_code == 200
        started = client.post("/shop/flows/order/o", json={"arguments": {"item": "tea"}, "on_complete": CHARGE})
        assert started.status_code == 201


OPEN_CALLS = [
    ("semaphore_wait", "/door", {"continuation": OF_THE_EXAMPLE, "lease_seconds": 60}),
    ("semaphore_wait", "/door", {"lease_seconds": 60, "on_timeout": OF_THE_EXAMPLE, "continuation": OF_THE_EXAMPLE}),
    ("critical_section", "/key", {"continuation": OF_THE_EXAMPLE}),
    ("batches", "/", {"task": OF_THE_EXAMPLE, "units": [{}]}),
    ("batches", "/", {"units": [], "on_complete": OF_THE_EXAMPLE}),
    ("tasks", "/", OF_THE_EXAMPLE),
]


@pytest.mark.parametrize(("function", "path", "body"), OPEN_CALLS)
def test_no_open_function_accepts_a_call_of_a_task(function: str, path: str, body: Any) -> None:
    with Harness() as harness:
        client = harness.functions.app(function).test_client()
        assert client.post(path, json=body).status_code in (200, 201, 202, 404)
        opened = replace(adapters_settings.settings(), open_functions={function: frozenset()})
        adapters_settings.bind(opened)
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.json and refused.json["type"]) == (
            403,
            "urn:signalbox:problem:permission-denied",
        )


def test_code_of_an_open_function_may_follow_a_flow_with_a_task() -> None:
    app = Function("desk")

    @app.flow
    async def ask() -> Any:
        await flow.sleep(1)

    @app.task
    def told(outcome: Any = None) -> None:
        """Do nothing."""

    @app.http("POST")
    def begin(request: Request) -> None:
        ask.with_(on_complete=told.call()).start("a")

    with Harness() as harness:
        harness.add(app, public=True)
        assert harness.post("desk", json={}).status == 204


def test_the_rule_receives_the_action_and_its_subject() -> None:
    app, asked = Function("shop"), []

    @app.object
    class Cart:
        def add(self, amount: int) -> int:
            return amount

    @app.flow
    async def order() -> Any:
        await flow.sleep(1)

    @app.access("Cart", "order")
    def note(access: Access) -> bool:
        asked.append((access.action, access.name, access.id, access.member))
        return True

    with Harness() as harness:
        harness.add(app, auth="firebase", exposes=["Cart", "order"])
        headers = {"Authorization": f"Bearer {user_token('ann')}"}
        for method, path in [
            ("POST", "objects/Cart/k/add"),
            ("GET", "objects/Cart"),
            ("POST", "flows/order/r"),
            ("POST", "flows/order/r/events/done"),
        ]:
            harness.request(method, f"shop/{path}", json={"amount": 1} if path.endswith("add") else {}, headers=headers)
    assert asked == [
        ("call", "Cart", "k", "add"),
        ("list", "Cart", "", ""),
        ("start", "order", "r", ""),
        ("event", "order", "r", "done"),
    ]


def test_each_address_of_a_flow_asks_the_rule_for_its_own_action() -> None:
    app, asked = Function("shop"), []

    @app.flow
    async def order() -> None:
        await flow.event("paid")

    @app.access("order")
    def note(access: Access) -> bool:
        asked.append(access.action)
        return False

    requests = {
        "list": ("GET", ""),
        "start": ("POST", ""),
        "act_on_all": ("POST", "/:act"),
        "get": ("GET", "/r"),
        "fork": ("POST", "/r/fork"),
        "delete": ("DELETE", "/r"),
        "log": ("GET", "/r/log"),
        "query": ("GET", "/r/queries"),
        "event": ("POST", "/r/events/paid"),
        "update": ("POST", "/r/updates/add"),
        "get_update": ("GET", "/r/answers/u1"),
        "cancel": ("POST", "/r/cancel"),
        "terminate": ("POST", "/r/terminate"),
        "suspend": ("POST", "/r/suspend"),
        "resume": ("POST", "/r/resume"),
    }
    with Harness() as harness:
        harness.add(app, public=True, exposes=["order"])
        sent = {
            action: harness.request(method, f"shop/flows/order{path}") for action, (method, path) in requests.items()
        }
        assert {action: answer.status for action, answer in sent.items()} == dict.fromkeys(requests, 403)
    assert asked == [*requests]


def test_a_message_with_a_start_asks_for_all_that_it_may_do_and_tells_nothing_about_the_code() -> None:
    app, asked = Function("shop"), []

    @app.flow
    async def order() -> None:
        await flow.event("paid")

    @app.access("order")
    def note(access: Access) -> bool:
        asked.append(access.action)
        return access.action != "terminate"

    with Harness() as harness:
        harness.add(app, public=True, exposes=["order"])
        send, shown = "shop/flows/order/r/events/x", []
        for if_exists in ("same", "same", "replace_ended", "replace"):
            answer = harness.post(send, json={"start": {}, "if_exists": if_exists})
            shown.append((answer.status, answer.json.get("started"), "warning" in answer.json, [*asked]))
            asked.clear()
    assert shown == [
        (202, True, False, ["event", "start"]),
        (202, None, False, ["event", "start"]),
        (202, None, False, ["event", "start", "delete"]),
        (403, None, False, ["event", "start", "delete", "terminate"]),
    ]


def test_a_rule_that_raises_a_problem_answers_it_and_one_without_an_answer_refuses() -> None:
    app = Function("shop")

    @app.object
    class Cart:
        def add(self) -> None:
            documents.put("added", {})

    @app.access("Cart")
    def hide(access: Access) -> Any:
        if access.id == "hidden":
            raise Problem("There is none.")
        return None

    with Harness() as harness:
        harness.add(app, public=True, exposes=["Cart"])
        statuses = [harness.post(f"shop/objects/Cart/{key}/add", json={}).status for key in ("hidden", "other")]
        assert statuses == [400, 403]
        assert harness.get("documents/added").status == 404


# --- the catalogue ---


def test_only_flows_and_classes_of_an_open_function_are_exposed(tmp_path: Any) -> None:
    with pytest.raises(CatalogueError, match="exposes names 'Basket', which is in neither its objects nor its flows"):
        catalogue_of(tmp_path, exposes=["Basket"])
    with pytest.raises(CatalogueError, match="exposes is for an open function"):
        catalogue_of(tmp_path, auth="")


def test_what_is_exposed_needs_a_rule_in_the_code(tmp_path: Any) -> None:
    catalogue = catalogue_of(tmp_path, MAIN.replace('@app.access("Cart", "order")', '@app.access("Cart")'))
    with pytest.raises(PackagingError, match=r'exposes names order.*@app.access\("order"\)'):
        check(catalogue.functions["shop"], CATALOGUE.parents[1])


def test_two_rules_for_one_name_are_refused() -> None:
    app = Function("shop")
    app.access("Cart")(lambda _: True)
    with pytest.raises(ValueError, match="two rules"):
        app.access("Cart")(lambda _: True)


@pytest.mark.parametrize(("opened", "status"), [({"auth": "firebase"}, 401), ({"public": True}, 404)])
@pytest.mark.parametrize("path", ["tasks/x", "tasks/x/y", "turns", "turns/x", "tasks"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_an_open_function_without_tasks_has_no_address_of_tasks_and_reports_nothing(
    opened: Any, status: int, path: str, method: str
) -> None:
    app = Function("desk")
    app.http("POST")(lambda _: None)
    with Harness() as harness:
        harness.add(app, **opened)
        for headers in ({}, {"X-CloudTasks-QueueName": "tasks", "Authorization": "Bearer x"}):
            assert harness.request(method, f"desk/{path}", json={}, headers=headers).status == status
        if "auth" in opened:
            signed_in = {"Authorization": f"Bearer {user_token('ann')}"}
            assert harness.request(method, f"desk/{path}", json={}, headers=signed_in).status == 404
        assert harness.log.errors == []
