"""Have the triggers keep the events that their functions could not handle, instead of dropping them after 24 hours.

Eventarc makes a Pub/Sub topic and a push subscription for each trigger, and Terraform's provider cannot set that
subscription's dead letters. So they are set after each apply: a recreated function has a new subscription.
Subscriptions that already have them are left alone.

Pub/Sub waits at most ten minutes between two deliveries, so `ATTEMPTS` of them take about 16 hours, and at most 32 if
each takes the function's nine minutes: `KEPT` is long enough that none is dropped before. It is shorter than the week
for which the records of deleted yokes stay (docs/protocols/standings.md, stand-3).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox.catalogue.reading import Trigger
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run

ATTEMPTS = 100
"""Deliveries of an event before it is a dead letter: the largest number that Pub/Sub takes."""

KEPT = "259200s"
SUBSCRIBER = "roles/pubsub.subscriber"
SUBSCRIPTION = re.compile(r"projects/[^/\s\"]+/subscriptions/[^/\s\"]+")


@dataclass(frozen=True, slots=True)
class Place:
    """The destination of dead letters, from Terraform's output: a topic, its subscription, and Pub/Sub's agent."""

    topic: str
    subscription: str
    agent: str


def place_of(output: Mapping[str, str] | None) -> Place | None:
    """Return the destination that Terraform's output names, or None if there are no triggers."""
    return Place(**output) if output else None


def ensure(target: Target, place: Place | None, run: Run, say: Callable[[str], None]) -> bool:
    """Set the dead letters of every trigger. Report each failure, and return whether there was none."""
    if place is None:
        return True
    failed = False
    for trigger in sorted(target.triggers, key=lambda each: name_of(target, each)):
        try:
            _ensure(target, trigger, place, run, say)
        except CommandFailed as error:
            failed = True
            say(
                f"The trigger of {name_of(target, trigger)} does not keep the events that are given up; Eventarc drops "
                f"them after 24 hours. Run signalbox deploy again.\n  {error}"
            )
    return not failed


def name_of(target: Target, trigger: Trigger) -> str:
    """Return the name of a trigger in the cloud.

    A trigger without a handler has the name of its function, to which Cloud Functions adds a number.
    """
    return f"{target.name_prefix}{trigger.name}" if trigger.handler else target.service(trigger.function)


def topic_of(target: Target, trigger: Trigger, run: Run) -> str:
    """Return the topic through which a trigger delivers. Raises `CommandFailed`, for instance if there is no topic."""
    name = name_of(target, trigger)
    if trigger.handler:
        where = (f"--location={target.database_location}", "--format=value(transport.pubsub.topic)")
        topic = _gcloud(target, run, "eventarc", "triggers", "describe", name, *where).strip()
    else:
        where = (f"--region={target.region}", "--format=value(eventTrigger.pubsubTopic)")
        topic = _gcloud(target, run, "functions", "describe", name, "--v2", *where).strip()
    if not topic:
        raise CommandFailed(f"{name} has no trigger with a Pub/Sub topic.")
    return topic


def _ensure(target: Target, trigger: Trigger, place: Place, run: Run, say: Callable[[str], None]) -> None:
    topic = topic_of(target, trigger, run)
    listed = _gcloud(target, run, "pubsub", "topics", "list-subscriptions", topic, "--format=json")
    for subscription in SUBSCRIPTION.findall(listed):
        found = json.loads(_gcloud(target, run, "pubsub", "subscriptions", "describe", subscription, "--format=json"))
        if _is_set(found, place):
            continue
        member = (f"--member={place.agent}", f"--role={SUBSCRIBER}")
        _gcloud(target, run, "pubsub", "subscriptions", "add-iam-policy-binding", subscription, *member)
        letters = (f"--dead-letter-topic={place.topic}", f"--max-delivery-attempts={ATTEMPTS}")
        kept = f"--message-retention-duration={KEPT}"
        _gcloud(target, run, "pubsub", "subscriptions", "update", subscription, *letters, kept)
        say(
            f"Events that {name_of(target, trigger)} does not handle in {ATTEMPTS} deliveries are kept: "
            "see `signalbox failures`."
        )


def _is_set(subscription: Mapping[str, Any], place: Place) -> bool:
    policy = subscription.get("deadLetterPolicy", {})
    there = policy.get("deadLetterTopic"), policy.get("maxDeliveryAttempts")
    return there == (place.topic, ATTEMPTS) and subscription.get("messageRetentionDuration") == KEPT


def _gcloud(target: Target, run: Run, *arguments: str) -> str:
    command: Sequence[str] = ("gcloud", *arguments, f"--project={target.project}", "--quiet")
    outcome = run(command, folder=target.root)
    if not outcome.ok:
        raise CommandFailed((outcome.error or outcome.text).strip() or " ".join(command))
    return outcome.text
