"""A user's own project: the paths of its files, and its catalogue with the kit's entries."""

from pathlib import Path

import pytest
import yaml

from signalbox.catalogue import project as projects
from signalbox.catalogue.project import KIT, Kit, NotAProject, Project
from signalbox.catalogue.reading import CatalogueError, load
from signalbox.testing import Harness
from signalbox_tools.catalogue_lock import lock
from signalbox_tools.deploy import deployment_target, working_copy
from signalbox_tools.packaging.zip_building import build

MAIN = """from signalbox import Function, Request, Response

app = Function("orders")


@app.http("GET", "/{key}")
def show(request: Request, key: str) -> Response:
    return Response(200, {"key": key})


orders = app.entry_point()
"""
CATALOGUE = """api: all
functions:
  orders:
    invoked_by: [people]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "functions" / "orders").mkdir(parents=True)
    (tmp_path / "functions" / "orders" / "main.py").write_text(MAIN)
    (tmp_path / "signalbox.yaml").write_text(CATALOGUE)
    return tmp_path


def test_a_project_is_found_from_any_folder_in_it(shop: Path) -> None:
    assert Project.find(shop / "functions" / "orders") == Project(shop, own=True)


def test_in_the_repository_the_repository_is_the_project(tmp_path: Path) -> None:
    assert Project.find(tmp_path) == Project(KIT.root, own=False)
    assert Project.find(tmp_path).catalogue == KIT.root / "infra" / "catalogue.yaml"


def test_with_an_installed_kit_a_command_outside_of_a_project_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "KIT", Kit(projects._PACKAGED))
    with pytest.raises(NotAProject, match=r"no signalbox\.yaml in .*signalbox new my-shop"):
        Project.find(tmp_path)


def test_its_catalogue_has_the_kits_entries_and_none_of_the_examples(shop: Path) -> None:
    found, kits = load(shop / "signalbox.yaml"), load()
    of_the_kit = {name for name, each in kits.functions.items() if kits.is_of_the_kit(each)}
    assert found.functions.keys() == {"orders", *of_the_kit}
    assert {name for name, each in found.functions.items() if found.is_of_the_kit(each)} == of_the_kit
    assert (found.queues, found.schedules) == (kits.queues, kits.schedules)
    assert found.triggers == {name: each for name, each in kits.triggers.items() if each.function in of_the_kit}
    assert found.history == {}
    assert found.task_queues == kits.task_queues


def test_it_changes_settings_of_the_kits_entries(shop: Path) -> None:
    more = "  documents: {memory: 2Gi}\nqueues:\n  links: {concurrent_max: 4}\n"
    (shop / "signalbox.yaml").write_text(CATALOGUE + more)
    found, kits = load(shop / "signalbox.yaml"), load()
    assert found.functions["documents"].memory == "2Gi"
    assert found.functions["documents"].enqueues == kits.functions["documents"].enqueues
    assert found.queues["links"].concurrent_max == 4
    assert found.queues["links"].attempts_max == -1


def test_a_function_with_a_name_of_the_kits_is_refused(shop: Path) -> None:
    (shop / "functions" / "orders").rename(shop / "functions" / "documents")
    (shop / "signalbox.yaml").write_text("functions:\n  documents:\n    invoked_by: [people]\n")
    with pytest.raises(CatalogueError, match=r"functions\.documents: the kit has a function of this name: rename"):
        load(shop / "signalbox.yaml")


def test_a_project_made_by_a_newer_kit_is_refused(shop: Path) -> None:
    (shop / "signalbox.yaml").write_text(f'version_min: "99.0.0"\n{CATALOGUE}')
    with pytest.raises(CatalogueError, match=r"needs signalbox 99\.0\.0 or newer, and .* is installed: run `uv sync`"):
        load(shop / "signalbox.yaml")
    (shop / "signalbox.yaml").write_text(f"version_min: 0.1\n{CATALOGUE}")
    with pytest.raises(CatalogueError, match=r"version_min is a version in quotes"):
        load(shop / "signalbox.yaml")


def test_its_tests_call_its_functions_and_the_kits(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    with Harness() as harness:
        assert harness.get("orders/a").json == {"key": "a"}
        assert harness.put("documents/b", json={"c": 1}).status == 201


def test_the_zips_of_the_kits_functions_are_those_of_the_repository(shop: Path, tmp_path: Path) -> None:
    names = ("documents", "sweep")
    own = build(load(shop / "signalbox.yaml"), ("orders", *names), tmp_path / "own")
    assert [each for each in own if each.name != "orders"] == build(load(), names, tmp_path / "repository")


def test_terraform_runs_on_a_copy_of_the_kits_files_with_the_projects_catalogue(shop: Path) -> None:
    place = deployment_target.read("demo-project", "dev", root=shop)
    assert place.variables == KIT.infra / "environments" / "dev.tfvars.json"
    assert place.name_prefix == "dev-"
    lock(place.folder.catalogue)
    working_copy.renew(place.folder)
    assert (place.infra / "modules" / "function" / "main.tf").read_bytes() == (
        KIT.infra / "modules" / "function" / "main.tf"
    ).read_bytes()
    rows = yaml.safe_load((place.infra / "catalogue.lock.yaml").read_text())["deployments"]
    assert rows["orders"]["segment"] == "orders"
    assert rows["documents"]["segment"] == "documents"


def test_the_copy_follows_the_kit_and_keeps_the_projects_lock_file(shop: Path) -> None:
    project = Project.at(shop)
    working_copy.renew(project)
    (project.infra / "removed.tf").write_text("# of an older kit")
    (project.infra / working_copy.LOCK_FILE).write_text("# written by Terraform")
    assert working_copy.keep_lock_file(project) == shop / working_copy.LOCK_FILE
    working_copy.renew(project)
    assert not (project.infra / "removed.tf").exists()
    assert (shop / working_copy.LOCK_FILE).read_text() == "# written by Terraform"


def test_a_projects_own_settings_go_before_the_kits(shop: Path) -> None:
    (shop / "environments").mkdir()
    (shop / "environments" / "dev.tfvars.json").write_text('{"environment": "dev", "prefix": "shop"}')
    assert deployment_target.read("demo-project", "dev", root=shop).name_prefix == "shop-"
