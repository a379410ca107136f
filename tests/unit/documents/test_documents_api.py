"""Documents from a user's function: queries, preconditions, many at once, and transactions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from signalbox import Call, Function, NotFound, Problem, Request, Transaction, Unavailable, documents, transaction
from signalbox.core.effects import Effect
from signalbox.core.ports import Committed, Write
from signalbox.core.problems import BadCall, BadKey, BadQuery, OtherBody, TooLarge
from signalbox.documents.limits import LIMITS
from signalbox.documents.problems import BadPrecondition, CannotWriteBack, EditsACopy, PreconditionFailed
from signalbox.history.model import HISTORY, HistoryRule
from signalbox.history.problems import BadVersion
from signalbox.testing import Harness, user_token
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import row_cost


def costs(harness: Harness) -> dict[str, object]:
    values = [values for message, values in harness.log.infos if message == "handled"][-1]
    return {name: values[name] for name in ("round_trips", "reads", "writes", "deletes", "tasks")}


def paid(row: str, *added: str, **variables: int) -> dict[str, int]:
    """Return the costs of rows of transactions, as the log has them."""
    return row_cost("transactions", row, *added, **variables).to_json()


def put_towns() -> None:
    for number, name in enumerate(["rome", "paris", "oslo"]):
        documents.put(name, {"size": number, "name": name, "at": {"zip": f"0{number}"}})


@pytest.mark.usefixtures("harness")
def test_a_query_finds_by_texts_and_by_values_in_pages() -> None:
    put_towns()
    assert [each["key"] for each in documents.query("size>=1", order_by=["-size"]).documents] == ["oslo", "paris"]
    assert [each["key"] for each in documents.query(("at.zip", "==", "01")).documents] == ["paris"]
    assert [each["key"] for each in documents.query(("key", "==", "rome")).documents] == ["rome"]
    assert [each["key"] for each in documents.query(("name", "in", ["oslo", "rome"])).documents] == ["oslo", "rome"]
    first = documents.query(order_by=["size"], limit=2)
    rest = documents.query(order_by=["size"], limit=2, page_token=first.next_page_token)
    assert [each["key"] for each in (*first.documents, *rest.documents)] == ["rome", "paris", "oslo"]
    assert documents.count(("size", ">", 0)) == 2
    for wrong in (("size", "~", 1), "size"):
        with pytest.raises(BadQuery):
            documents.query(wrong)


@pytest.mark.usefixtures("harness")
def test_a_returned_document_shares_nothing_with_the_one_that_was_passed() -> None:
    given: dict[str, Any] = {"lines": [{"sku": "tea"}]}
    put, patched = documents.put("order", given), documents.patch("order", given)
    [loaded] = documents.put_many([{"key": "other", **given}])
    given["lines"][0]["sku"] = "rum"
    assert [put["lines"], patched["lines"], loaded["lines"]] == [[{"sku": "tea"}]] * 3  # type: ignore[index]  # it was stored


@pytest.mark.usefixtures("harness")
def test_many_documents_are_read_at_one_instant() -> None:
    put_towns()
    found = documents.get_many(["oslo", "nowhere", "oslo"])
    assert {key: each and each["size"] for key, each in found.items()} == {"oslo": 2, "nowhere": None}
    assert documents.get_many([]) == {}
    with pytest.raises(TooLarge):
        documents.get_many(str(number) for number in range(LIMITS.bulk_puts_max + 1))
    with pytest.raises(BadKey):
        documents.get_many(["a/b"])


@pytest.mark.usefixtures("harness")
def test_an_edit_of_a_copy_is_written_back_only_on_request_and_on_condition() -> None:
    documents.put("rome", {"name": "Rome"})
    documents.put("ann", {"home": {"key": "rome"}})
    edit = {"home": {"name": "Roma"}}
    with pytest.raises(EditsACopy):
        documents.patch("ann", edit)
    _, etag = documents.get_with_etag("ann")
    assert documents.patch("ann", edit, write_back=True, if_match=etag)["home"]["name"] == "Roma"
    assert documents.get("rome")["name"] == "Roma"
    with pytest.raises(PreconditionFailed):
        documents.patch("ann", {"n": 1}, if_match=etag)
    documents.delete("rome")
    with pytest.raises(CannotWriteBack):
        documents.patch("ann", {"home": {"name": "x"}}, write_back=True)


def test_versions_are_listed_with_their_authors_read_and_deleted(harness: Harness) -> None:
    app = Function("notes")

    @app.http("PUT", "/{key}")
    def write(request: Request, key: str) -> None:
        documents.put(key, request.json_object())

    with HISTORY.replaced([HistoryRule(prefix="note-")]):
        harness.add(app, auth="firebase")
        documents.put("note-1", {"n": 0})
        signed_in = {"Authorization": f"Bearer {user_token('ann')}"}
        assert harness.put("notes/note-1", json={"n": 1}, headers=signed_in).status == 204
        harness.put("documents/note-1", json={"n": 2})
        page = documents.versions("note-1", limit=2)
        first = documents.versions("note-1", page_token=page.next_page_token)
        authors = [each.author for each in (*page.versions, *first.versions)]
        assert authors == ["function:documents", "user:ann", ""]
        assert documents.get_version("note-1", page.versions[1].version) == {"key": "note-1", "n": 1}
        with pytest.raises(NotFound):
            documents.get_version("note-1", 1)
        with pytest.raises(BadVersion):
            documents.restore("note-1", datetime(2026, 1, 1))  # noqa: DTZ001  that is the point
        assert documents.changes("note-1", first.versions[0].at, page.versions[1].version)[0]["value"] == 1
        documents.forget_versions("note-1")
        assert documents.versions("note-1").versions == []
        assert documents.get("note-1")["n"] == 2


@pytest.mark.usefixtures("harness")
def test_a_put_and_a_delete_can_be_made_conditional() -> None:
    documents.put("rome", {"n": 1}, if_none_match="*")
    with pytest.raises(PreconditionFailed):
        documents.put("rome", {"n": 2}, if_none_match="*")
    _, etag = documents.get_with_etag("rome")
    documents.put("rome", {"n": 2}, if_match=etag)
    with pytest.raises(PreconditionFailed):
        documents.put("rome", {"n": 3}, if_match=etag)
    with pytest.raises(PreconditionFailed):
        documents.delete("rome", if_match=etag)
    with pytest.raises(BadPrecondition):
        documents.put("rome", {"n": 3}, if_match="7")
    documents.delete("rome", if_match="*")
    with pytest.raises(NotFound):
        documents.get_with_etag("rome")


# --- transactions ---


class TooPoor(Problem):
    status = 409
    title = "The account has not enough"


class Bank:
    """A function that transfers money, and enqueues a letter for each transfer."""

    def __init__(self) -> None:
        self.letters: list[int] = []
        self.app = app = Function("bank")

        @app.task
        def write_letter(amount: int) -> None:
            self.letters.append(amount)

        @app.task
        def pay(amount: int) -> None:
            transaction(self.transfer(amount))

        @app.http("POST")
        def post(request: Request) -> dict[str, Any]:
            body = request.json_object()
            return transaction(self.transfer(1), id=str(body["id"]) if "id" in body else None)

        self.write_letter, self.pay = write_letter, pay

    def transfer(self, amount: int) -> Any:
        write_letter = self.write_letter

        def code(t: Transaction) -> dict[str, Any]:
            accounts = t.get_many(["ann", "bob"])
            ann, bob = accounts["ann"], accounts["bob"]
            assert ann
            assert bob
            if ann["money"] < amount:
                raise TooPoor("ann")
            t.put("ann", {"money": ann["money"] - amount})
            t.put("bob", {"money": bob["money"] + amount})
            t.enqueue(write_letter.call(amount=amount))
            return {"left": ann["money"] - amount}

        return code


@pytest.fixture
def bank(harness: Harness) -> Bank:
    made = Bank()
    harness.add(made.app)
    documents.put("ann", {"money": 10})
    documents.put("bob", {"money": 0})
    return made


def money() -> list[int]:
    return [each["money"] if each else 0 for each in documents.get_many(["ann", "bob"]).values()]


def test_all_of_a_transaction_takes_effect_or_nothing(harness: Harness, bank: Bank) -> None:
    assert transaction(bank.transfer(3)) == {"left": 7}
    with pytest.raises(TooPoor):
        transaction(bank.transfer(8))
    harness.run()
    assert (money(), bank.letters) == ([7, 3], [3])


def test_a_transaction_costs_one_read_and_one_commit_and_its_outbox(harness: Harness, bank: Bank) -> None:
    harness.post("bank", json={})
    assert costs(harness) == paid("transaction", "transaction_tasks", r=2, p=2, t=1)
    harness.post("bank", json={"id": "x"})
    assert costs(harness) == paid("transaction", "transaction_tasks", "transaction_id", r=2, p=2, t=1)
    harness.post("bank", json={"id": "x"})
    assert costs(harness) == paid("transaction_repeat")
    task = Effect("op", "tasks", "bank", "pay", {"amount": 1}, path="/tasks/pay")
    harness.deliver_task(task)
    assert costs(harness) == paid("transaction", "transaction_tasks", "transaction_in_task", r=2, p=2, t=1)


def test_under_an_id_and_in_a_task_a_transaction_takes_effect_once(harness: Harness, bank: Bank) -> None:
    for _ in range(2):
        assert transaction(bank.transfer(3), id="order-7") == {"left": 7}
    task = Effect("op", "tasks", "bank", "pay", {"amount": 2}, path="/tasks/pay")
    for retries in range(2):
        assert harness.deliver_task(task, retries=retries).status == 204
    harness.run()
    assert (money(), sorted(bank.letters)) == ([5, 5], [2, 3])


current = ""


def delete_current(t: Transaction) -> None:
    t.delete(current)


class Shop:
    """A function whose task decides by what is stored, and may fail afterwards."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.app = app = Function("shop")

        @app.task
        def advance() -> None:
            order = documents.get("order")
            if order["state"] == "new":
                transaction(lambda t: t.put("order", {"state": "paid"}))
            elif order["state"] == "paid":
                transaction(lambda t: t.put("order", {"state": "shipped"}))

        @app.task
        def close(most: int) -> None:
            keys = [key for key in "abc" if documents.get_many([key])[key]]
            for key in keys[:most]:
                transaction(lambda t, key=key: t.delete(key))  # type: ignore[misc]  # mypy infers no type for a lambda with a default

        @app.task
        def close_current(most: int) -> None:
            global current  # noqa: PLW0603  what the test is about
            keys = [key for key in "abc" if documents.get_many([key])[key]]
            for key in keys[:most]:
                current = key
                transaction(delete_current)

        @app.task
        def pay() -> None:
            order = documents.get("order")

            def code(t: Transaction) -> None:
                stock = t.get("stock")
                assert stock
                t.put("stock", {"n": stock["n"] - 1})
                t.put("order", {**order, "state": "paid"})

            transaction(code)

        @app.task
        def with_object() -> None:
            transaction(lambda _: self.harness)

    def deliver(self, task: str, retries: int, **payload: Any) -> int:
        effect = Effect(f"op-{task}", "tasks", "shop", task, payload, path=f"/tasks/{task}")
        return self.harness.deliver_task(effect, retries=retries).status


