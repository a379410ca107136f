"""Firestore keeps an index for every query that the kit makes, and none where nothing is searched."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from signalbox.core.records.composite_indexes import Index
from signalbox.flows.storage.listings import INDEXES
from tests.expiry_policies import POLICIES
from tests.infra.workspace import INFRA, Resource

pytestmark = pytest.mark.slow

Field = tuple[str, str]
Made = list[tuple[str, list[str]]]

TESTS = (
    "batches/test_batch_lists",
    "batches/test_batches_http",
    "batches/test_cancellation",
    "batches/test_sub_batches",
    "batches/test_units",
    "batches/test_watch",
    "core/test_outbox",
    "critical_sections/test_costs_critical_sections",
    "critical_sections/test_critical_sections",
    "document_events/test_document_events",
    "flows/reads/test_flow_labels",
    "flows/test_flow_operations",
    "flows/test_flow_sweep",
    "flows/test_flows_api",
    "flows/test_retries",
    "flows/reads/test_lists_by_start",
    "functions/test_functions",
    "history/test_versions",
    "links/test_copies",
    "links/test_link_events",
    "links/test_link_tasks",
    "links/test_verifications",
    "objects/test_applied_calls",
    "objects/test_object_sweep",
    "rates/test_rates",
    "resources/test_costs_resources",
    "semaphores/test_costs_semaphores",
    "semaphores/test_semaphores_http",
    "standings/test_standings_http",
    "tasks/test_failures",
    "tasks/test_units_under_a_rate",
    "transforms/test_transforms_http",
)
LONG = ("ten_thousand_waiters", "long_chain", "away_for_minutes", "hardly_room")
"""Tests that take as long as all others together, and read and write the same fields as those."""
INDEXED = {
    ("attempts", "batch"): "the last errors of a batch's units that are being retried",
    ("attempts", "erred_at"): "the last errors of tasks that are being retried",
    ("batches", "due_at"): "the sweeper: what is due",
    ("batches", "parent_run"): "cancel the sub-batches of a batch that was cancelled",
    ("batches", "state"): "list the batches of a state; of one value, entries sort by ids, which callers choose",
    ("completions", "due_at"): "the sweeper: tasks of batches' ends that have not run for an hour",
    ("counted", "times"): "the yokes of one standing by time: a field of the map for each standing",
    ("counted", "values"): "the extremes of one standing, and its yokes by value: a field of the map for each standing",
    ("counters", "first"): "the page of a unit, and the last page; only pages' nodes have it",
    ("critical_sections", "sweep_at"): "the sweeper: sections whose task was lost",
    ("entries", "average"): "leaderboards and ranks",
    ("entries", "count"): "leaderboards and ranks",
    ("entries", "max"): "leaderboards and ranks",
    ("entries", "min"): "leaderboards and ranks",
    ("entries", "sum"): "leaderboards and ranks",
    ("failures", "failed_at"): "list what was given up, the latest first",
    ("flows", "checked_at"): "the sweeper: running flows that have had no turn for an hour",
    ("flows", "due_at"): "the sweeper: what is stuck, and what is to be removed",
    ("flows", "labels"): "list the flows with a label, or with a label in a state; members of an array",
    ("flows", "state"): "list the flows of a state; of one value, entries sort by ids, which callers choose",
    ("mailbox", "since"): "the header of an object or of a flow, and what waits for it",
    ("mailbox", "unread"): "the events of a retried run that its end left unread, in the order of their commits",
    (
        "mailbox",
        "swept_by",
    ): "the sweeper: what waits for any object, in a group of collections; the numbers are spread",
    ("rate_waits", "batch"): "the units of a cancelled batch that wait for one rate; of one value, entries sort by ids",
    ("rate_waits", "since"): "the next waits of one rate, in their order",
    ("rates", "sweep_at"): "the sweeper: rates whose waits were not granted in time",
    ("semaphores", "mode"): "list the semaphores with waiters",
    ("semaphores", "sweep_at"): "the sweeper: what is due",
    ("units", "ended_at"): "watch one batch: a growing value, so a batch takes some 500 outcomes a second",
    ("units", "state"): "count units, and list those that failed; of one value, entries sort by ids, which are spread",
    ("verifications", "begun_at"): "list the latest",
    ("waiters", "expires_at"): "receipts that have grown old, of one semaphore",
    ("waiters", "lane"): "the waiters of all lanes of one semaphore; of one value, entries sort by ids",
    ("waiters", "places"): "the head of one lane of one semaphore: a field of the map for each lane",
    ("waiters", "since"): "the head of one semaphore's wait queue",
    ("yokes", "item"): "the removal of an item's yokes; of one item, entries sort by ids, which are spread",
    ("yokes", "user"): "the removal of a user's yokes",
}
"""The indexed fields of the kit's own collections, each with the query that needs it."""
MEMBER = re.compile(r"\.s[0-9a-f]{24}$")
"""A field of a map that holds one for each standing, or for each lane."""
SELDOM = {("waiters", "expires_at")}
"""Asked for when receipts have grown old: none of these tests waits for that."""


