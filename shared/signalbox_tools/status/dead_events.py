"""Events that a deployment's triggers gave up. A Pub/Sub subscription keeps them for 30 days.

A message there is the event as it was in the topic of the trigger: it has the event's attributes in `ce-…`, the event's
content as its data, and Pub/Sub's attributes about its origin. To deliver it again, the same message is published in
that topic. Its function then receives it, and Eventarc retries it, as before. Functions handle events at least once, so
if the command is killed after it published an event and before it acknowledged it, the event is only delivered once
more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from signalbox.catalogue.reading import Trigger
from signalbox_tools.deploy import dead_letter_subscriptions
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run, run
from signalbox_tools.status.cloud_status import Fetch, fetch

ADDED = "CloudPubSubDeadLetterSource"
"""The prefix of attributes that Pub/Sub adds to a dead letter."""

PULLED_MAX = 100
PULLS_MAX = 1_000
"""Pulls of one command: Pub/Sub may answer with fewer messages than there are, and an event may come back."""


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """A dead event. `function` is a name in the catalogue, or the source subscription if no name fits."""

    ack_id: str
    function: str
    trigger: Trigger | None
    document: str
    time: str
    deliveries: str
    data: str
    attributes: Mapping[str, str]

    @property
    def source(self) -> tuple[str, str]:
        """The function and the name of its trigger, which is empty if there is none."""
        return self.function, self.trigger.name if self.trigger else ""


class DeadEvents:
    """Lists and replays dead events as gcloud's user. Methods raise `CommandFailed` or `OSError`."""

    def __init__(self, target: Target, run: Run = run, fetch: Fetch = fetch) -> None:
        self.target = target
        self._run = run
        self._fetch = fetch

    def listed(self, at_most: int) -> list[DeadEvent]:
        """Return events, and keep them in the subscription."""
        found: list[DeadEvent] = []
        for pulled in self._pulled():
            found += pulled
            if len(found) >= at_most:
                break
        self._call(self._subscription, "modifyAckDeadline", ackIds=_ids(found), ackDeadlineSeconds=0)
        return found[:at_most]

    def replay(self) -> Iterator[str]:
        """Deliver all events again, and iterate over a line for each function."""
        delivered: dict[str, int] = {}
        kept: dict[str, int] = {}
        for pulled in self._pulled():
            for source in sorted({each.source for each in pulled}):
                events = [each for each in pulled if each.source == source]
                function, trigger = events[0].function, events[0].trigger
                if trigger is None:
                    kept[function] = kept.get(function, 0) + len(events)
                    continue
                messages = [{"data": each.data, "attributes": dict(each.attributes)} for each in events]
                self._call(
                    dead_letter_subscriptions.topic_of(self.target, trigger, self._run), "publish", messages=messages
                )
                self._call(self._subscription, "acknowledge", ackIds=_ids(events))
                delivered[function] = delivered.get(function, 0) + len(events)
        if not delivered and not kept:
            yield "There are no events to deliver again."
        yield from (f"{count} events are delivered to {function} again." for function, count in delivered.items())
        yield from (f"{count} events stay: no function has a trigger named {name}." for name, count in kept.items())

    def _pulled(self) -> Iterator[list[DeadEvent]]:
        """Pull events until no new events arrive. A pulled event is reserved for this process until its deadline."""
        seen: set[str] = set()
        for _ in range(PULLS_MAX):
            answered = self._call(self._subscription, "pull", maxMessages=PULLED_MAX)
            received = answered.get("receivedMessages", [])
            fresh = [each for each in received if each["message"]["messageId"] not in seen]
            if not fresh:
                return
            seen |= {each["message"]["messageId"] for each in fresh}
            yield [self._event(each) for each in fresh]

    def _event(self, received: Mapping[str, Any]) -> DeadEvent:
        message = received["message"]
        attributes: Mapping[str, str] = message.get("attributes", {})
        source = attributes.get(f"{ADDED}Subscription", "")
        trigger = self._trigger(source)
        return DeadEvent(
            received["ackId"],
            trigger.function if trigger else source,
            trigger,
            attributes.get("ce-document", ""),
            attributes.get("ce-time", ""),
            attributes.get(f"{ADDED}DeliveryCount", "?"),
            message.get("data", ""),
            {name: value for name, value in attributes.items() if not name.startswith(ADDED)},
        )

    def _trigger(self, subscription: str) -> Trigger | None:
        """Return the trigger that a subscription belongs to, or None if the catalogue no longer has the trigger."""
        location = re.escape(self.target.database_location)
        named = re.fullmatch(rf"eventarc-{location}-(.+)-sub-\d+", subscription.rpartition("/")[2])
        return next((each for each in self._triggers if named and self._is_of(each, named[1])), None)

    def _is_of(self, trigger: Trigger, name: str) -> bool:
        """Return whether this is the name of a trigger in the cloud."""
        number = r"" if trigger.handler else r"-\d+"
        return bool(re.fullmatch(re.escape(dead_letter_subscriptions.name_of(self.target, trigger)) + number, name))

    @cached_property
    def _triggers(self) -> Sequence[Trigger]:
        return tuple(self.target.catalogue.triggers.values())

    @property
    def _subscription(self) -> str:
        return f"projects/{self.target.project}/subscriptions/{self.target.name_prefix}signalbox-dead-events"

    @cached_property
    def _token(self) -> str:
        outcome = self._run(("gcloud", "auth", "print-access-token"), folder=self.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        return outcome.text.strip()

    def _call(self, resource: str, method: str, **body: Any) -> Any:
        if not body.get("ackIds", True):
            return {}
        return self._fetch(f"https://pubsub.googleapis.com/v1/{resource}:{method}", self._token, body)


def _ids(events: Sequence[DeadEvent]) -> list[str]:
    return [each.ack_id for each in events]
