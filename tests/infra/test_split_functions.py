"""A function that is open and has tasks: two services of one zip, and no right of one is a right of the other."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import Catalogue, load
from signalbox.catalogue.writing import written
from signalbox_tools.function_deployments import deployments_of
from tests.infra import applied_state
from tests.infra.applied_state import AppliedState
from tests.infra.conftest import PAGE, open_three
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.stack_from_state import settings_of
from tests.infra.test_applied_catalogue import with_the_rights_of_their_account
from tests.infra.test_iam import callers_of, rights, row_of, rows
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTION = 'module.function["{}"].google_cloudfunctions2_function.function'
SOURCE = 'module.function["{}"].google_storage_bucket_object.source'

CALLERS = {
    "philosophers": "allUsers ann signalbox-deployer",
    "philosophers-tasks": "qu-tasks",
    "quilt": "allUsers ann signalbox-deployer",
    "quilt-tasks": "qu-tasks",
    "shop": "allUsers ann signalbox-deployer",
    "shop-tasks": "kit-events qu-tasks",
}
ACCOUNTS = """
fn-philosophers       | admit links tasks   | signalbox-prod
fn-philosophers-tasks | admit links         | signalbox-prod
fn-quilt              | admit batches links tasks | signalbox-prod
fn-quilt-tasks        | admit batches links tasks | signalbox-prod
fn-shop               | admit batches flows links objects tasks | signalbox-prod
fn-shop-tasks         | admit batches flows links objects tasks | signalbox-prod
"""


@pytest.fixture(scope="module")
def resources(first: Workspace) -> Mapping[str, Resource]:
    return first.resources()


@pytest.fixture(scope="module")
def asked_for() -> Catalogue:
    """Return the project's catalogue with the three functions open."""
    catalogue = load()
    opened = {
        "quilt": {"auth": "firebase", "cors": (PAGE,)},
        "philosophers": {"public": True, "enqueues": ("admit", "links")},
        "shop": {"public": True},
    }
    functions = {
        name: dataclasses.replace(each, **opened.get(name, {}))  # type: ignore[arg-type]  # fields by name, of any type
        for name, each in catalogue.functions.items()
    }
    return dataclasses.replace(catalogue, functions=functions)


@pytest.fixture(scope="module")
def found(first: Workspace, asked_for: Catalogue) -> AppliedState:
    folders = {name: each.folder for name, each in asked_for.functions.items()}
    return applied_state.read(first.shown(), folders, asked_for.root)


def test_each_half_is_called_by_and_may_do_exactly_this(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    assert {name: callers_of(name, held) for name in CALLERS} == CALLERS
    assert [row_of(account, held) for account, *_ in rows(ACCOUNTS)] == rows(ACCOUNTS)


def test_the_halves_are_those_that_the_local_stack_serves(
    resources: Mapping[str, Resource], asked_for: Catalogue
) -> None:
    services = {each.values["name"] for each in resources.values() if each.kind == "google_cloudfunctions2_function"}
    assert services == {each.segment for one in asked_for.functions.values() for each in deployments_of(one)}


def test_both_halves_are_built_from_one_zip_and_each_knows_its_part(resources: Mapping[str, Resource]) -> None:
    people, tasks = (resources[FUNCTION.format(name)].values for name in ("quilt", "quilt_tasks"))
    assert people["build_config"][0]["entry_point"] == tasks["build_config"][0]["entry_point"] == "quilt"
    zips = [
        resources[f'module.function["{name}"].google_storage_bucket_object.source'] for name in ("quilt", "quilt_tasks")
    ]
    assert len({each.values["source_md5hash"] for each in zips}) == 1
    names = ("SIGNALBOX_PART", "SIGNALBOX_SIGNATURES", "SIGNALBOX_AUTH", "SIGNALBOX_ORIGINS", "SIGNALBOX_OPEN")
    variables = [each["service_config"][0]["environment_variables"] for each in (people, tasks)]
    assert [[each.get(name) for name in names] for each in variables] == [
        ["people", "checked", '{"quilt":"firebase"}', f'{{"quilt":["{PAGE}"]}}', '{"quilt":[]}'],
        ["tasks", "removed", None, None, None],
    ]


def test_events_are_delivered_to_the_half_for_tasks_which_alone_knows_their_account(
    resources: Mapping[str, Resource], found: AppliedState
) -> None:
    [destination] = resources['google_eventarc_trigger.document["shop-ordered"]'].values["destination"]
    assert destination["cloud_run_service"][0]["service"] == "shop-tasks"
    accounts = [from_environment(found.environments[name]).events_account for name in ("shop", "shop_tasks")]
    assert accounts == ["", "kit-events@demo-project.iam.gserviceaccount.com"]
    assert found.catalogue.triggers["shop-ordered"].handler == "ordered"


def test_only_the_half_for_people_is_reachable_from_outside(resources: Mapping[str, Resource]) -> None:
    ingress = [
        resources[FUNCTION.format(name)].values["service_config"][0]["ingress_settings"]
        for name in ("quilt", "quilt_tasks")
    ]
    assert ingress == ["ALLOW_ALL", "ALLOW_INTERNAL_ONLY"]


def test_tasks_are_sent_to_the_private_half_by_every_function(found: AppliedState) -> None:
    for environment in found.environments.values():
        settings = from_environment(environment).with_catalogue(found.shared)
        assert settings.address_of("quilt").startswith("https://quilt-tasks-")
        assert settings.address_of("semaphore_admit").startswith("https://semaphore-admit-")


def test_what_was_applied_reads_back_as_the_catalogue(
    found: AppliedState, asked_for: Catalogue, tmp_path: Path
) -> None:
    for name, each in with_the_rights_of_their_account(asked_for.functions).items():
        deployed = dataclasses.asdict(found.catalogue.functions[name])
        wanted = dataclasses.asdict(each)
        for field in ("invoked_by", "enqueues", "tasks"):
            assert set(deployed.pop(field)) == set(wanted.pop(field))
        assert deployed == wanted
    (tmp_path / "catalogue.yaml").write_text(written(found.catalogue, elsewhere=True))
    assert load(tmp_path / "catalogue.yaml").split_functions == {"quilt", "philosophers", "shop"}


def test_the_local_stack_takes_the_settings_of_both_halves(found: AppliedState) -> None:
    settings = settings_of(found)
    assert (settings.part, settings.auth) == ("", {"quilt": "firebase"})
    assert settings.split_functions == {"quilt", "philosophers", "shop"}


def test_each_half_knows_by_its_environment_alone_that_it_is_one(found: AppliedState) -> None:
    for name in ("quilt", "quilt_tasks"):
        assert from_environment(found.environments[name]).address_of("quilt").startswith("https://quilt-tasks-")


def test_people_get_the_address_of_the_half_for_people(first: Workspace) -> None:
    urls = first.outputs()["urls"]
    assert urls["quilt"].endswith("/quilt")
    assert "quilt_tasks" not in urls


def test_the_prefix_leaves_room_for_the_longer_name(zips: Path, google: GoogleProvider, tmp_path: Path) -> None:
    made = Workspace(tmp_path, google, zips, prefix="nine-char")
    made.edit_catalogue(open_three)
    made.initialise()
    complaint = " ".join(made.plan(check=False).stderr.split())
    assert "the longest function leaves 8 for it" in complaint
