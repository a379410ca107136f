"""What comes after what: agreement before a change, a second try for one error only, and a guard before destruction."""

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.deploy import flow, smoke, target
from infra.deploy.commands import CommandFailed, Outcome
from infra.deploy.flow import EVENTARC_LAG, EVENTARC_PAUSE_SECONDS, Aborted, Flow, confirmation
from infra.deploy.plans import Plan, read
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.script import Script
from tests.infra.workspace import INFRA

DONE = Outcome(0, "Apply complete!")
LAG = Outcome(1, f"Error: {EVENTARC_LAG}. If you recently started to use Eventarc, it may take a few minutes")
OTHER = Outcome(1, "Error: quota exceeded")
EXISTS = Outcome(1, "googleapi: Error 409: Database already exists. Please use another database_id")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> target.Target:
    """The project's own infrastructure, Terraform's files elsewhere, nothing to package, a smoke test that passes."""
    (tmp_path / "infra").symlink_to(INFRA)
    monkeypatch.setattr(flow, "build", lambda *_: [])
    monkeypatch.setattr(smoke, "passes", lambda *_: True)
    return target.read(PROJECT, "dev", root=tmp_path)


@pytest.fixture
def deploy(place: target.Target) -> Callable[..., tuple[list[str], list[float]]]:
    """Deploy with a script; return the output and the pauses."""

    def act(script: Script, answer: str = "y") -> tuple[list[str], list[float]]:
        said, pauses = list[str](), list[float]()
        deployed = Flow(place, said.append, lambda _: answer, script, pauses.append, base_url="http://x/").deploy()
        assert deployed
        return said, pauses

    return act


def test_eventarcs_late_rights_are_worth_one_more_try(deploy: Callable[..., tuple[list[str], list[float]]]) -> None:
    script = Script(**{"terraform apply": [LAG, DONE]})
    _, pauses = deploy(script)
    assert pauses == [EVENTARC_PAUSE_SECONDS]
    assert (script.count("terraform plan"), script.count("terraform apply")) == (2, 2)


@pytest.mark.parametrize(
    ("outcomes", "tries", "hint"),
    [
        ([LAG, LAG], 2, "run the command again"),
        ([OTHER], 1, "run the command again"),
        ([EXISTS], 1, "create_database = false"),
    ],
)
def test_a_second_lag_and_any_other_error_end_it(
    deploy: Callable[..., tuple[list[str], list[float]]], outcomes: list[Outcome], tries: int, hint: str
) -> None:
    script = Script(**{"terraform apply": list(outcomes)})
    with pytest.raises(CommandFailed, match=f"terraform apply failed.*{hint}"):
        deploy(script)
    assert script.count("terraform apply") == tries


@pytest.mark.parametrize("answer", ["", "n", "no", "sure"])
def test_nothing_is_applied_without_confirmation(
    deploy: Callable[..., tuple[list[str], list[float]]], answer: str
) -> None:
    script = Script()
    with pytest.raises(Aborted, match="not confirmed"):
        deploy(script, answer)
    assert script.count("terraform apply") == 0


def test_a_plan_is_applied_only_if_one_was_kept(place: target.Target) -> None:
    script = Script()
    with pytest.raises(Aborted, match="no saved plan to apply"):
        Flow(place, lambda _: None, lambda _: "y", script).deploy(planned=True)
    assert script.count("terraform apply") == 0


def test_a_kept_plan_is_applied_without_another_and_without_a_question(place: target.Target) -> None:
    script = Script(**{"terraform apply": [LAG, DONE]})
    steps = Flow(place, lambda _: None, lambda _: "", script, lambda _: None, base_url="http://x/")
    steps.plan()
    assert steps.deploy(planned=True)
    assert (script.count("terraform plan"), script.count("terraform apply")) == (2, 2)


@pytest.mark.parametrize(("environment", "words"), [("dev", "dev"), ("prod", f"prod {PROJECT}")])
def test_prod_is_destroyed_for_two_words_only(environment: str, words: str) -> None:
    assert confirmation(target.read(PROJECT, environment)) == words


@pytest.mark.parametrize("typed", ["", "yes", "prod"])
def test_nothing_is_destroyed_without_its_words(typed: str) -> None:
    script = Script()
    with pytest.raises(Aborted, match=f"type 'prod {PROJECT}'"):
        Flow(target.read(PROJECT, "prod"), lambda _: None, lambda _: typed, script).destroy()
    assert script.asked == []


@pytest.mark.parametrize("goal", ["smoke", "plan", "kept plan"])
def test_without_a_login_terraform_is_not_started_and_the_command_is_named(place: target.Target, goal: str) -> None:
    script = Script(**{"gcloud auth list": None, "gcloud auth application-default": None})
    steps = Flow(place, lambda _: None, lambda _: "y", script)
    commands: dict[str, Callable[[], object]] = {
        "smoke": steps.smoke,
        "plan": steps.plan,
        "kept plan": lambda: steps.deploy(planned=True),
    }
    with pytest.raises(Aborted, match="gcloud auth login"):
        commands[goal]()
    assert script.count("terraform init") == 0


def test_a_smoke_test_of_nothing_fails_with_that_reason(place: target.Target) -> None:
    with pytest.raises(Aborted, match="Nothing is deployed as dev"):
        Flow(place, lambda _: None, lambda _: "", Script(**{"terraform output": "{}"})).smoke()


def test_a_project_prepared_from_another_machine_is_left_alone(place: target.Target) -> None:
    script, said = Script(), list[str]()
    Flow(place, said.append, lambda _: "y", script).bootstrap()
    assert said == [f"{PROJECT} is already bootstrapped from another machine: {PROJECT}-signalbox-state exists."]
    assert script.count("terraform init") == 0


def test_a_plan_names_what_cannot_be_undone_and_what_is_public() -> None:
    actions = {
        "a.new": ["create"],
        "a.same": ["no-op"],
        "a.moved": ["update"],
        "a.swapped": ["create", "delete"],
        "a.gone": ["delete"],
    }
    document = {
        "resource_changes": [{"address": name, "change": {"actions": each}} for name, each in actions.items()],
        "output_changes": {"x": {"actions": ["no-op"]}},
        "checks": [{"status": "fail", "instances": [{"problems": [{"message": "Anybody may call documents."}]}]}],
    }
    assert str(read(document)).splitlines() == [
        "Warning: Anybody may call documents.",
        "Plan: 1 to create, 1 to change, 1 to replace, 1 to destroy.",
        "  changes   a.moved",
        "  REPLACES  a.swapped",
        "  DESTROYS  a.gone",
    ]
    assert (str(Plan()), Plan(outputs_change=True).empty) == ("No changes.", False)
