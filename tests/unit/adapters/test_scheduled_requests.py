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
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key

GOOGLE, STRANGER = Identity(new_private_key()), Identity(new_private_key())
SCHEDULER, ANN = "scheduler@p.example", "ann@p.example"
SCHEDULED = {"X-CloudScheduler-JobName": "weekly", "X-CloudScheduler-ScheduleTime": "2026-01-05T00:00:00Z"}
CALL = {"function": "quilt", "task": "paint", "payload": {"row": 0, "column": 0}}
FORGED = {"payload": {"row": 6, "column": 6}}
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


def forged(function: str) -> list[dict[str, str]]:
    """Return tokens with which the scheduler's headers are not believed."""
    return [{}, bearer(ANN, function), bearer(SCHEDULER, "another"), bearer(SCHEDULER, function, STRANGER)]


def test_another_callers_headers_claim_no_time_of_a_schedule(harness: Harness) -> None:
    client = client_of(harness, "tasks")
    for token in forged("tasks"):
        client.post("/", json=CALL | FORGED, headers=SCHEDULED | token)
    before = len(harness.tasks)
    assert before == len(forged("tasks")), "each is a call of its own, as without these headers"
    for _ in range(2):
        client.post("/", json=CALL, headers=SCHEDULED | bearer(SCHEDULER, "tasks"))
    assert [task.payload for task in harness.tasks[before:]] == [CALL["payload"]]


def test_another_callers_headers_are_not_the_nightly_verification(harness: Harness) -> None:
    client = client_of(harness, "verifications")
    runs = []
    for token in [*forged("verifications"), *[bearer(SCHEDULER, "verifications")] * 2]:
        runs.append((client.post("/", headers=SCHEDULED | token).json or {})["run"])
        harness.run()
    assert len(set(runs)) == len(runs) - 1
    assert runs[-1] == runs[-2]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_scheduler_and_people_are_answered(harness: Harness, function: str) -> None:
    client = client_of(harness, function)
    assert client.post("/", json=CALL, headers=SCHEDULED | bearer(SCHEDULER, function)).status_code == 202
    assert client.post("/", json=CALL, headers=bearer(ANN, function)).status_code == 202


def test_no_id_of_a_caller_takes_the_place_of_a_schedules_time(harness: Harness) -> None:
    client, scheduler = client_of(harness, "tasks"), bearer(SCHEDULER, "tasks")
    for id_ in ("weekly 2026-01-05T00:00:00Z", "schedule weekly 2026-01-05T00:00:00Z"):
        client.post("/", json=CALL | FORGED | {"id": id_})
        client.post("/", json=CALL | FORGED, headers={"Idempotency-Key": id_})
    before = len(harness.tasks)
    for _ in range(2):
        assert client.post("/", json=CALL, headers=SCHEDULED | scheduler).status_code == 202
    assert [task.payload for task in harness.tasks[before:]] == [CALL["payload"]]


def test_no_key_of_a_caller_takes_the_place_of_the_nightly_verification(harness: Harness) -> None:
    client = client_of(harness, "verifications")
    forged = client.post("/", headers={"Idempotency-Key": "schedule weekly 2026-01-05T00:00:00Z"}).json
    harness.run()
    scheduled = client.post("/", headers=SCHEDULED | bearer(SCHEDULER, "verifications")).json
    assert forged is not None
    assert scheduled is not None
    assert forged["run"] != scheduled["run"]
