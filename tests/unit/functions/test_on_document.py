"""Handlers of documents' events that are tasks: what reaches which handler, how often, and what is refused."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, Problem, TaskContext
from signalbox.adapters import settings
from signalbox.adapters.http.event_deliveries import DOCUMENTS, INTERNAL
from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.declared_in_code import OF_HANDLERS
from signalbox.catalogue.derived_keys import usage_of
from signalbox.core.document_patterns import DocumentFilter, DocumentPattern, matches
from signalbox.core.ports import Put
from signalbox.core.problems import Unavailable
from signalbox.documents.model.stamped_contents import COLLECTION, RESERVED, RESOURCE_META
from signalbox.testing import Harness
from signalbox.testing.deliveries import body_of, event_of, headers_of
from signalbox.testing.fixtures import harness as harness


class SoldOut(Problem):
    status = 409
    title = "Sold out"


def shop() -> tuple[Function, list[tuple[str, str]]]:
    """Return a function with a route, a task and three handlers, and a list of what they handled."""
    app, seen = Function("shop"), list[tuple[str, str]]()

    @app.on_document("orders/{id}", on="created")
    def ordered(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        assert event.after is not None
        seen.append(("ordered", f"{id} {event.after['item']}"))

    @app.on_document("orders/{id}", on="deleted")
    def cancelled(event: DocumentEvent, id: str, context: TaskContext) -> None:  # noqa: A002  as the path names it
        assert event.before is not None
        seen.append(("cancelled", f"{id} {event.before['item']} {context.attempt}"))

    @app.on_document("orders/{id}/{rest=**}")
    def below(event: DocumentEvent, rest: str, id: str) -> None:  # noqa: A002  as the path names it
        seen.append(("below", f"{id} {rest} {event.key}"))

    @app.task
    def note(text: str) -> None:
        seen.append(("note", text))

    @app.http("POST", "/notes")
    def noted(_: Any) -> None:
        note.call("route").enqueue()

    return app, seen


def test_each_handler_gets_the_events_of_its_pattern_and_kind_next_to_routes_and_tasks(harness: Harness) -> None:
    app, seen = shop()
    harness.add(app)
    harness.write_record("orders/7", {"item": "tea"})
    harness.write_record("orders/7", {"item": "salt"})
    harness.write_record("orders/7", None)
    harness.write_record("orders/7/lines/a/parts/b", {})
    harness.write_record("others/7", {})
    assert harness.post("shop/notes", json={}).status == 204
    harness.run()
    assert sorted(seen) == [
        ("below", "7 lines/a/parts/b b"),
        ("cancelled", "7 salt 1"),
        ("note", "route"),
        ("ordered", "7 tea"),
    ]


def test_a_task_has_the_data_of_its_event_and_an_event_that_is_too_large_comes_without(harness: Harness) -> None:
    app, seen = Function("shop"), list[DocumentEvent]()

    @app.on_document("orders/{id}")
    def note(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        assert id == event.key
        seen.append(event)

    harness.add(app)
    data = {"at": harness.clock.now, "n": [1, 2.5, None], "b": {"x": "ü"}}
    harness.write_record("orders/ü", data)
    harness.write_record("orders/large", {"text": "x" * 100_000})
    events = list(harness.events)
    harness.run()
    assert seen[0] == events[0]
    assert (seen[1].path, seen[1].id, seen[1].partial) == ("orders/large", events[1].id, True)


def test_a_handlers_task_is_enqueued_to_the_queue_that_the_handler_names(harness: Harness) -> None:
    app = Function("shop")

    @app.on_document("orders/{id}", queue="links")
    def pack(_: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        pass

    harness.add(app)
    harness.write_record("orders/7", {})
    harness.deliver_event(harness.events[0])
    assert [(task.queue, task.task) for task in harness.tasks] == [("links", "pack")]


def test_the_catalogue_knows_the_arguments_of_a_handlers_task() -> None:
    app, _ = shop()
    assert app.task_parameters["ordered"] == app.task_parameters["cancelled"] == list(OF_HANDLERS)


def test_a_problem_of_a_handler_is_a_failure_that_can_be_retried(harness: Harness) -> None:
    app, stock = Function("shop"), [0]

    @app.on_document("orders/{id}")
    def pack(_: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        if not stock[0]:
            raise SoldOut(f"no tea for {id}")
        stock[0] -= 1

    harness.add(app)
    harness.write_record("orders/7", {"item": "tea"})
    harness.run()
    [failure] = harness.get("failures").json["failures"]
    assert (failure["task"], failure["problem"], failure["payload"]["path"]) == ("pack", "sold-out", "orders/7")
    stock[0] = 1
    assert harness.post(f"failures/{failure['id']}/retry").status == 202
    harness.run()
    assert stock == [0]


def test_a_flow_starts_from_an_event_in_one_line(harness: Harness) -> None:
    app, shipped = Function("shop"), list[str]()

    @app.task
    def ship(key: str) -> None:
        shipped.append(key)

    @app.flow
    async def order(key: str) -> None:
        await ship.call(key)

    @app.on_document("orders/{id}", on="created")
    def ordered(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        order.start(event.id, key=id)

    harness.add(app)
    harness.write_record("orders/7", {})
    [event] = harness.events
    for _ in range(2):
        harness.run()
        harness.events.append(event)
    assert shipped == ["7"]


# --- what is not acknowledged ---


def post(harness: Harness, handler: str, **headers: str) -> int:
    return harness.call("shop", f"/document-events/{handler}", method="POST", data=b"", headers=headers).status_code


def test_what_the_receiver_cannot_take_stays_with_eventarc(harness: Harness) -> None:
    app, seen = shop()
    harness.add(app)
    event = {"ce-id": "1", "ce-document": "orders/7"}
    assert post(harness, "ordered", **{**event, "ce-id": ""}) == 400
    assert post(harness, "ordered", **{"ce-id": "1"}) == 400
    assert post(harness, "removed", **event) == 503
    harness.queue.refusal = Unavailable("the queue is down")
    assert post(harness, "ordered", **event) == 204  # the task is in the outbox
    harness.queue.refusal = None
    assert harness.call("shop", "/document-events/ordered").status_code == 405
    assert (harness.tasks, seen) == ([], [])


def test_an_event_that_no_longer_fits_is_acknowledged_without_a_task(harness: Harness) -> None:
    app, _ = shop()
    harness.add(app)
    assert post(harness, "ordered", **{"ce-id": "1", "ce-document": "others/7"}) == 204
    assert harness.tasks == []


@pytest.mark.parametrize(
    ("caller", "status"), [("ev-shop@p.iam.gserviceaccount.com", 204), ("ann@example.com", 403), (None, 403)]
)
def test_in_the_cloud_only_the_triggers_account_is_heard(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caller: str | None, status: int
) -> None:
    app, _ = shop()
    harness.add(app)
    account = "ev-shop@p.iam.gserviceaccount.com"
    bound = replace(settings.settings(), in_cloud=True, events_account=account)
    monkeypatch.setattr("signalbox.adapters.http.event_deliveries.settings", lambda: bound)
    monkeypatch.setattr("signalbox.adapters.http.event_deliveries.calling_account", lambda _: caller)
    assert post(harness, "ordered", **{"ce-id": "1", "ce-document": "others/7"}) == status


# --- what is refused when the code is loaded ---


PATTERNS = {
    "/orders/{id}": "must begin with a collection's name",
    "{any}/{id}": "must begin with a collection's name",
    "{all=**}": "must begin with a collection's name",
    "orders": "is the path of a collection",
    "orders/{id}/lines": "is the path of a collection",
    "orders/{id=*}": "neither a name nor",
    "orders/*": "neither a name nor",
    "orders//x": "neither a name nor",
    "orders/{all=**}/lines/{id}": "must be the last part",
    "orders/{id}/lines/{id}": "two parts of one name",
    "orders/{class}": "class cannot be the name of a handler's parameter: rename the part",
    "orders/{event}": "event cannot be the name",
    "receipts/{id}": "would never end",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_no_trigger_has_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=PATTERNS[pattern]):
        Function("shop").on_document(pattern)


def test_patterns_match_whole_paths() -> None:
    rest = DocumentPattern.parse("users/{user}/{rest=**}")
    assert rest.match("users/7/a/b") == {"user": "7", "rest": "a/b"}
    assert rest.match("users/7/a") == {"user": "7", "rest": "a"}
    assert [rest.match(path) for path in ("users/7", "others/7/a/b", "users//a/b")] == [None] * 3
    assert DocumentPattern.parse("orders/{id}").match("orders/7/lines/1") is None
    assert DocumentPattern.parse("a.b/{id}").match("a.b/x.\ny") == {"id": "x.\ny"}
    assert DocumentPattern.parse("a.b/{id}").match("axb/7") is None


def test_a_trigger_of_one_document_matches_no_other() -> None:
    assert matches("settings/shop", "settings/shop")
    assert not matches("settings/shop", "settings/shop2")
    assert not matches("settings/shop", "settings/shop/parts/1")


def by_place_only(event: DocumentEvent, id: str, /) -> None: ...  # noqa: A002  as the path names it


def by_name_only(*, event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the path names it


def of_any_number(event: DocumentEvent, *id: str) -> None: ...  # noqa: A002  as the path names it


def of_a_missing_type(event: DocumentEvent, id: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: A002, F821  the test is about it


def test_an_event_whose_handler_has_another_pattern_now_is_a_failure_that_says_so(harness: Harness) -> None:
    before, after = Function("shop"), Function("shop")

    @before.on_document("orders/{id}")
    def pack(event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the path names it

    harness.add(before)
    harness.write_record("orders/7", {"item": "tea"})
    [event] = harness.events
    harness.deliver_event(event)

    def pack_other(event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the path names it

    pack_other.__name__ = "pack"
    after.on_document("parcels/{id}")(pack_other)

    harness.add(after)
    harness.run()
    [failure] = harness.get("failures").json["failures"]
    assert failure["problem"] == "pattern-changed"


def test_the_type_of_an_event_says_what_has_happened_also_if_a_side_of_its_data_is_missing(harness: Harness) -> None:
    app, seen = Function("shop"), list[str]()

    @app.on_document("orders/{id}", on="updated")
    def changed(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        seen.append(id)

    harness.add(app)
    harness.store.commit([Put("orders/7", {"item": "tea"})])
    event = event_of("e", "orders/7", *harness.store.read("orders/8", "orders/7"))
    headers = {**headers_of(event), "ce-type": "google.cloud.firestore.document.v1.updated"}
    assert harness.post("shop/document-events/changed", data=body_of(event), headers=headers).status == 204
    harness.run()
    assert seen == ["7"]


def test_a_handler_with_other_parameters_another_kind_and_a_second_name_are_refused() -> None:
    app, _ = shop()
    with pytest.raises(TypeError, match=r"write def seen\(event: DocumentEvent, id: str\)"):

        @app.on_document("orders/{id}")
        def seen(event: DocumentEvent, key: str) -> None: ...

    for handler in (by_place_only, by_name_only, of_any_number):
        with pytest.raises(TypeError, match=rf"write def {handler.__name__}\(event: DocumentEvent, id: str\)"):
            app.on_document("orders/{id}")(handler)
    with pytest.raises(TypeError, match=r"'Missing' is not defined at run time\. Define or import it in the module"):
        app.on_document("orders/{id}")(of_a_missing_type)
    with pytest.raises(ValueError, match="write one of written, created, updated, deleted"):
        app.on_document("orders/{id}", on="changed")  # type: ignore[arg-type]  # what a type checker refuses, too
    with pytest.raises(ValueError, match="two tasks of the name ordered"):

        @app.on_document("orders/{id}")
        def ordered(event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the path names it

    with pytest.raises(TypeError, match="write a def"):
        app.on_document("orders/{id}")(lambda event, id: None)  # noqa: A006, ARG005  as the path names it
    with pytest.raises(TypeError, match="async def"):

        @app.on_document("orders/{id}")
        async def produced(event: DocumentEvent, id: str) -> Any:  # noqa: A002  as the path names it
            yield id

    app.document_written("orders/{id}")(lambda event, id: None)  # noqa: A006, ARG005  as the path names it
    with pytest.raises(ValueError, match="write on_document in all places"):
        app.entry_point()


@pytest.mark.parametrize(
    ("chosen", "refused"),
    [
        ({"prefix": 5}, "prefix is 5; write a text"),
        ({"prefix": ""}, "prefix is ''; write a text"),
        ({"prefix": "orders/a"}, "prefix is 'orders/a', and no key contains a slash"),
        ({"type": ""}, "type is ''; write a text"),
        ({"type": ["Order"]}, r"type is \['Order'\]; write a text"),
        ({"changed": ()}, r"changed is \(\); write the fields"),
        ({"changed": 5}, "changed is 5; write the fields"),
        ({"changed": {}}, r"changed is \{\}; write the fields"),
        ({"changed": ""}, "changed has '', which is not a field"),
        ({"changed": ("state", "a..b")}, r"changed has 'a\.\.b', which is not a field"),
        ({"changed": ["a", 5]}, "changed has 5, which is not a field"),
        ({"in_order": "all"}, "in_order is 'all'; write True, False or 'each'"),
    ],
)
def test_a_filter_that_selects_nothing_or_all_is_refused_when_it_is_loaded_and_when_the_catalogue_is_read(
    chosen: Any, refused: str
) -> None:
    with pytest.raises(ValueError, match=refused):
        Function("shop").on_document("orders/{id}", **chosen)
    options = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    source = f"from signalbox import Function\napp = Function('a')\n@app.on_document('orders/{{id}}', {options})\n"
    with pytest.raises(CatalogueError, match=f"main.py:3: {refused}"):
        usage_of({"main.py": f"{source}def ordered(event, id): ...".encode()})


def test_events_are_filtered_by_prefix_type_and_changed_fields_before_they_are_tasks(harness: Harness) -> None:
    app, seen = Function("shop"), list[tuple[str, str]]()

    def register(name: str, **chosen: Any) -> None:
        def handler(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
            seen.append((name, f"{id} {event.kind}"))

        handler.__name__ = name
        app.on_document("orders/{id}", **chosen)(handler)

    register("of_prefix", prefix="a-")
    register("of_type", type="Order")
    register("of_change", changed=("state", "address.city"))
    register("of_all", prefix="a-", type="Order", changed="state")
    harness.add(app)
    order = {"type": "Order", "state": "new", "address": {"city": "Bern"}}
    harness.write_record("orders/a-1", order)
    harness.write_record("orders/a-1", order | {"note": "x"})
    harness.write_record("orders/a-1", order | {"address": {"city": "Basel"}})
    harness.write_record("orders/b-1", {"type": "Offer"})
    harness.write_record("orders/b-1", {"type": "Offer", "state": None})
    harness.write_record("orders/a-1", None)
    while harness.events:
        harness.deliver_event(harness.events[0])
    tasks = Counter(task.task for task in harness.tasks)
    assert tasks == {"of_prefix": 4, "of_type": 4, "of_change": 4, "of_all": 2}
    harness.run()
    assert sorted(each for name, each in seen if name == "of_change") == [
        "a-1 created",
        "a-1 deleted",
        "a-1 updated",
        "b-1 updated",
    ]


def test_an_event_without_its_data_passes_the_conditions_on_data_and_not_that_on_the_key(harness: Harness) -> None:
    app = Function("shop")

    @app.on_document("orders/{id}", prefix="a-", type="Order", changed="state")
    def note(event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the path names it

    harness.add(app)
    for key in ("a-1", "b-1"):
        harness.write_record(f"orders/{key}", {"type": "Other"})
    events = [replace(event, after=None, before=None) for event in harness.events]
    harness.events.clear()
    for event in events:
        harness.deliver_event(event)
    assert [task.payload["path"] for task in harness.tasks] == ["orders/a-1"]


def test_an_event_of_a_document_has_no_fields_of_the_kit(harness: Harness) -> None:
    app, seen = Function("shop"), list[Any]()

    @app.on_document("documents/{key}")
    def note(event: DocumentEvent, key: str) -> None:
        seen.append((event.before, event.after))

    @app.on_document("orders/{id}")
    def other(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        seen.append((event.before, event.after))

    harness.add(app)
    harness.put("documents/a", json={"n": 1})
    harness.write_record("orders/1", {"_signalbox": "a user's"})
    harness.run()
    assert seen == [(None, {"n": 1}), (None, {"_signalbox": "a user's"})]


def test_the_fields_that_are_left_out_of_events_are_those_of_documents() -> None:
    assert (RESERVED, RESOURCE_META) == INTERNAL
    assert COLLECTION == DOCUMENTS


NAN = float("nan")


@pytest.mark.parametrize(
    ("before", "after", "is_changed"),
    [
        ({"a": 0}, {"a": False}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [True]}}, True),
        ({"a": None}, {}, True),
        ({"a": NAN}, {"a": NAN}, False),
        ({"x": 1}, {"x": 2}, False),
        (None, {"a": None}, True),
        ({"a": 1}, None, True),
        (None, {"x": 1}, False),
        (None, None, True),
    ],
)
def test_a_field_is_changed_if_it_is_stored_otherwise_than_before(before: Any, after: Any, is_changed: bool) -> None:
    assert DocumentFilter(changed=("a",)).selects(before, after) is is_changed