@pytest.fixture(scope="module")
def made_and_written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Made]:
    """Return every query and every write of the operations in their own tests: the collection, and the fields."""
    folder = tmp_path_factory.mktemp("queries")
    files = [folder / "made", folder / "written"]
    tests = [f"tests/unit/{name}.py" for name in TESTS]
    plugins = ("-p", "tests.infra.queries_made", "-p", "no:cacheprovider", "-p", "no:schemathesis")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, "-k", f"not {' and not '.join(LONG)}", *tests],
        cwd=INFRA.parent,
        env=os.environ | {"QUERIES_MADE": str(files[0]), "FIELDS_WRITTEN": str(files[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    made, written = ([*map(json.loads, file.read_text("utf-8").splitlines())] for file in files)
    return made, written


@pytest.fixture(scope="module")
def made(made_and_written: tuple[Made, Made]) -> Made:
    """Return every query: the collection, and the fields it names."""
    return made_and_written[0]


@pytest.fixture(scope="module")
def written(made_and_written: tuple[Made, Made]) -> set[Field]:
    """Return every field that the kit writes in its own collections; tests also have some of their own."""
    _, written = made_and_written
    others = ("documents", "counters", "parcels")
    kits = [(each.rpartition("/")[2], fields) for each, fields in written if each not in others]
    return {(collection, field) for collection, fields in kits for field in fields}


@pytest.fixture(scope="module")
def configured(resources: Mapping[str, Resource]) -> dict[Field, list[str]]:
    """Return the fields with indexes of their own choosing: which kinds they have."""
    found = [each.values for each in resources.values() if each.kind == "google_firestore_field"]
    return {
        (each["collection"], each["field"]): [
            index["array_config"] or index["order"] for config in each["index_config"] for index in config["indexes"]
        ]
        for each in found
        if each["index_config"]
    }


def test_the_tests_make_every_query_that_is_known(made: Made) -> None:
    of_documents = ("_signalbox.link_keys", "_resource.name", "_resource.goes_with")
    known = INDEXED.keys() - SELDOM | {("documents", field) for field in of_documents}
    assert {(collection, MEMBER.sub("", field)) for collection, fields in made for field in fields} >= known


def test_no_field_that_a_query_names_is_without_an_index(made: Made, configured: dict[Field, list[str]]) -> None:
    """Records' ids are not a field: they are sorted without an index, and are the last part of each one."""
    alone = [each for each in made if not has_index_of_its_own(*each)]
    named = SELDOM | {(collection, field) for collection, fields in alone for field in fields if field != "__name__"}
    assert [field for field in sorted(named) if unindexed(field, configured)] == []


def test_of_the_kits_own_collections_only_what_a_query_needs_is_indexed(
    written: set[Field], configured: dict[Field, list[str]]
) -> None:
    """A growing value that is indexed without need is a hot spot: of the times above all."""
    collections = {collection for collection, _ in written}
    assert collections >= {collection for collection, _ in INDEXED} | {
        "attempts",
        "critical_sections",
        "document_events",
        "histories",
        "outbox",
        "releases",
        "transforms",
        "versions",
    }
    assert {field for field in written if not unindexed(field, configured)} == INDEXED.keys()


def test_no_other_query_of_the_kits_own_names_two_fields(made: Made) -> None:
    """Records' ids are not a field: they are the last part of each index."""
    own = [each for each in made if each[0] != "documents" and not has_index_of_its_own(*each)]
    assert [each for each in own if len({*each[1]} - {"__name__"}) > 1] == []


def test_the_composite_indexes_of_the_kit_are_those_of_its_queries(
    made: Made, resources: Mapping[str, Resource]
) -> None:
    assert {index for index in INDEXES for each in made if fields_of(index) == {*each[1]}} == {*INDEXES}
    composite = [each.values for each in resources.values() if each.kind == "google_firestore_index"]
    planned = {
        (
            each["collection"],
            *(
                f"{'-' * (one['order'] == 'DESCENDING')}{one['field_path']}{'[]' * bool(one['array_config'])}"
                for one in each["fields"]
            ),
        )
        for each in composite
    }
    assert planned >= {(index.collection, *map(str, index.fields)) for index in INDEXES}


def fields_of(index: Index) -> set[str]:
    return {".".join(each.field) for each in index.fields}


def has_index_of_its_own(collection: str, fields: list[str]) -> bool:
    """Return whether a composite index of the kit serves a query of these fields."""
    return any(index.collection == collection and fields_of(index) == {*fields} for index in INDEXES)


def test_what_is_exempt_is_a_field_that_the_kit_writes(configured: dict[Field, list[str]]) -> None:
    written = "\n".join(path.read_text("utf-8") for path in (INFRA.parent / "shared" / "signalbox").rglob("*.py"))
    named = [each for each in configured if each[1] != "*"]
    unknown = [each for each in named if not re.search(rf"\b{each[1].rpartition('.')[2]}\b", written)]
    assert unknown == []


def test_whom_a_document_links_to_is_searched_as_arrays_only_and_all_else_in_both_directions(
    configured: dict[Field, list[str]],
) -> None:
    searched = {field: sorted(kinds) for field, kinds in configured.items() if kinds}
    assert searched == {field: ["ASCENDING", "DESCENDING"] for field in INDEXED} | {
        ("mailbox", "swept_by"): ["ASCENDING"],
        ("flows", "labels"): ["CONTAINS"],
        ("documents", "_signalbox.link_fields"): ["CONTAINS"],
        ("documents", "_signalbox.link_keys"): ["CONTAINS"],
    }


def test_one_setting_takes_the_indexes_from_a_collection_and_each_is_one_operation(
    resources: Mapping[str, Resource], configured: dict[Field, list[str]]
) -> None:
    """Each is a long-running operation of the database: what is paid for at every first deployment is bounded here."""
    whole = {collection for collection, field in configured if field == "*"}
    assert whole >= {collection for collection, _ in INDEXED}
    assert not any(each.values["skip_wait"] for each in resources.values() if each.kind == "google_firestore_field")
    assert sum(each.kind == "google_firestore_field" for each in resources.values()) <= 81


def test_the_policies_of_time_to_live_are_those_with_a_reason(resources: Mapping[str, Resource]) -> None:
    """Nothing that a rule needs may expire: a new policy is entered in the table, with why it is safe."""
    living = [each.values for each in resources.values() if each.values.get("ttl_config")]
    offsets = {
        each["collection"]: (each["field"], each["ttl_config"][0]["expiration_offset"] or "0s") for each in living
    }
    assert offsets == {name: (one.field, f"{one.offset.total_seconds():.0f}s") for name, one in POLICIES.items()}
    assert all(one.reason for one in POLICIES.values())


def test_receipts_of_waits_have_no_time_to_live() -> None:
    """Each later commit of a semaphore whose lapsed lease has lost its receipt would fail."""
    assert "waiters" not in POLICIES


def unindexed(field: Field, configured: Mapping[Field, list[str]]) -> bool:
    """Return whether a field has no index: what is nearest above it decides, and by default there is one."""
    collection, path = field
    above = [path]
    while above[-1]:
        above.append(above[-1].rpartition(".")[0])
    settings = (configured.get((collection, each or "*")) for each in above)
    return next((not indexes for indexes in settings if indexes is not None), False)
