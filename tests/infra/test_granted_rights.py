"""The accounts and rights that Terraform applies for random catalogues are those of SECURITY.md, and no others."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from signalbox.catalogue.reading import CATALOGUE, Catalogue, CatalogueError, parse
from signalbox_tools.catalogue_lock import rows_of, text_of
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.granted_rights import SHARED, accounts, may_share, rights_of_services, services
from tests.infra.test_iam import rights
from tests.infra.test_small_projects import empty_zips
from tests.infra.workspace import INFRA, Resource, Workspace

FOLDERS = ("ann", "bob", "cas")
OWN_QUEUES = ("mail", "slow-work")
ROLES = ("roles/aiplatform.user", "roles/bigquery.dataViewer")
OF_SERVICES = ("fn-", SHARED, "qu-")
CALLS = "roles/run.invoker"


def random_content(random: Random, root: Path) -> dict[str, Any]:
    """Return the content of a catalogue: functions of a user, queues, and more rights for functions of the kit."""
    content: dict[str, Any] = yaml.safe_load(CATALOGUE.read_text("utf-8"))
    functions = {name: each or {} for name, each in content["functions"].items() if "folder" not in (each or {})}
    queue = content["queues"]["tasks"]
    content["queues"] |= {name: queue | {"concurrent_max": 9, "shards": random.choice((1, 3))} for name in OWN_QUEUES}
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)
        (root / name / "main.py").touch()
        functions[name] = {"folder": str(root / name), **_entry(random, content["queues"])}
    called = sorted(name for name, each in functions.items() if "people" in each.get("invoked_by", ()))
    for name in FOLDERS:
        functions[name] |= _more(random, called) if not functions[name].get("isolated") else {}
    for name in random.sample(sorted(functions.keys() - {*FOLDERS}), 3):
        functions[name] |= _more(random, called)
        if functions[name].get("invoked_by") == ["people"] and random.random() < 0.3:
            functions[name]["public"] = True
    content |= {"functions": functions, "api": "all", "payloads": random.random() < 0.5}
    return content | {"history": {}, "semaphores": {}, "rates": {}}


def _entry(random: Random, queues: Mapping[str, Any]) -> dict[str, Any]:
    if random.random() < 0.15:
        return {"isolated": True, "invoked_by": ["people"], "enqueues": []}
    invoked_by = random.sample(("people", "queue"), random.randint(1, 2))
    entry: dict[str, Any] = {"invoked_by": invoked_by, "tasks": ["work"] if "queue" in invoked_by else []}
    entry["enqueues"] = random.sample(sorted(queues), random.randint(0, 3))
    if "queue" in invoked_by and random.random() < 0.4:
        entry["queues"] = random.sample(("tasks", *OWN_QUEUES), random.randint(1, 2))
    if "people" in invoked_by and random.random() < 0.4:
        entry["public"] = True
    return entry


def _more(random: Random, called: list[str]) -> dict[str, Any]:
    """Return random rights that give a function a separate account, often none."""
    rights_of: dict[str, Any] = {
        "secrets": {"KEY": random.choice(("stripe-key", "stripe-key:3", "mail"))},
        "roles": [random.choice(ROLES)],
        "archives": ["shop-archive"],
        "invokes": [random.choice(called)],
    }
    return {name: rights_of[name] for name in random.sample(sorted(rights_of), random.choice((0, 0, 1, 2)))}


def random_catalogues(root: Path, seeds: range) -> Iterator[tuple[int, Catalogue]]:
    """Iterate over the catalogues of seeds, without those that are refused."""
    for seed in seeds:
        try:
            yield seed, parse(random_content(Random(f"rights {seed}"), root), INFRA.parent)
        except CatalogueError:
            continue


def test_functions_share_an_account_exactly_where_it_separates_nothing(tmp_path: Path) -> None:
    tried = 0
    for seed, catalogue in random_catalogues(tmp_path, range(8)):
        deployed = rows_of(catalogue)["deployments"].values()
        shared = {row["segment"] for row in deployed if row["kit_account"]}
        for first, second in combinations(services(catalogue), 2):
            assert ({first.name, second.name} <= shared) == may_share(first, second), (seed, first.name, second.name)
        tried += 1
    assert tried > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 8])
def test_a_random_catalogue_is_applied_with_the_accounts_and_rights_of_the_page(seed: int, tmp_path: Path) -> None:
    seed, catalogue = next(random_catalogues(tmp_path, range(1_000 * seed, 1_000 * seed + 100)))
    with GoogleProvider() as google:
        zips = empty_zips(catalogue, tmp_path / "zips")
        workspace = Workspace(tmp_path / "copy", google, zips, examples=False)
        workspace.lock.write_text(text_of(catalogue), "utf-8")
        workspace.initialise()
        workspace.apply()
        resources = workspace.resources()
    assert accounts_in(resources) == accounts(catalogue), seed
    held, due = rights_in(resources), rights_of_services(catalogue)
    assert (sorted(held - due), sorted(due - held)) == ([], []), f"too many, and missing, of seed {seed}"


def accounts_in(resources: Mapping[str, Resource]) -> set[str]:
    made = (each.values["account_id"] for each in resources.values() if each.kind == "google_service_account")
    return {each for each in made if each.startswith(OF_SERVICES)}


def rights_in(resources: Mapping[str, Resource]) -> set[tuple[str, str, str]]:
    """Return the rights of services' and queues' accounts, and those to call services."""
    return {each for each in rights(resources) if each[0].startswith(OF_SERVICES) or each[1] == CALLS}
