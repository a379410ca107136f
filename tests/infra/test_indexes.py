"""Firestore keeps an index for every query that the kit makes, and none where nothing is searched."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.infra.workspace import INFRA, Resource

Field = tuple[str, str]
Made = list[tuple[str, list[str]]]

TESTS = (
    "batches/test_batch_lists",
    "batches/test_batches",
    "batches/test_units",
    "core/test_outbox",
    "links/test_copies",
    "links/test_link_events",
    "links/test_link_tasks",
    "links/test_verification",
    "semaphores/test_costs_semaphores",
    "semaphores/test_semaphores_http",
)
KNOWN = {
    ("batches", "due_at"),
    ("batches", "state"),
    ("counters", "first"),
    ("documents", "_signalbox.link_keys"),
    ("semaphores", "mode"),
    ("semaphores", "sweep_at"),
    ("units", "state"),
    ("verifications", "begun_at"),
    ("waiters", "since"),
}
"""The queries in the operations' source, found by reading it."""
SELDOM = {("waiters", "expires_at")}
"""Asked for when receipts have grown old: none of these tests waits for that."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return every query that the operations make in their own tests: the collection, and the fields it names."""
    file = tmp_path_factory.mktemp("queries") / "made"
    tests = [f"tests/unit/{name}.py" for name in TESTS]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.infra.queries_made", "-p", "no:cacheprovider", *tests],
        cwd=INFRA.parent,
        env=os.environ | {"QUERIES_MADE": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return [(collection, fields) for collection, fields in map(json.loads, file.read_text("utf-8").splitlines())]


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
    assert {(collection, field) for collection, fields in made for field in fields} >= KNOWN


def test_no_field_that_a_query_names_is_without_an_index(made: Made, configured: dict[Field, list[str]]) -> None:
    named = SELDOM | {(collection, field) for collection, fields in made for field in fields}
    assert [field for field in sorted(named) if unindexed(field, configured)] == []


def test_no_query_of_the_kits_own_names_two_fields(made: Made) -> None:
    assert [each for each in made if each[0] != "documents" and len(each[1]) > 1] == []


def test_what_is_exempt_is_a_field_that_the_kit_writes(configured: dict[Field, list[str]]) -> None:
    written = "\n".join(path.read_text("utf-8") for path in (INFRA.parent / "shared").rglob("*.py"))
    unknown = [each for each in configured if not re.search(rf"\b{each[1].rpartition('.')[2]}\b", written)]
    assert unknown == []


def test_whom_a_document_links_to_is_searched_as_arrays_only(configured: dict[Field, list[str]]) -> None:
    searched = {field: kinds for field, kinds in configured.items() if kinds}
    assert searched == {
        ("documents", "_signalbox.link_fields"): ["CONTAINS"],
        ("documents", "_signalbox.link_keys"): ["CONTAINS"],
    }


def test_only_receipts_and_counts_of_attempts_have_a_time_to_live(resources: Mapping[str, Resource]) -> None:
    living = [each.values for each in resources.values() if each.values.get("ttl_config")]
    offsets = {(each["collection"], each["field"]): each["ttl_config"][0]["expiration_offset"] for each in living}
    assert offsets == {("attempts", "counted_at"): "2678400s", ("waiters", "expires_at"): ""}


def unindexed(field: Field, configured: Mapping[Field, list[str]]) -> bool:
    """Return whether a field has no index: what is nearest above it decides, and by default there is one."""
    collection, path = field
    while path:
        if (collection, path) in configured:
            return not configured[collection, path]
        path = path.rpartition(".")[0]
    return False
