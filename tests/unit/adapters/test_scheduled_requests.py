"""Functions that people and schedules call: the scheduler's headers are believed with the scheduler's token only."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from signalbox.adapters import settings as adapters_settings
from signalbox.adapters.http import caller_auth
from signalbox.adapters.http.caller_auth import FetchedKeys, IdentityTokens, PublicKeys
from signalbox.testing import Harness
from signalbox_infra.local.cloud_tasks.identity import Identity, new_private_key

GOOGLE, STRANGER = Identity(new_private_key()), Identity(new_private_key())
SCHEDULER, ANN = "scheduler@p.example", "ann@p.example"
SCHEDULED = {"X-CloudScheduler-JobName": "weekly", "X-CloudScheduler-ScheduleTime": "2026-01-05T00:00:00Z"}
CALL = {"function": "quilt", "task": "paint", "payload": {}}
FUNCTIONS = ("tasks", "verifications", "standings")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    keys = PublicKeys("", lambda _: FetchedKeys(GOOGLE.certs()))
    monkeypatch.setattr(caller_auth, "_tokens", lambda: IdentityTokens(keys, signatures_removed=False))
    with Harness() as harness:
        changed = replace(
            adapters_settings.settings(), scheduler_account=SCHEDULER, function_url="https://{function}.example"
        )
        adapters_settings.bind(changed)
        yield harness


def bearer(account: str, function: str, identity: Identity = GOOGLE) -> dict[str, str]:
    return {"Authorization": f"Bearer {identity.token(account, f'https://{function}.example', time.time())}"}


def client_of(harness: Harness, function: str) -> FlaskClient:
    return harness.functions.app(function).test_client()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_another_caller_with_the_schedulers_headers_is_refused_and_nothing_happens(
    harness: Harness, function: str
) -> None:
    client = client_of(harness, function)
    for token, status in [
        ({}, 401),
        (bearer(ANN, function), 403),
        (bearer(SCHEDULER, "another"), 401),
        (bearer(SCHEDULER, function, STRANGER), 401),
    ]:
        assert client.post("/", json=CALL, headers=SCHEDULED | token).status_code == status
    assert harness.tasks == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_scheduler_and_people_are_answered(harness: Harness, function: str) -> None:
    client = client_of(harness, function)
    assert client.post("/", json=CALL, headers=SCHEDULED | bearer(SCHEDULER, function)).status_code == 202
    assert client.post("/", json=CALL, headers=bearer(ANN, function)).status_code == 202


def test_no_id_of_a_caller_takes_the_place_of_a_schedules_time(harness: Harness) -> None:
    client, scheduler = client_of(harness, "tasks"), bearer(SCHEDULER, "tasks")
    for id_ in ("weekly 2026-01-05T00:00:00Z", "schedule weekly 2026-01-05T00:00:00Z"):
        client.post("/", json=CALL | {"id": id_, "payload": {"forged": True}})
        client.post("/", json=CALL | {"payload": {"forged": True}}, headers={"Idempotency-Key": id_})
    before = len(harness.tasks)
    for _ in range(2):
        assert client.post("/", json=CALL, headers=SCHEDULED | scheduler).status_code == 202
    assert [task.payload for task in harness.tasks[before:]] == [{}]


def test_no_key_of_a_caller_takes_the_place_of_the_nightly_verification(harness: Harness) -> None:
    client = client_of(harness, "verifications")
    forged = client.post("/", headers={"Idempotency-Key": "schedule weekly 2026-01-05T00:00:00Z"}).json
    harness.run()
    scheduled = client.post("/", headers=SCHEDULED | bearer(SCHEDULER, "verifications")).json
    assert forged is not None
    assert scheduled is not None
    assert forged["run"] != scheduled["run"]
