"""What a project deploys, counted from plans of the real Terraform, and what a destroyed environment leaves."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from signalbox.catalogue.reading import Catalogue, parse
from signalbox_tools.catalogue_lock import text_of
from signalbox_tools.deploy import deployment_steps
from tests.infra.deploy.first_deployments import first_deployment
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.small_projects import PROJECTS, Size, SmallProject, table
from tests.infra.test_iam import BUILDER, rights
from tests.infra.workspace import INFRA, Workspace

pytestmark = pytest.mark.slow

FLOW, WITH_ALL_KINDS, *_, ALL = PROJECTS
ACT_AS, TOKENS = "roles/iam.serviceAccountUser", "roles/iam.serviceAccountTokenCreator"
ACCOUNTS_MAX = 100
"""Of a project of Google Cloud."""

FREE = {"google_cloud_tasks_queue", "google_firestore_field"}
"""A destroyed environment leaves queues without tasks, whose names would be taken for days. Settings of fields go with
the database."""


@dataclass(frozen=True)
class Planned:
    """A workspace with the catalogue of a project, and the kinds of the planned resources with their numbers."""

    workspace: Workspace
    kinds: Counter[str]


def empty_zips(catalogue: Catalogue, folder: Path) -> Path:
    folder.mkdir()
    for name in catalogue.functions:
        (folder / f"{name}.zip").touch()
    return folder


@pytest.fixture(scope="module", params=PROJECTS)
def project(request: pytest.FixtureRequest) -> SmallProject:
    return PROJECTS[request.param]


@pytest.fixture(scope="module")
def planned(project: SmallProject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    folder = tmp_path_factory.mktemp("small")
    catalogue = parse(project.catalogue(folder / "orders"), INFRA.parent)
    with GoogleProvider() as google:
        workspace = Workspace(folder / "copy", google, empty_zips(catalogue, folder / "zips"), "dev", examples=False)
        workspace.lock.write_text(text_of(catalogue), "utf-8")
        workspace.initialise()
        workspace.plan()
        yield Planned(workspace, Counter(each.kind for each in workspace.planned().values()))


def test_a_project_deploys_what_the_page_counts_and_no_more_than_its_bar(
    project: SmallProject, planned: Planned
) -> None:
    kinds, bar = planned.kinds, project.bar
    size = Size(kinds["google_cloudfunctions2_function"], kinds.total(), kinds["google_service_account"])
    assert size == project.size, "correct it in small_projects.py"
    assert size.functions <= bar.functions
    assert size.resources <= bar.resources
    assert size.accounts <= bar.accounts


def test_no_environment_of_the_kit_deploys_examples_unless_its_file_is_changed() -> None:
    files = (INFRA / "environments").glob("*.tfvars.json")
    assert {path.name: json.loads(path.read_text("utf-8")).get("examples", False) for path in files} == {
        "dev.tfvars.json": False,
        "prod.tfvars.json": False,
    }


def test_the_page_has_the_sizes() -> None:
    page = (INFRA / "README.md").read_text("utf-8")
    assert table() in page, f"write this table into infra/README.md:\n\n{table()}"


def test_five_environments_of_it_fit_in_the_accounts_of_one_project(planned: Planned) -> None:
    assert 5 * planned.kinds["google_service_account"] <= ACCOUNTS_MAX


def test_each_account_has_the_rights_that_its_work_needs_and_those_of_the_security_page(
    project: SmallProject, planned: Planned
) -> None:
    planned.workspace.apply()
    resources = planned.workspace.resources()
    held = sorted(set(rights(resources)))
    accounts = {each.values["account_id"] for each in resources.values() if each.kind == "google_service_account"}
    assert {member for member, role, _ in held if role in (ACT_AS, TOKENS)} <= {BUILDER, *of_functions(accounts)}
    acted_as = {on for member, role, on in held if role in (ACT_AS, TOKENS) and member != BUILDER}
    assert {each.partition("-")[0] for each in acted_as} <= {"qu"}, "functions act as accounts of queues only"
    assert {member for member, *_ in held} >= accounts, "an account without a right"
    if project == PROJECTS[WITH_ALL_KINDS]:
        table = rights_table(held)
        page = (INFRA.parent / "SECURITY.md").read_text("utf-8")
        assert table in page, f"write this table into SECURITY.md:\n\n{table}"


def of_functions(accounts: set[str]) -> set[str]:
    return {each for each in accounts if each.startswith("fn-") or each.endswith("-functions")}


def rights_table(held: Iterable[tuple[str, str, str]]) -> str:
    """Return a row for each account and role, with the objects of the role."""
    of_roles: dict[tuple[str, str], list[str]] = {}
    for member, role, on in held:
        if member not in (BUILDER, "ann"):
            of_roles.setdefault((member, role.removeprefix("roles/")), []).extend(on.split())
    rows = [
        f"| `{member}` | `{role}` | {', '.join(f'`{on}`' for on in objects)} |"
        for (member, role), objects in of_roles.items()
    ]
    return "\n".join(("| account | role | on |", "|---|---|---|", *rows))


def test_destroying_it_leaves_nothing_that_costs(planned: Planned) -> None:
    planned.workspace.apply()
    planned.workspace.destroy()
    assert {kind for kind, _ in planned.workspace.google.cloud.existing} <= FREE


SEEDS = (2, 4)
"""Projects of Google Cloud without and with mishaps: see `first_deployments`."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        (FLOW, SEEDS[0]),
        *(pytest.param(name, seed, marks=pytest.mark.marathon) for name in (FLOW, ALL) for seed in SEEDS),
    ],
)
def test_a_first_deployment_takes_no_more_applies_and_minutes_than_its_bar(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment_steps, "build", lambda *_: [])
    content = PROJECTS[name].catalogue(tmp_path / "orders")
    zips = empty_zips(parse(content, INFRA.parent), tmp_path / "zips")
    ended, bar = first_deployment(seed, tmp_path / "copy", zips, content), PROJECTS[name].first
    assert ended.deployed, str(ended)
    assert bar is not None
    assert ended.applies <= bar.applies, str(ended)
    assert ended.minutes <= bar.minutes, str(ended)
