"""Events that a function cannot handle are kept: after each apply, each trigger's subscription has dead letters."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from signalbox_tools.deploy import dead_letter_subscriptions, deployment_target
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.programs import Outcome
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import Workspace

DEV = deployment_target.read(PROJECT, "dev")
DEV = replace(DEV, settings={**(DEV.settings or {}), "examples": True})
PLACE = dead_letter_subscriptions.Place(
    f"projects/{PROJECT}/topics/dev-signalbox-dead-events",
    f"projects/{PROJECT}/subscriptions/dev-signalbox-dead-events",
    "serviceAccount:service-1@gcp-sa-pubsub.iam.gserviceaccount.com",
)
TRIGGERED = sorted(dead_letter_subscriptions.name_of(DEV, each) for each in DEV.catalogue.triggers.values())
HANDLED = "dev-shop-ordered"
"""A trigger of a handler, which Terraform names; Cloud Functions names its own, with a number."""


class PubSub:
    """The triggers of a project as `gcloud` shows and changes them: a subscription each, which Eventarc numbers."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.granted: list[tuple[str, str, str]] = []
        self.updates = 0
        self.refusing: set[str] = set()
        for function in TRIGGERED:
            self.recreate(function)

    def recreate(self, function: str) -> None:
        """Make a function again: its trigger gets another subscription."""
        self.subscriptions = {name: each for name, each in self.subscriptions.items() if f"-{function}-" not in name}
        number = 100 + len(self.granted)
        numbered = function if function == HANDLED else f"{function}-123456"
        name = f"projects/{PROJECT}/subscriptions/eventarc-us-central1-{numbered}-sub-{number}"
        self.subscriptions[name] = {"messageRetentionDuration": "86400s"}

    def __call__(self, command: Sequence[str], **_: Any) -> Outcome:
        program, *words = command
        options = dict(each.removeprefix("--").split("=", 1) for each in words if each.startswith("--") and "=" in each)
        plain = [each for each in words if not each.startswith("--")]
        assert (program, options["project"]) == ("gcloud", PROJECT)
        match plain:
            case ["functions", "describe", function]:
                if function in self.refusing:
                    return Outcome(1, error="ERROR: (gcloud.functions.describe) refused")
                return Outcome(0, f"projects/{PROJECT}/topics/eventarc-us-central1-{function}-123456-7\n")
            case ["eventarc", "triggers", "describe", trigger]:
                assert (trigger, options["location"]) == (HANDLED, "us-central1")
                return Outcome(0, f"projects/{PROJECT}/topics/eventarc-us-central1-{trigger}-7\n")
            case ["pubsub", "topics", "list-subscriptions", topic]:
                trigger = topic.removeprefix(f"projects/{PROJECT}/topics/eventarc-us-central1-").rsplit("-", 1)[0]
                return Outcome(0, json.dumps([name for name in self.subscriptions if f"-{trigger}-sub-" in name]))
            case ["pubsub", "subscriptions", "describe", name]:
                return Outcome(0, json.dumps(self.subscriptions[name]))
            case ["pubsub", "subscriptions", "add-iam-policy-binding", name]:
                self.granted.append((name, options["member"], options["role"]))
                return Outcome(0)
            case ["pubsub", "subscriptions", "update", name]:
                self.updates += 1
                policy = {
                    "deadLetterTopic": options["dead-letter-topic"],
                    "maxDeliveryAttempts": int(options["max-delivery-attempts"]),
                }
                kept = options["message-retention-duration"]
                self.subscriptions[name] = {"deadLetterPolicy": policy, "messageRetentionDuration": kept}
                return Outcome(0)
        raise AssertionError(command)


def ensured(gcloud: PubSub) -> tuple[bool, list[str]]:
    said = list[str]()
    return dead_letter_subscriptions.ensure(DEV, PLACE, gcloud, said.append), said