@pytest.fixture
def shop(harness: Harness) -> Shop:
    made = Shop(harness)
    harness.add(made.app)
    documents.put("order", {"state": "new"})
    return made


def test_a_second_delivery_that_takes_another_branch_runs_another_transaction(shop: Shop) -> None:
    assert [shop.deliver("advance", retries) for retries in range(2)] == [204, 204]
    assert documents.get("order")["state"] == "shipped"


def test_a_second_delivery_that_loops_over_what_is_left_skips_nothing(shop: Shop) -> None:
    documents.put_many([{"key": key} for key in "abc"])
    assert [shop.deliver("close", retries, most=most) for retries, most in enumerate((1, 3))] == [204, 204]
    assert [documents.get_many([key])[key] for key in "abc"] == [None] * 3


def test_a_second_delivery_with_other_values_of_a_module_variable_skips_nothing_silently(
    harness: Harness, shop: Shop
) -> None:
    documents.put_many([{"key": key} for key in "abc"])
    shop.deliver("close_current", 0, most=1)
    shop.deliver("close_current", 1, most=3)
    assert [bool(documents.get_many([key])[key]) for key in "abc"] == [False, True, True]
    [failure] = harness.ids("failures")
    assert "module variables" in harness.get(f"failures/{failure}").json["detail"]


