"""The events that a deployment's triggers gave up, which a Pub/Sub subscription keeps for 30 days.

A message there is the event as it was in the trigger's own topic: its attributes in `ce-…`, its content as the data,
and Pub/Sub's attributes about its origin. To deliver it again, the same message is published in that topic. Its
function then receives it, and Eventarc retries it, as before. Functions handle events at least once, so if the command
is killed after it published an event and before it acknowledged it, the event is only delivered once more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from signalbox.catalogue.reading import url_segment
from signalbox_infra.deploy import dead_letters
from signalbox_infra.deploy.commands import CommandFailed, Run, run
from signalbox_infra.deploy.target import Target
from signalbox_infra.status.cloud import Fetch, fetch

ADDED = "CloudPubSubDeadLetterSource"
"""How the attributes begin that Pub/Sub adds to a dead letter."""

PULLED_MAX = 100
PULLS_MAX = 1_000
"""Pulls of one command: Pub/Sub may answer with fewer messages than there are, and an event may come back."""


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """A message of the subscription; `function` is the catalogue's name, or the source subscription if none fits."""

    ack_id: str
    function: str
    known: bool
    document: str
    time: str
    deliveries: str
    data: str
    attributes: Mapping[str, str]


class DeadEvents:
    """Lists and replays them as gcloud's user. Methods raise `CommandFailed` or `OSError`."""

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
            for function in sorted({each.function for each in pulled}):
                events = [each for each in pulled if each.function == function]
                if not events[0].known:
                    kept[function] = kept.get(function, 0) + len(events)
                    continue
                messages = [{"data": each.data, "attributes": dict(each.attributes)} for each in events]
                self._call(dead_letters.topic_of(self.target, function, self._run), "publish", messages=messages)
                self._call(self._subscription, "acknowledge", ackIds=_ids(events))
                delivered[function] = delivered.get(function, 0) + len(events)
        if not delivered and not kept:
            yield "There are no events to deliver again."
        yield from (f"{count} events are delivered to {function} again." for function, count in delivered.items())
        yield from (f"{count} events stay: no function has a trigger named {name}." for name, count in kept.items())

    def _pulled(self) -> Iterator[list[DeadEvent]]:
        """Pull events until no new ones arrive; each is reserved for this process until its deadline."""
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
        function = self._function(source)
        return DeadEvent(
            received["ackId"],
            function or source,
            bool(function),
            attributes.get("ce-document", ""),
            attributes.get("ce-time", ""),
            attributes.get(f"{ADDED}DeliveryCount", "?"),
            message.get("data", ""),
            {name: value for name, value in attributes.items() if not name.startswith(ADDED)},
        )

    def _function(self, subscription: str) -> str:
        """Return the function whose trigger a subscription belongs to, or an empty text."""
        location = re.escape(self.target.database_location)
        named = re.fullmatch(rf"eventarc-{location}-(.+)-\d+-sub-\d+", subscription.rpartition("/")[2])
        return "" if named is None else self._by_trigger.get(named[1], "")

    @cached_property
    def _by_trigger(self) -> Mapping[str, str]:
        triggers = self.target.catalogue.triggers.values()
        return {f"{self.target.begin}{url_segment(each.function)}": each.function for each in triggers}

    @property
    def _subscription(self) -> str:
        return f"projects/{self.target.project}/subscriptions/{self.target.begin}signalbox-dead-events"

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
