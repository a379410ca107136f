"""Yokes and standings as people call them; events and tasks are delivered to the real entry points."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from signalbox import Function, standing_changed, standings
from signalbox.core.ports import Put
from signalbox.testing import Faults, Harness
from signalbox.testing.replaced_limits import replaced


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as entered:
        yield entered


def rate(harness: Harness, ratings: dict[tuple[str, str], float | None], **attributes: Any) -> None:
    for (user, item), value in ratings.items():
        body = {"value": value, "attributes": attributes}
        assert harness.put(f"yokes/{user}/{item}", json=body).status in (200, 201)


def numbers(harness: Harness, kind: str, id_: str) -> tuple[Any, ...]:
    shown = harness.get(f"standings/{kind}/{id_}").json
    return tuple(shown[name] for name in ("count", "sum", "average", "min", "max", "pending"))


def test_a_yoke_is_put_read_and_deleted(harness: Harness) -> None:
    put = harness.put("yokes/ann/tea", json={"value": 4.5, "attributes": {"day": "monday", "hot": True}})
    assert (put.status, put.json["value"]) == (201, 4.5)
    assert harness.put("yokes/ann/tea", json={"value": 4}).status == 200
    got = harness.get("yokes/ann/tea").json
    assert (got["user"], got["item"], got["value"], got["attributes"]) == ("ann", "tea", 4, {})
    assert datetime.fromisoformat(got["created_at"]) < datetime.fromisoformat(got["updated_at"])
    assert [harness.delete("yokes/ann/tea").status for _ in range(2)] == [204, 204]
    assert harness.get("yokes/ann/tea").status == 404


def test_standings_follow_by_events_that_come_twice_late_and_in_any_order(harness: Harness) -> None:
    rate(harness, {(user, item): len(user) for user in ("a", "bb", "ccc") for item in ("x", "y")})
    harness.run(Faults(duplicate=0.5))
    assert numbers(harness, "item", "x") == (3, 6, 2.0, 1, 3, 0)
    assert numbers(harness, "user", "bb") == (2, 4, 2.0, 2, 2, 0)
    assert numbers(harness, "item", "nobody's") == (0, 0, None, None, None, 0)


def test_a_declared_kind_counts_the_yokes_that_are_there_and_those_that_come(harness: Harness) -> None:
    rate(harness, {("a", "x"): 1, ("b", "x"): 2}, category="tea", day=31)
    harness.run()
    assert harness.put("standings/category", json={"by": ["category"]}).status == 200
    assert harness.put("standings/pair", json={"by": ["item", "category"]}).status == 200
    assert harness.put("standings/daily", json={"by": ["category", "day"]}).status == 200
    harness.run()
    rate(harness, {("c", "y"): 3}, category="tea")
    harness.run()
    assert numbers(harness, "category", "tea")[:2] == (3, 6)
    assert numbers(harness, "pair", "x~tea")[:2] == (2, 3)
    assert numbers(harness, "daily", "tea~31")[:2] == (2, 3)
    assert harness.get("standings").json["kinds"].keys() == {"user", "item", "category", "daily", "pair"}
    assert harness.delete("standings/category").status == 202
    harness.run()
    assert harness.get("standings/category/tea").status == 404
    assert harness.record("standings/category/entries/tea")["yokes"] == 0


def test_a_leaderboard_is_paged_and_ties_are_ordered_by_id(harness: Harness) -> None:
    rate(harness, {(user, item): None for item, users in (("x", "ab"), ("y", "abc"), ("z", "ab")) for user in users})
    harness.run()
    first = harness.get("standings/item?limit=2").json
    rest = harness.get(f"standings/item?limit=2&page_token={first['next_page_token']}").json
    assert [one["id"] for one in first["standings"]] == ["y", "z"]
    assert [one["id"] for one in rest["standings"]] == ["x"]
    assert "next_page_token" not in rest
    ranks = [harness.get(f"standings/item/{item}/rank").json["rank"] for item in "yzx"]
    assert ranks == [1, 2, 3]
    for order in ("sum", "average", "min", "max"):
        assert harness.get(f"standings/item?order_by={order}").status == 200
    with_neighbours = harness.get("standings/item/z/rank?neighbours=2").json
    assert [one["id"] for one in with_neighbours["above"]] == ["y"]
    assert [one["id"] for one in with_neighbours["below"]] == ["x"]


def test_an_item_without_yokes_is_on_no_leaderboard(harness: Harness) -> None:
    rate(harness, {("a", "x"): 1})
    harness.run()
    harness.delete("yokes/a/x")
    harness.advance(2)
    harness.run()
    assert harness.get("standings/item").json["standings"] == []
    assert harness.get("standings/item/x/rank").status == 404


def test_yokes_are_listed_by_time_and_by_value(harness: Harness) -> None:
    for user, value in (("a", 2), ("b", None), ("c", 5)):
        rate(harness, {(user, "x"): value})
        harness.advance(1)
    harness.run()
    assert [one["user"] for one in harness.get("yokes?item=x").json["yokes"]] == ["c", "b", "a"]
    assert [one["user"] for one in harness.get("yokes?item=x&order_by=value").json["yokes"]] == ["c", "a"]
    page = harness.get("yokes?item=x&limit=2").json
    rest = harness.get(f"yokes?item=x&limit=2&page_token={page['next_page_token']}").json
    assert [one["user"] for one in rest["yokes"]] == ["a"]
    largest = harness.get("yokes?item=x&order_by=value&limit=1").json
    next_largest = harness.get(f"yokes?item=x&order_by=value&limit=1&page_token={largest['next_page_token']}").json
    assert [one["user"] for one in (*largest["yokes"], *next_largest["yokes"])] == ["c", "a"]
    assert [one["item"] for one in harness.get("yokes?user=a").json["yokes"]] == ["x"]


def test_deleting_an_item_lets_its_users_standings_follow(harness: Harness) -> None:
    rate(harness, {(f"u{index}", "x"): 1 for index in range(7)})
    rate(harness, {("u0", "y"): 5})
    harness.run()
    harness.advance(2)
    assert harness.delete("yokes?item=x").status == 202
    with replaced(remove_page_max=3):
        harness.run()
    assert numbers(harness, "item", "x")[:2] == (0, 0)
    assert numbers(harness, "user", "u0") == (1, 5, 5.0, 5, 5, 0)


def test_deleting_a_user_lets_its_items_standings_follow(harness: Harness) -> None:
    rate(harness, {("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3})
    harness.run()
    harness.advance(2)
    assert harness.delete("yokes?user=a").status == 202
    with replaced(remove_page_max=1):
        harness.run()
    assert numbers(harness, "item", "x") == (1, 3, 3.0, 3, 3, 0)
    assert harness.ids("yokes") == ["b~x"]


def test_ids_with_a_tilde_a_percent_sign_and_a_slash_stay_apart(harness: Harness) -> None:
    assert harness.put("yokes/a~b/100%25", json={}).status == 201
    assert harness.put("yokes/a/b~100", json={}).status == 201
    harness.run()
    assert harness.ids("yokes") == ["a%7Eb~100%25", "a~b%7E100"]
    assert numbers(harness, "user", "a%257Eb")[0] == 1
    assert [one["item"] for one in harness.get("yokes?user=a~b").json["yokes"]] == ["100%"]


def test_a_threshold_runs_its_task_once_for_each_standing(harness: Harness) -> None:
    app = Function("charts")
    ran: list[Any] = []

    @standing_changed(app, "sum", at_least=3)
    def popular(standing: dict[str, Any]) -> None:
        ran.append((standing["kind"], standing["id"], standing["sum"]))

    app.entry_point()
    harness.add(app)
    standings("item").declare(on_threshold=[popular])
    for step in (1, 2, 1, 2):
        rate(harness, {("a", "x"): 1, ("b", "x"): step, ("a", "y"): 1})
        harness.advance(2)
        harness.run(Faults(duplicate=0.5))
    assert set(ran) == {("item", "x", 3)}
    assert harness.record("standings/item/entries/x")["crossed"] == [popular.threshold.name]
    assert harness.record("standings/item/entries/y")["crossed"] == []


def test_a_thresholds_task_is_enqueued_to_the_queue_that_it_names() -> None:
    @standing_changed(Function("charts"), "sum", at_least=3, queue="links")
    def popular(_: dict[str, Any]) -> None:
        pass

    assert popular.threshold.call.queue == "links"


def test_a_threshold_whose_task_takes_other_arguments_is_refused(harness: Harness) -> None:
    app = Function("charts")

    @app.task
    def popular(standing: dict[str, Any], since: int) -> None:
        raise AssertionError

    harness.add(app)
    call = {"function": "charts", "task": "popular", "payload": {}}
    threshold = {"field": "sum", "reaches": 3, "continuation": call}
    refused = harness.put("standings/item", json={"by": ["item"], "on_threshold": [threshold]})
    assert (refused.status, refused.json["field"]) == (400, "on_threshold[0].continuation.payload.since")
    call["payload"] = {"since": 1}
    assert harness.put("standings/item", json={"by": ["item"], "on_threshold": [threshold]}).status == 200


def test_a_recount_repairs_what_another_client_broke(harness: Harness) -> None:
    rate(harness, {("a", "x"): 1, ("b", "x"): 2})
    harness.run()
    broken = {**harness.record("standings/item/entries/x"), "yokes": 7, "count": 7, "min": -1}
    harness.store.commit([Put("standings/item/entries/x", broken)])
    assert harness.post("standings/item/x/recount").status == 202
    harness.run()
    assert numbers(harness, "item", "x") == (2, 3, 1.5, 1, 2, 0)
    assert [message for message, _ in harness.log.errors] == ["standing had drifted, repaired"]


def test_yokes_whose_events_were_lost_are_counted_by_a_walk(harness: Harness) -> None:
    rate(harness, {(user, "x"): 1 for user in "abc"})
    harness.run()
    harness.delete("yokes/a/x")
    rate(harness, {("d", "x"): 7})
    harness.events.clear()
    assert harness.post("standings").status == 202
    harness.advance(2)
    harness.run()
    assert numbers(harness, "item", "x") == (3, 9, 3.0, 1, 7, 0)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("PUT", "yokes/a/x", {"value": "4"}, 400, "value"),
        ("PUT", "yokes/a/x", {"value": 1e16}, 400, "value"),
        ("PUT", "yokes/a/x", {"rating": 4}, 400, "rating"),
        ("PUT", "yokes/a/x", {"attributes": {"item": "y"}}, 400, "attributes.item"),
        ("PUT", "yokes/a/x", {"attributes": {"day": 1.5}}, 400, "attributes.day"),
        ("PUT", f"yokes/{'u' * 451}/x", {}, 400, "user"),
        ("GET", "yokes", None, 400, "item"),
        ("DELETE", "yokes?user=a&item=x", None, 400, "user"),
        ("PUT", "standings/Upper", {"by": ["a"]}, 400, "kind"),
        ("PUT", "standings/item", {"by": ["user"]}, 400, "by"),
        ("PUT", "standings/pair", {"by": ["a", "a"]}, 400, "by"),
        ("PUT", "standings/pair", {}, 400, "by"),
        ("GET", "standings/unknown/x", None, 404, "kind"),
        ("GET", "standings/unknown", None, 404, "kind"),
        ("GET", "standings/item?order_by=name", None, 400, "order_by"),
        ("GET", "standings/item?limit=101", None, 400, "limit"),
        ("GET", "standings/item?page_token=x", None, 400, "page_token"),
        ("DELETE", "standings/item", None, 400, "kind"),
        ("DELETE", "standings/unknown", None, 404, "kind"),
    ],
)
def test_what_is_refused_names_the_field(
    harness: Harness, method: str, path: str, body: Any, status: int, field: str
) -> None:
    answer = harness.request(method, path, **({"json": body} if body is not None else {}))
    assert (answer.status, answer.json.get("field")) == (status, field)


def test_each_night_lost_events_are_made_up_for_and_standings_that_drifted_are_repaired(harness: Harness) -> None:
    rate(harness, {("ann", "x"): 4})
    harness.run()
    for path in ("standings/item/entries/x", "standings/user/entries/ann"):
        harness.store.commit([Put(path, {**harness.record(path), "yokes": 7, "count": 7})])
    rate(harness, {("bob", "y"): 2})
    harness.events.clear()
    harness.advance(10)
    for _ in range(2):
        assert harness.run_schedule("recount").status == 202
    harness.run()
    for kind, id_, value in (("item", "x", 4), ("user", "ann", 4), ("item", "y", 2), ("user", "bob", 2)):
        assert numbers(harness, kind, id_) == (1, value, value, value, value, 0)
    assert [message for message, _ in harness.log.errors] == ["standing had drifted, repaired"] * 2