def test_a_transaction_whose_values_were_read_again_is_refused_and_does_not_run_twice(
    harness: Harness, shop: Shop
) -> None:
    documents.put("stock", {"n": 10})
    shop.deliver("pay", 0)
    shop.deliver("pay", 1)
    assert documents.get("stock")["n"] == 9
    [failure] = harness.ids("failures")
    assert "inside the transaction" in harness.get(f"failures/{failure}").json["detail"]


def test_code_with_values_of_unknown_content_needs_an_id_in_a_task(harness: Harness, shop: Shop) -> None:
    shop.deliver("with_object", 0)
    [failure] = harness.ids("failures")
    assert "pass an `id`" in harness.get(f"failures/{failure}").json["detail"]


def test_an_id_of_one_transaction_is_refused_for_another(harness: Harness, bank: Bank) -> None:
    transaction(bank.transfer(3), id="order-7")
    with pytest.raises(OtherBody):
        transaction(lambda t: t.delete("ann"), id="order-7")


def test_code_runs_again_when_what_it_read_has_changed(harness: Harness, bank: Bank) -> None:
    attempts = []

    def code(t: Transaction) -> None:
        ann = t.get("ann")
        attempts.append(ann)
        if len(attempts) == 1:
            documents.put("ann", {"money": 5})
        t.put("bob", {"money": ann["money"] if ann else 0})

    transaction(code)
    assert len(attempts) == 2
    assert money() == [5, 5], "what was only read is guarded, too"


