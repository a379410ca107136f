"""The ids that the kit derives in an open function: no user reaches another's, and no caller the kit's own."""

from dataclasses import replace
from typing import Any

import pytest

from signalbox import Access, Function, Problem, Request, batch, flow, semaphore
from signalbox.adapters import settings
from signalbox.testing import Harness, user_token


def own_ids(access: Access) -> bool:
    """Permit what begins with the user's own id, as an author of a rule expects it to suffice."""
    user = access.request.user.id
    return access.id.startswith(f"{user}-") or (access.action == "start" and not access.id) or access.name == "Cart"


def shop() -> Function:
    app = Function("shop")

    @app.flow
    async def order(item: str = "") -> Any:
        return await flow.event("paid")

    @app.object
    class Cart:
        amount: int = 0

        def add(self, amount: int) -> int:
            self.amount += amount
            return self.amount

    app.access("order", "Cart")(own_ids)
    return app


class Users:
    """Callers of an open function."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        harness.add(shop(), auth="firebase", exposes=["order", "Cart"])

    def post(self, user: str, path: str, json: Any, key: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {user_token(user)}"} | ({"Idempotency-Key": key} if key else {})
        answer = self.harness.request("POST", f"shop/{path}", json=json, headers=headers)
        return answer.status, answer.json


def test_a_fork_asks_the_rule_for_the_new_id_before_anything_is_read() -> None:
    with Harness() as harness:
        users = Users(harness)
        assert users.post("bob", "flows/order/ann-1", {})[0] == 403
        assert users.post("bob", "flows/order/bob-1", {})[0] == 201
        harness.run()
        fork = {"from_entry": 0}
        assert users.post("bob", "flows/order/bob-1/fork", {"id": "ann-1"} | fork)[0] == 403
        assert users.post("bob", "flows/order/bob-none/fork", {"id": "ann-1"} | fork)[0] == 403
        assert users.post("bob", "flows/order/bob-1/fork", {"id": "bob-2"} | fork)[0] in (201, 409)
        assert users.post("ann", "flows/order/ann-1", {})[0] == 201


def test_the_rule_is_asked_for_a_fork_and_for_the_start_of_the_new_run() -> None:
    app, asked = Function("shop"), []

    @app.flow
    async def order() -> None:
        await flow.event("paid")

    @app.access("order")
    def note(access: Access) -> bool:
        asked.append((access.action, access.id))
        return True

    with Harness() as harness:
        harness.add(app, public=True, exposes=["order"])
        harness.request("POST", "shop/flows/order/a/fork", json={"id": "b", "from_entry": 1})
    assert asked == [("fork", "a"), ("start", "b")]


def test_two_users_with_one_key_start_two_runs() -> None:
    with Harness() as harness:
        users = Users(harness)
        ann = users.post("ann", "flows/order", {"arguments": {"item": "tea"}}, "1")
        assert users.post("ann", "flows/order", {"arguments": {"item": "tea"}}, "1") == (200, ann[1])
        same, other = (users.post("bob", "flows/order", {"arguments": {"item": item}}, "1") for item in ("tea", "tea"))
        assert (ann[0], same[0], other[0]) == (201, 201, 200)
        assert ann[1]["id"] != same[1]["id"]
        assert users.post("eve", "flows/order", {"arguments": {"item": "rum"}}, "1")[0] == 201


def test_two_users_with_one_key_call_an_object_twice_and_read_only_their_own_call() -> None:
    with Harness() as harness:
        users = Users(harness)
        ann = users.post("ann", "objects/Cart/c/add", {"amount": 1}, "1")
        assert users.post("ann", "objects/Cart/c/add", {"amount": 1}, "1") == ann
        bob = users.post("bob", "objects/Cart/c/add", {"amount": 5}, "1")
        assert (ann[1]["result"], bob[1]["result"]) == (1, 6)
        assert ann[1]["call"] != bob[1]["call"]


def test_a_repeated_event_of_a_user_is_the_same_event() -> None:
    with Harness() as harness:
        users = Users(harness)
        assert users.post("ann", "flows/order/ann-1", {})[0] == 201
        first, again = (users.post("ann", "flows/order/ann-1/events/paid", {"value": 1}, "1") for _ in range(2))
        assert (first[0], again) == (202, first)
        assert users.post("bob", "flows/order/ann-1/events/paid", {"value": 2}, "1")[0] == 403


def test_the_rule_for_a_call_of_an_object_sees_the_id_of_the_call() -> None:
    app, asked = Function("shop"), []

    @app.object
    class Cart:
        def add(self) -> None: ...

    @app.access("Cart")
    def note(access: Access) -> bool:
        asked.append((access.action, access.id, access.member))
        return True

    with Harness() as harness:
        harness.add(app, public=True, exposes=["Cart"])
        harness.get("shop/objects/Cart/c/calls/x")
    assert asked == [("get_call", "c", "x")]


def test_the_operation_of_a_request_names_its_user() -> None:
    app, operations = Function("shop"), []

    @app.http("POST")
    def note(request: Request) -> None:
        operations.append(request.operation)

    with Harness() as harness:
        harness.add(app, auth="firebase")
        for user in ("ann", "bob"):
            headers = {"Authorization": f"Bearer {user_token(user)}", "Idempotency-Key": "1"}
            harness.request("POST", "shop", json={}, headers=headers)
    assert len({*operations}) == 2


@pytest.mark.parametrize(
    ("function", "path", "body", "member"),
    [
        ("semaphore_wait", "/door", {"lease_seconds": 60}, "lease"),
        ("batches", "/", {"units": []}, "id"),
        ("documents", "/", {"city": "Linz"}, "key"),
    ],
)
def test_two_users_with_one_key_get_two_ids_from_an_open_function_of_the_kit(
    function: str, path: str, body: Any, member: str
) -> None:
    """A lease is released by its id: with the key as its id, whoever guesses a key would have another one's permit."""
    with Harness() as harness:
        semaphore("door").ensure(permits=2)
        client = harness.functions.app(function).test_client()
        opened = {function: frozenset[str]()}
        settings.bind(replace(settings.settings(), open_functions=opened, auth={function: "firebase"}))
        answers = [
            client.post(
                path, json=body, headers={"Authorization": f"Bearer {user_token(user)}", "Idempotency-Key": "1"}
            )
            for user in ("ann", "bob", "ann")
        ]
        assert all(answer.status_code in (200, 201, 202) for answer in answers), [answer.json for answer in answers]
        ann, bob, again = (str((answer.json or {}).get(member)) for answer in answers)
    assert ann == again
    assert "None" not in (ann, bob)
    assert bob != ann


