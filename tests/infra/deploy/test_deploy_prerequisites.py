"""Missing prerequisites are reported with their remedies, and stop a deployment before it has changed anything."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_target, prerequisites, project_facts
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.programs import CommandFailed
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script
from tests.infra.workspace import INFRA
from tests.unit.catalogue.test_databases import project

DEV = deployment_target.read(PROJECT, "dev")
OTHERS_FUNCTION = json.dumps([{"name": f"projects/{PROJECT}/locations/us-central1/functions/dev-sweep", "labels": {}}])
ANOTHER_ENVIRONMENTS = OTHERS_FUNCTION.replace("{}", '{"app": "signalbox", "environment": "staging"}')
OURS = OTHERS_FUNCTION.replace("{}", '{"app": "signalbox", "environment": "dev"}')
IN_EUROPE = OURS.replace("us-central1", "europe-west1")
ENTERPRISE = json.dumps(
    [
        {
            "name": f"projects/{PROJECT}/databases/signalbox-dev",
            "locationId": "us-central1",
            "databaseEdition": "ENTERPRISE",
        }
    ]
)
DATASTORE = json.dumps(
    [
        {
            "name": f"projects/{PROJECT}/databases/signalbox-dev",
            "locationId": "us-central1",
            "databaseEdition": "STANDARD",
            "type": "DATASTORE_MODE",
        }
    ]
)
ELSEWHERE = json.dumps([{"name": f"projects/{PROJECT}/databases/signalbox-dev", "locationId": "eur3"}])
WITH_A_KEY = ELSEWHERE.replace("eur3", "us-central1").replace("}", ', "cmekConfig": {"kmsKeyName": "projects/p/key"}}')
SERVICES = f"gcloud services list --enabled --project={PROJECT}"
RUNTIMES = "gcloud functions runtimes list --region=us-central1"
FUNCTIONS = "gcloud functions list --v2 --regions=-"


def refusal(
    script: Script, place: deployment_target.Target = DEV, act: Callable[[Deployment], bool] = Deployment.deploy
) -> str:
    """Try to deploy; return the output. Of Terraform at most the version was read."""
    with pytest.raises(Aborted) as stopped:
        act(Deployment(place, lambda _: None, lambda _: "yes", script))
    assert [asked for asked in script.asked if asked.startswith("terraform") and "version" not in asked] == []
    return str(stopped.value)


def with_settings(**settings: Any) -> deployment_target.Target:
    return dataclasses.replace(DEV, settings={"environment": "dev", **settings})


@pytest.mark.parametrize(
    ("name", "remedy"), [("backup", "Correct it to 'backups'"), ("colour", "Remove it. infra/variables.tf")]
)
def test_a_setting_that_does_not_exist_stops_a_deployment(name: str, remedy: str) -> None:
    """Terraform would ignore it with a warning, so an environment would be without its backups."""
    said = refusal(Script(), with_settings(**{name: True}))
    assert f"dev.tfvars.json has the setting '{name}', which does not exist.\n      {remedy}" in said


@pytest.mark.parametrize(
    ("begin", "answer", "said", "remedy"),
    [
        ("terraform version", '{"terraform_version": "1.8.5"}', "Terraform 1.8.5 is too old", "Install a newer one"),
        ("gcloud auth list", "", "no active account", "gcloud auth login"),
        (f"gcloud projects describe {PROJECT}", None, "finds no active project", f"gcloud projects create {PROJECT}"),
        (
            f"gcloud billing projects describe {PROJECT}",
            {"billingEnabled": False},
            "Billing is off",
            "billing projects",
        ),
        (SERVICES, None, "may not see the APIs", "--role=roles/serviceusage.serviceUsageAdmin"),
        (
            "gcloud functions regions list",
            "europe-west1",
            "us-central1 is not a region",
            "gcloud functions regions list",
        ),
        ("gcloud tasks locations list", "europe-west1", "but not of Cloud Tasks (gcloud tasks loc", "--region"),
        ("gcloud scheduler locations list", "europe-west1", "but not of Cloud Scheduler (gcloud sch", "--region"),
        (RUNTIMES, "python312", "does not offer the runtime python313", "gcloud functions runtimes list"),
        (FUNCTIONS, OTHERS_FUNCTION, "with the same names: dev-sweep", "Choose another prefix"),
        (FUNCTIONS, ANOTHER_ENVIRONMENTS, "are deployed as staging, not as dev", 'Write "environment": "staging" into'),
        (FUNCTIONS, ANOTHER_ENVIRONMENTS, "would lose its protection", "another deployment, choose another prefix"),
        ("gcloud firestore databases list", ENTERPRISE, "Enterprise edition", 'Set "database": "another-name"'),
        ("gcloud firestore databases list", DATASTORE, "is in Datastore mode", 'Set "database": "another-name"'),
        (
            "gcloud firestore databases list",
            WITH_A_KEY,
            "encrypted with projects/p/key, not",
            '"cmek_key": "projects/p/key"',
        ),
        (FUNCTIONS, IN_EUROPE, "is deployed in europe-west1, not in us-central1", "--region europe-west1"),
        ("gcloud firestore databases list", ELSEWHERE, "is in eur3, not in us-central1", '"database_location": "eur3"'),
    ],
)
def test_what_is_missing_is_reported_with_its_remedy(begin: str, answer: Any, said: str, remedy: str) -> None:
    text = refusal(Script(**{begin: answer}))
    assert re.search(rf"  - [^\n]*{re.escape(said)}[^\n]*\n      [^\n]*{re.escape(remedy)}", text), text
    assert text.count("  - ") == 1


@pytest.mark.parametrize("program", ["terraform", "gcloud"])
def test_a_missing_program_is_reported(program: str) -> None:
    assert "is not on the PATH" in refusal(Script().without(program))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (deployment_target.read("Demo Project", "dev"), "'Demo Project' is not a project's id"),
        (deployment_target.read(PROJECT, "nowhere"), "There is no environments/nowhere.tfvars.json"),
        (deployment_target.read(PROJECT, "dev", "us-central1-a"), "us-central1-a is not a region"),
        (with_settings(prefix="much-too-long-a-prefix"), "longer than 30 characters: fn-much-too-long-a-prefix-"),
        (with_settings(prefix="Dev_"), "The prefix 'Dev_' is not"),
        (with_settings(create_database=False), "create_database is false, and there is no database signalbox-dev"),
    ],
)
def test_what_cannot_work_is_reported(place: deployment_target.Target, said: str) -> None:
    assert said in refusal(Script(), place)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"database": "signalbox-dev"}, "dev.payments and dev have the same database, signalbox-dev"),
        ({"prefix": "pay"}, "The prefix of dev.payments is 'pay', and 'dev-payments' follows from dev"),
        (
            {"region": "europe-west1"},
            "The region of dev.payments is 'europe-west1', and 'us-central1' follows from dev",
        ),
        ({"domain": "a.example.com", "domain_only": True}, "Google would refuse the calls of functions of dev"),
    ],
)
def test_a_database_has_no_setting_with_which_it_is_not_separate_or_not_reached(
    own: dict[str, Any], said: str, tmp_path: Path
) -> None:
    place = of_a_database(tmp_path, {"environment": "dev", "prefix": "dev", "region": "us-central1"}, own)
    assert said in refusal(Script(), place)


def test_a_database_is_not_deployed_before_the_functions_that_invoke_its_own(tmp_path: Path) -> None:
    """Google refuses the right of an account that does not exist, in the middle of a deployment."""
    place = of_a_database(tmp_path, {"environment": "dev", "prefix": "dev"}, {})
    said = refusal(Script(), place)
    assert refusal(Script(), place, Deployment.adopt) == said
    assert "gives functions of dev the right to call its own, and these are not deployed: orders." in said
    assert f"signalbox deploy -p {PROJECT} -e dev --region us-central1" in said
    there = Script(**{FUNCTIONS: OURS.replace("dev-sweep", "dev-orders")})
    assert prerequisites.absent_callers(place, project_facts.gather(place, there)) is None
    unknown = Script(**{FUNCTIONS: None})
    assert prerequisites.absent_callers(place, project_facts.gather(place, unknown)) is None
    assert prerequisites.absent_callers(place.first, project_facts.gather(place.first, Script())) is None


def test_the_first_database_of_an_environment_is_not_that_of_another_one(tmp_path: Path) -> None:
    place = of_a_database(tmp_path, {"environment": "dev", "database": "signalbox-dev-payments"}, {})
    assert "dev and dev.payments have the same database" in refusal(Script(), place.first)


def test_an_environment_and_a_database_with_the_same_names_do_not_take_each_others_functions(tmp_path: Path) -> None:
    place = of_a_database(tmp_path, {"environment": "dev", "prefix": "dev"}, {})
    assert "{ database = local.of_database }" in (INFRA / "versions.tf").read_text(), "functions have it as a label"
    another = OURS.replace("dev-sweep", "dev-payments-sweep")
    assert "functions of another deployment with the same names: dev-payments-sweep" in refusal(
        Script(**{FUNCTIONS: another}), place
    )


@pytest.mark.parametrize("environment", ["dev.", ".payments", "dev.a.b", "dev.Payments", "dev.../x"])
def test_a_name_that_is_no_environments_is_refused(environment: str) -> None:
    """`dev.` would have the names and settings of dev, and another state: a plan would create all of it again."""
    with pytest.raises(CommandFailed, match=r"names no environment: write dev, or dev\.payments"):
        deployment_target.read(PROJECT, environment)


def of_a_database(folder: Path, settings: dict[str, Any], own: dict[str, Any]) -> deployment_target.Target:
    project(folder)
    for name, content in (("dev", settings), ("dev.payments", own)):
        file = folder / "environments" / f"{name}.tfvars.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    return deployment_target.read(PROJECT, "dev.payments", root=folder)


def test_an_existing_database_is_not_replaced_for_another_key() -> None:
    there = ELSEWHERE.replace("eur3", "us-central1")
    said = refusal(Script(**{"gcloud firestore databases list": there}), with_settings(cmek_key="projects/p/key"))
    assert "is encrypted with a key of Google, not with projects/p/key" in said
    assert "Remove cmek_key" in said


def test_an_earlier_deployment_of_the_kit_and_unreadable_billing_do_not_stop_a_deployment() -> None:
    script = Script(**{FUNCTIONS: OURS, f"gcloud billing projects describe {PROJECT}": None})
    assert prerequisites.missing(DEV, project_facts.gather(DEV, script)) == []


def test_a_forgotten_region_is_not_answered_with_a_setting_that_would_move_the_deployment() -> None:
    there = json.dumps([{"name": f"projects/{PROJECT}/databases/signalbox-dev", "locationId": "europe-west1"}])
    said = refusal(Script(**{FUNCTIONS: IN_EUROPE, "gcloud firestore databases list": there}))
    assert "database_location" not in said
    assert "REGION=europe-west1" in said


def test_another_environments_functions_in_another_region_do_not_matter() -> None:
    found = project_facts.gather(
        DEV, Script(**{FUNCTIONS: ANOTHER_ENVIRONMENTS.replace("us-central1", "europe-west1")})
    )
    assert prerequisites.missing(DEV, found) == []


def test_an_api_that_nothing_uses_is_not_enabled() -> None:
    found = project_facts.gather(DEV, Script()).needed_apis
    assert found & {"compute.googleapis.com", "secretmanager.googleapis.com"} == set()
    assert "cloudtasks.googleapis.com" in found
    with_domain = project_facts.gather(with_settings(domain="api.example.com"), Script()).needed_apis
    assert with_domain - found == {"compute.googleapis.com"}


def test_apis_of_events_and_secrets_follow_from_the_functions(tmp_path: Path) -> None:
    def needed(entry: str) -> frozenset[str]:
        (tmp_path / "signalbox.yaml").write_text(f"functions: {{orders: {entry}}}\n")
        return project_facts.gather(deployment_target.read(PROJECT, "dev", root=tmp_path), Script()).needed_apis

    main = tmp_path / "functions" / "orders" / "main.py"
    main.parent.mkdir(parents=True)
    main.write_text('from signalbox import Function\napp = Function("orders")\norders = app.entry_point()\n')
    plain = needed("{}")
    assert plain.isdisjoint(project_facts.EVENTS_APIS)
    assert needed("{secrets: {KEY: key}}") - plain == {"secretmanager.googleapis.com"}
    assert needed("{invoked_by: [event], enqueues: [], tasks: []}") - plain == project_facts.EVENTS_APIS


def test_more_apis_than_one_command_enables_are_enabled_by_two() -> None:
    found = project_facts.gather(with_settings(domain="api.example.com"), Script(**{SERVICES: ""}))
    commands = [each.remedy.split() for each in prerequisites.missing(DEV, found) if each.offer == prerequisites.ENABLE]
    enabled = [{*command[3:-1]} for command in commands]
    assert all(len(each) <= prerequisites.APIS_AT_ONCE for each in enabled)
    assert {*prerequisites.NEEDED_FIRST} <= enabled[0]
    assert set[str]().union(*enabled) == found.needed_apis


def test_a_project_whose_apis_are_off_gets_no_call_to_them() -> None:
    script = Script(**{SERVICES: "\n".join(prerequisites.NEEDED_FIRST)})
    found = prerequisites.missing(DEV, project_facts.gather(DEV, script))
    assert {each.offer for each in found} == {prerequisites.ENABLE_LATER}
    assert script.count("gcloud functions") + script.count("gcloud firestore") == 0


def test_the_required_terraform_is_the_one_that_the_files_demand() -> None:
    oldest = ".".join(map(str, prerequisites.TERRAFORM_MIN))
    assert f'required_version = ">= {oldest}"' in (INFRA / "versions.tf").read_text()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"prefix": }', "Expecting value: line 1 column 12"),
        ('["dev"]', 'must be a JSON object such as {"environment": "dev"}'),
        ('{"region": 7}', "environments/dev.tfvars.json: region is 7; write a text in quotes"),
    ],
)
def test_a_file_that_terraform_could_not_read_is_refused_before_anything_else(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "signalbox.yaml").touch()
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "dev.tfvars.json").write_text(text)
    with pytest.raises(CommandFailed, match=re.escape(complaint)):
        deployment_target.read(PROJECT, "dev", root=tmp_path)


def test_a_flag_in_quotes_is_refused_with_what_to_write() -> None:
    with pytest.raises(CommandFailed, match='create_database is "false"; write true or false'):
        refusal(Script(), with_settings(create_database="false"))


ENVIRONMENTS = sorted(path.name.partition(".")[0] for path in (INFRA / "environments").iterdir())


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_that_comes_with_the_kit_fits(environment: str) -> None:
    place = deployment_target.read(PROJECT, environment)
    assert place.setting("environment", "") == environment
    assert prerequisites.missing(place, project_facts.gather(place, Script())) == []
