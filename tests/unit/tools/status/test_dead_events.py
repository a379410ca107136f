"""`signalbox failures`: what was given up is listed, and events are delivered again by their own triggers."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from signalbox_tools import http_client
from signalbox_tools.cli.main import cli
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.status import failures
from signalbox_tools.status.dead_events import ADDED, DeadEvents

TARGET = Target("demo-project", "dev", "us-central1", {"prefix": "dev", "database_location": "nam5"})
DEAD = "projects/demo-project/subscriptions/dev-signalbox-dead-events"
DATA = base64.b64encode(b"\x0a\xff\x00protobuf").decode()


def message(number: int, trigger: str = "dev-link-fan-out-123456") -> dict[str, Any]:
    attributes = {
        "ce-id": f"event-{number}",
        "ce-document": f"documents/d{number}",
        "ce-time": "2026-11-20T10:00:00Z",
        "content-type": "application/protobuf",
        f"{ADDED}Subscription": f"eventarc-nam5-{trigger}-sub-789",
        f"{ADDED}DeliveryCount": "100",
    }
    return {"messageId": str(number), "data": DATA, "attributes": attributes}


class PubSub:
    """A subscription: pulled messages are leased until they are acknowledged, or given back."""

    def __init__(self, *messages: Mapping[str, Any], at_once: int = 2) -> None:
        self.kept = {each["messageId"]: each for each in messages}
        self.leased: set[str] = set()
        self.published: list[tuple[str, Mapping[str, Any]]] = []
        self._at_once = at_once

    def __call__(self, url: str, token: str, body: Mapping[str, Any]) -> Any:
        assert token == "a-token"  # noqa: S105  not a secret
        resource, _, method = url.removeprefix("https://pubsub.googleapis.com/v1/").partition(":")
        if method == "publish":
            self.published += [(resource, each) for each in body["messages"]]
            return {"messageIds": []}
        assert resource == DEAD
        if method == "pull":
            free = [each for name, each in self.kept.items() if name not in self.leased][: self._at_once]
            self.leased |= {each["messageId"] for each in free}
            return {"receivedMessages": [{"ackId": each["messageId"], "message": each} for each in free]}
        self.leased -= set(body["ackIds"])
        if method == "acknowledge":
            self.kept = {name: each for name, each in self.kept.items() if name not in body["ackIds"]}
        else:
            assert (method, body["ackDeadlineSeconds"]) == ("modifyAckDeadline", 0)
        return {}


def gcloud(command: Sequence[str], **_: Any) -> Outcome:
    match command[1:3]:
        case ("auth", "print-access-token"):
            return Outcome(0, "a-token\n")
        case ("functions", "describe"):
            return Outcome(0, f"projects/demo-project/topics/eventarc-nam5-{command[3]}-654321-987\n")
        case ("eventarc", "triggers"):
            assert "--location=nam5" in command
            return Outcome(0, f"projects/demo-project/topics/eventarc-nam5-{command[4]}-987\n")
    raise AssertionError(command)


def events(pubsub: PubSub) -> DeadEvents:
    return DeadEvents(TARGET, gcloud, pubsub)


def test_events_are_listed_and_stay_for_a_replay() -> None:
    pubsub = PubSub(*map(message, range(3)))
    found = events(pubsub).listed(100)
    assert [(each.function, each.document, each.deliveries) for each in found] == [
        ("link_fan_out", f"documents/d{number}", "100") for number in range(3)
    ]
    assert (len(pubsub.kept), pubsub.leased) == (3, set())


def test_an_event_is_published_as_it_was_in_the_topic_of_its_functions_trigger_as_it_is_now() -> None:
    pubsub = PubSub(*map(message, range(5)))
    assert list(events(pubsub).replay()) == ["5 events are delivered to link_fan_out again."]
    assert pubsub.kept == {}
    topics, messages = zip(*pubsub.published, strict=True)
    assert set(topics) == {"projects/demo-project/topics/eventarc-nam5-dev-link-fan-out-654321-987"}
    assert messages[0]["data"] == DATA
    assert messages[0]["attributes"] == {
        "ce-id": "event-0",
        "ce-document": "documents/d0",
        "ce-time": "2026-11-20T10:00:00Z",
        "content-type": "application/protobuf",
    }


def test_an_event_of_a_handler_is_published_in_the_topic_of_its_own_trigger() -> None:
    pubsub = PubSub(message(0), message(1, trigger="dev-shop-ordered"))
    assert sorted(events(pubsub).replay()) == [
        "1 events are delivered to link_fan_out again.",
        "1 events are delivered to shop again.",
    ]
    assert "projects/demo-project/topics/eventarc-nam5-dev-shop-ordered-987" in {topic for topic, _ in pubsub.published}


def test_an_event_of_a_function_that_is_gone_stays() -> None:
    pubsub = PubSub(message(0), message(1, trigger="dev-removed-123456"))
    said = list(events(pubsub).replay())
    assert said[1] == "1 events stay: no function has a trigger named eventarc-nam5-dev-removed-123456-sub-789."
    assert list(pubsub.kept) == ["1"]
    assert len(pubsub.published) == 1


def test_an_event_is_not_acknowledged_before_it_is_published() -> None:
    pubsub = PubSub(message(0))

    def refused(command: Sequence[str], **options: Any) -> Outcome:
        return Outcome(1, error="no trigger") if command[1] == "functions" else gcloud(command, **options)

    with pytest.raises(CommandFailed, match="no trigger"):
        list(DeadEvents(TARGET, refused, pubsub).replay())
    assert list(pubsub.kept) == ["0"]


def test_the_list_names_tasks_and_events_and_what_to_do() -> None:
    failure = {
        "id": "t-1",
        "function": "quilt",
        "task": "sew",
        "failed_at": "2026-11-20T10:00:00Z",
        "detail": "no\nthread " * 30,
    }
    pages = {"failures": {"failures": [failure]}}
    lines = list(failures.lines_of(pages.__getitem__, events(PubSub(message(7)))))
    assert lines[0] == "Tasks and calls that were given up: 1"
    assert lines[1].startswith("  2026-11-20T10:00:00Z  t-1  quilt.sew  no thread no")
    assert lines[2].endswith(": signalbox failures retry t-1 -p demo-project -e dev")
    assert lines[3] == "or POST {base}failures/t-1/retry"
    assert lines[4:6] == [
        "Events that were given up: 1",
        "  2026-11-20T10:00:00Z  link_fan_out  documents/d7  after 100 deliveries",
    ]
    assert lines[6].endswith("signalbox failures -p demo-project -e dev --replay")
    assert list(failures.lines_of(pages.__getitem__, None))[2].endswith(": signalbox failures retry t-1")
    assert list(failures.lines_of(lambda _: {"failures": []}, None)) == ["Tasks and calls that were given up: 0"]


def test_the_local_stack_has_no_events_to_deliver_again() -> None:
    ended = CliRunner().invoke(cli, ["failures", "--replay"])
    assert ended.exit_code == 2
    assert "Name a project" in ended.output


def test_the_client_for_this_machine_takes_no_address_of_another() -> None:
    """It verifies no certificate, so a token sent with it could be read by any server."""
    with pytest.raises(ValueError, match="not an address of this machine"):
        http_client.send("POST", "https://firestore.googleapis.com/v1/x", timeout_seconds=1)