@pytest.mark.usefixtures("bank")
def test_who_never_finds_what_it_read_unchanged_gives_up_as_unavailable() -> None:
    def code(t: Transaction) -> None:
        ann = t.get("ann")
        documents.put("ann", {"money": ann["money"] + 1 if ann else 0})
        t.put("ann", {"money": 0})

    with pytest.raises(Unavailable):
        transaction(code)


class LostAnswers:
    """A store whose first commit takes effect, and its answer is lost."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commit = harness.store.commit
        self.left = 1
        monkeypatch.setattr(harness.store, "commit", self)

    def __call__(self, writes: Sequence[Write]) -> Committed:
        committed = self.commit(writes)
        if self.left:
            self.left -= 1
            raise Unavailable("the answer was lost")
        return committed


def test_a_lost_answer_is_recognised_under_an_id_and_raised_without_one(
    harness: Harness, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = LostAnswers(harness, monkeypatch)
    assert transaction(bank.transfer(3), id="order-7") == {"left": 7}
    lost.left = 1
    with pytest.raises(Unavailable):
        transaction(bank.transfer(3))
    assert money() == [4, 6], "the second took effect, too, and its caller was not told"


def test_links_are_embedded_and_followed_as_those_of_a_put(harness: Harness, bank: Bank) -> None:
    def code(t: Transaction) -> None:
        t.put("house", {"owner": {"key": "ann"}, "next": {"key": "shed"}})
        t.put("shed", {"of": {"key": "house"}})
        assert t.get("shed") == {"key": "shed", "of": {"key": "house"}}
        t.delete("bob")
        assert t.get("bob") is None

    transaction(code)
    harness.run()
    house = documents.get("house")
    assert (house["owner"], house["next"]["of"]["key"]) == ({"key": "ann", "money": 10}, "house")
    assert documents.get_many(["bob"]) == {"bob": None}


def test_a_delayed_call_of_a_transaction_is_enqueued_for_later(harness: Harness, bank: Bank) -> None:
    call = bank.write_letter.call(amount=1)
    transaction(lambda t: t.enqueue(call.after(60)))
    [task] = harness.tasks
    assert task.not_before is not None
    assert round((task.not_before - harness.clock.now).total_seconds()) == 60


@pytest.mark.usefixtures("bank")
def test_what_no_transaction_can_hold_is_refused() -> None:
    with pytest.raises(Problem, match="must be JSON"):
        transaction(lambda _: {1}, id="x")
    with pytest.raises(TooLarge):
        transaction(lambda t: t.get_many([str(number) for number in range(LIMITS.transaction_documents_max + 1)]))
    with pytest.raises(BadKey):
        transaction(lambda t: t.get("a/b"))
    with pytest.raises(BadKey):
        transaction(lambda _: None, id="a/b")
    with pytest.raises(Problem):
        transaction(lambda t: t.put("a", {"_signalbox": 1}))


@pytest.mark.usefixtures("bank")
def test_a_call_that_cannot_be_delivered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from signalbox.adapters import deployed_catalogue
    from signalbox.adapters import settings as module

    chosen = module.from_environment({"SIGNALBOX_TASK_FUNCTIONS": "{}"})
    monkeypatch.setattr(deployed_catalogue, "settings", lambda: chosen)
    with pytest.raises(BadCall):
        transaction(lambda t: t.enqueue(Call("nobody", "nothing", {})))