def test_an_open_function_of_batches_takes_no_arguments_for_the_tasks_of_code() -> None:
    """The code has chosen task and arguments; a stranger who knows the id would run it with others."""
    app = Function("mails")

    @app.task
    def mail(to: str) -> None:
        raise Problem(f"nobody is {to}")

    with Harness() as harness:
        harness.add(app)
        batch("sent").populate([mail.call(to="ann")])
        harness.run()
        client = harness.functions.app("batches").test_client()
        opened = {"batches": frozenset[str]()}
        settings.bind(replace(settings.settings(), open_functions=opened, auth={"batches": "firebase"}))
        headers = {"Authorization": f"Bearer {user_token('ann')}"}

        def answered(path: str, body: Any) -> tuple[int, str]:
            answer = client.post(path, json=body, headers=headers)
            return answer.status_code, str((answer.json or {}).get("detail", ""))

        assert answered("/sent/retry", {"payload": {"to": "eve"}}) == (
            403,
            "An open function accepts no arguments of a task: leave out `payload`.",
        )
        assert answered("/sent/units", {"page": 1, "units": [{"to": "eve"}]}) == (
            403,
            "An open function adds no units to a batch with a task: let a function's code add them.",
        )
        assert answered("/sent/retry", {})[0] == 202
        assert answered("/", {"id": "outside", "units": [{"row": 1}]})[0] == 201
        assert answered("/outside/units", {"page": 1, "units": [{"row": 2}]})[0] == 201
