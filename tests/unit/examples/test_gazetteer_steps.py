"""The gazetteer's steps as values, the checks that judge answers, and the ledger."""

from itertools import pairwise

import pytest

from examples.gazetteer.checks import check_query, check_reads
from examples.gazetteer.cost import Counts, Spent
from examples.gazetteer.data import Document, gazetteer, matching, shown
from examples.gazetteer.steps import TYPES, Step, plan, removal

Answers = dict[str, Document]


@pytest.fixture(scope="module")
def steps() -> dict[str, Step]:
    steps = {step.name: step for step in plan(gazetteer(300))}
    assert steps
    return steps


def answers(documents: Answers) -> Answers:
    return {key: shown(key, documents) for key in documents}


def test_each_step_begins_where_the_one_before_ended(steps: dict[str, Step]) -> None:
    assert all(dict(earlier.after) == dict(later.before) for earlier, later in pairwise(steps.values()))


def test_the_changes_of_each_step_lead_from_before_to_after(steps: dict[str, Step]) -> None:
    for step in steps.values():
        contents = {change.key: change.content for change in step.changes}
        merged = {**step.before, **contents}
        assert {key: content for key, content in merged.items() if content is not None} == dict(step.after)


def test_the_load_puts_cities_before_their_countries_and_is_the_same_every_time(steps: dict[str, Step]) -> None:
    order = [change.key for change in steps["load"].changes]
    places = {key: place for place, key in enumerate(order)}
    links = {key: each["country"]["key"] for key, each in steps["load"].after.items() if each["type"] == "city"}
    assert any(places[city] < places[country] for city, country in links.items())
    assert any(places[city] > places[country] for city, country in links.items())
    assert [change.key for change in next(iter(plan(gazetteer(300)))).changes] == order


def test_what_is_outdated_is_met_by_nothing_once_every_copy_has_followed(steps: dict[str, Step]) -> None:
    for step in steps.values():
        assert [matching(condition, answers(dict(step.after))) for condition in step.stale] == [{}] * len(step.stale)


def test_what_is_outdated_is_met_by_every_document_that_has_yet_to_follow(steps: dict[str, Step]) -> None:
    for name in ("rename a country", "rename a continent", "delete a country", "create it again"):
        step = steps[name]
        late = [matching(condition, answers(dict(step.before))) for condition in step.stale]
        assert set().union(*late) == set(step.affected()), name


def test_a_rename_of_a_continent_reaches_its_countries_and_their_cities(steps: dict[str, Step]) -> None:
    step = steps["rename a continent"]
    types = {step.after[key]["type"] for key in step.affected()}
    assert types == {"country", "city"}
    asked = set().union(*(matching(condition, answers(dict(step.after))) for condition in step.queries))
    assert asked == set(step.affected())


def test_every_document_is_read_back_at_the_end_and_some_of_each_type_by_their_keys(steps: dict[str, Step]) -> None:
    last, documents = steps["verify all"], steps["load"].after
    assert last.queries == tuple({"type": name} for name in TYPES)
    assert {documents[key]["type"] for key in last.reads} == set(TYPES)


def test_a_removal_takes_the_documents_that_link_before_those_they_link_to() -> None:
    documents = gazetteer(5)
    types = [documents[change.key]["type"] for change in removal(documents).changes]
    assert types == ["city"] * 5 + ["country"] * types.count("country") + ["continent"] * 7
    assert removal(documents).affected() == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([], "missing: 1 (a)"),
        ([{"key": "a", "n": 1}, {"key": "b"}], "too many: 1 (b)"),
        ([{"key": "a", "n": 1}, {"key": "a", "n": 1}], "found twice: 1 (a)"),
        ([{"key": "a", "n": 1.0}], "different: 1 (a)"),
        ([{"key": "a", "n": 1}], ""),
    ],
)
def test_a_query_is_held_to_exactly_the_expected_documents(found: list[Document], fault: str) -> None:
    check = check_query({"n": 1}, found, {"a": {"key": "a", "n": 1}})
    assert (check.fault, check.holds) == (fault, not fault)


def test_a_read_of_a_deleted_document_must_find_nothing() -> None:
    assert check_reads({"a": None}, {}).holds
    assert check_reads({"a": {"key": "a"}}, {}).fault == "read differently: 1 (a)"
    assert check_reads({"a": None}, {"a": {"key": "a"}}).fault == "read differently: 1 (a)"


def test_the_price_is_that_of_the_list() -> None:
    counts = Counts(reads=100_000, writes=100_000, deletes=100_000, tasks=500_000, events=7)
    assert counts.price_dollars == pytest.approx(0.06 + 0.18 + 0.02 + 0.40)


def test_the_difference_of_two_readings_is_the_cost_between_them() -> None:
    before = Spent(10.0, Counts.of({"reads": 5, "writes": 1, "round_trips": 99}))
    after = Spent(12.5, Counts.of({"reads": 8, "writes": 1, "events": 2}))
    assert after - before == Spent(2.5, Counts(reads=3, events=2))
    assert (after - before) + before == after