def test_every_trigger_keeps_what_it_gives_up_and_pubsub_may_take_it_from_there() -> None:
    gcloud = PubSub()
    assert ensured(gcloud)[0]
    policy = {"deadLetterTopic": PLACE.topic, "maxDeliveryAttempts": 100}
    assert list(gcloud.subscriptions.values()) == [
        {"deadLetterPolicy": policy, "messageRetentionDuration": "259200s"}
    ] * len(TRIGGERED)
    assert {each[1:] for each in gcloud.granted} == {(PLACE.agent, "roles/pubsub.subscriber")}
    assert {each[0] for each in gcloud.granted} == set(gcloud.subscriptions)


def test_what_is_set_already_is_left_alone_and_a_recreated_function_is_set_again() -> None:
    gcloud = PubSub()
    ensured(gcloud)
    assert ensured(gcloud) == (True, [])
    assert gcloud.updates == len(TRIGGERED)
    assert HANDLED in TRIGGERED
    gcloud.recreate(TRIGGERED[0])
    assert len(ensured(gcloud)[1]) == 1
    assert gcloud.updates == len(TRIGGERED) + 1


def test_a_trigger_that_cannot_be_set_is_reported_and_the_others_are_set() -> None:
    gcloud = PubSub()
    gcloud.refusing = {TRIGGERED[0]}
    worked, said = ensured(gcloud)
    assert not worked
    assert said[0].startswith(f"The trigger of {TRIGGERED[0]} does not keep the events that are given up")
    assert "refused" in said[0]
    assert gcloud.updates == len(TRIGGERED) - 1


def test_triggers_of_examples_that_are_not_deployed_are_left_out() -> None:
    prod = deployment_target.read(PROJECT, "prod")
    assert {each.function for each in prod.triggers} == {"link_fan_out", "standing_count"}
    assert {each.function for each in DEV.triggers} == {"link_fan_out", "standing_count", "shop"}


def test_without_triggers_nothing_is_asked() -> None:
    said = list[str]()
    assert dead_letter_subscriptions.ensure(
        DEV, dead_letter_subscriptions.place_of(None), Script().without("gcloud"), said.append
    )
    assert said == []


@pytest.mark.parametrize("applied", [True, False])
def test_a_deployment_sets_them_also_if_the_plan_is_empty(place: deployment_target.Target, applied: bool) -> None:
    output = {"dead_letters": {"value": {"topic": PLACE.topic, "subscription": "s", "agent": PLACE.agent}}}
    shown = {} if applied else {"terraform show": '{"resource_changes": []}'}
    script = Script(**{"terraform output": output}, **shown)
    flow = Deployment(
        place, lambda _: None, lambda question: "y" if "[y/N]" in question else "", script, base_url="http://x/"
    )
    assert flow.deploy()
    assert script.count("terraform apply") == applied
    assert script.count("gcloud pubsub subscriptions update") == len(TRIGGERED)


def test_a_deployment_whose_events_would_be_lost_does_not_end_well(place: deployment_target.Target) -> None:
    output = {"dead_letters": {"value": {"topic": PLACE.topic, "subscription": "s", "agent": PLACE.agent}}}
    script = Script(**{"terraform output": output, "gcloud pubsub subscriptions update": None})
    said = list[str]()
    flow = Deployment(
        place, said.append, lambda question: "y" if "[y/N]" in question else "", script, base_url="http://x/"
    )
    assert not flow.deploy()
    assert any("Run signalbox deploy again" in each for each in said)


@pytest.mark.slow
def test_terraform_says_where_they_go_and_keeps_them_for_a_month(deployed: Workspace, google: GoogleProvider) -> None:
    place = dead_letter_subscriptions.place_of(deployed.outputs()["dead_letters"])
    assert place is not None
    assert place.topic == f"projects/{PROJECT}/topics/signalbox-dead-events"
    made = deployed.resources()
    kept = made['google_pubsub_subscription.dead_letters["events"]'].values
    assert f"projects/{PROJECT}/subscriptions/{kept['name']}" == place.subscription
    assert (kept["topic"], kept["message_retention_duration"]) == (place.topic, "2592000s")
    assert kept["expiration_policy"] == [{"ttl": ""}]
    assert made['google_pubsub_topic_iam_member.dead_letters["events"]'].values["member"] == place.agent
