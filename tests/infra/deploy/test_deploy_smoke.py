"""The smoke test names each step that fails, and deletes everything it created."""

import dataclasses
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbox.catalogue.reading import Semaphore, load
from signalbox_tools import http_client
from signalbox_tools.deploy import declared_limits, deployment_client, deployment_target, smoke
from signalbox_tools.deploy.deployment_client import SmokeTestFailed, poll, tokens
from signalbox_tools.deploy.programs import CommandFailed, Outcome
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy.deployment_in_memory import Deployment
from tests.infra.deploy.gcloud import ACCOUNT, PROJECT, REGION
from tests.infra.deploy.scripted_programs import Script

DEV = deployment_target.read(PROJECT, "dev")
DESCRIBE = "gcloud scheduler jobs describe dev-sweep"


class VirtualClock:
    """A clock that advances only when a caller sleeps."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


DEPLOYER = f"signalbox-deployer@{PROJECT}.iam.gserviceaccount.com"
FEDERATED = {
    "gcloud auth print-identity-token --audiences": Outcome(
        1,
        error="ERROR: (gcloud.auth.print-identity-token) Invalid account type for `--audiences`. "
        "Requires valid service account.",
    )
}
"""What gcloud answers an account that signed in by Workload Identity Federation, as in GitHub Actions."""


def smoked(
    monkeypatch: pytest.MonkeyPatch, deployment: Deployment, script: Script, account: str = ACCOUNT
) -> tuple[list[str], float]:
    """Run the smoke test in no time; return its lines, and how long it would have taken."""
    clock = VirtualClock()
    deployment.now = clock.now
    transport = httpx.MockTransport(deployment)
    monkeypatch.setattr(http_client, "client", lambda *_: httpx.Client(transport=transport))
    said: list[str] = []
    site = smoke.Site(DEV, "http://x/", account, script, Clock(clock.now, clock.sleep))
    passed = smoke.passes(site, said.append)
    assert passed == (not any(line.startswith("  FAILED") for line in said))
    return said, clock.at


@pytest.mark.parametrize(
    ("flags", "answers", "said"),
    [
        ({}, {}, []),
        ({"private": False}, {}, ["a call without a token got 200"]),
        ({"follows": False}, {}, ["the copy is unchanged", "copy of a large document is unchanged"]),
        ({"excludes": False}, {}, ["one permit went twice"]),
        ({}, {DESCRIBE: '{"lastAttemptTime": "2026-01-01T00:00:00Z", "status": {"code": 7}}'}, ["its last run failed"]),
        ({}, {DESCRIBE: "{}"}, ["it did not run"]),
        ({}, {DESCRIBE: None}, ["refused"]),
        ({"private": False, "excludes": False}, {}, ["without a token", "went twice"]),
    ],
)
def test_each_failure_is_reported_and_everything_is_removed(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], answers: dict[str, Any], said: list[str]
) -> None:
    deployment = Deployment(**flags)
    lines, _ = smoked(monkeypatch, deployment, Script(**answers))
    failed = [line for line in lines if line.startswith("  FAILED")]
    assert [text for text, line in zip(said, failed, strict=True) if text not in line] == []
    assert len(deployment.put) >= 4
    assert deployment.kept == {}


def test_a_fresh_deployments_refusals_and_its_silent_trigger_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Deployment(known_at=240, fires_at=359)
    lines, seconds = smoked(monkeypatch, late, Script())
    assert [line for line in lines if line.startswith("  FAILED")] == []
    assert 359 < seconds < 390
    sources = [path for path in late.put if path.endswith("-source")]
    assert len(sources) == 1 + 120 / smoke.CHANGED_AGAIN_SECONDS + 1


def test_what_is_refused_for_longer_than_five_minutes_and_a_dead_trigger_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, seconds = smoked(monkeypatch, Deployment(known_at=10_000), Script())
    assert "documents?where" in next(line for line in lines if "functions answer" in line)
    assert deployment_client.REACHED_SECONDS < seconds < 2 * deployment_client.REACHED_SECONDS
    lines, _ = smoked(monkeypatch, Deployment(fires_at=10_000), Script())
    assert next(line for line in lines if line.startswith("  FAILED")).endswith("the copy is unchanged after 300 s")


def test_the_documents_of_a_test_that_was_cut_are_deleted_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Deployment(kept={"documents/left": {"smoke_test_key": "left", "smoke_test_at": 1}})
    smoked(monkeypatch, left, Script())
    assert left.kept == {}


def test_a_test_that_is_cut_still_deletes_its_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Deployment(follows=False)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    transport = httpx.MockTransport(cut)
    monkeypatch.setattr(http_client, "client", lambda *_: httpx.Client(transport=transport))
    with pytest.raises(KeyboardInterrupt):
        smoke.passes(smoke.Site(DEV, "http://x/", ACCOUNT, Script(), Clock(sleep=interrupted)), lambda _: None)
    assert len(cut.put) > 2
    assert cut.kept == {}


def test_a_person_has_one_token_and_a_service_account_one_for_each_function() -> None:
    person, program = Script(), Script()
    urls = ["https://x/documents", "https://x/batches", "https://x/documents"]
    for account, script in ((ACCOUNT, person), ("deployer@demo-project.iam.gserviceaccount.com", program)):
        token = tokens(DEV, account, script)
        assert {token(url) for url in urls} == {"a-token"}
    assert person.asked == ["gcloud auth print-identity-token"]
    assert program.asked == [f"gcloud auth print-identity-token --audiences={url}" for url in urls[:2]]


def test_a_deployment_from_github_actions_is_tested_with_tokens_that_iam_generates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(**FEDERATED)
    lines, _ = smoked(monkeypatch, Deployment(federated=DEPLOYER), script, DEPLOYER)
    assert [line for line in lines if line.startswith("  FAILED")] == []
    assert len(lines) > 5
    asked = [call for call in script.asked if "print-identity-token" in call]
    assert len(asked) == len(set(asked)), "each function's token is requested once"


def test_an_account_without_the_right_to_its_tokens_gets_the_name_of_the_missing_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = httpx.MockTransport(Deployment(federated="another@p.example"))
    monkeypatch.setattr(http_client, "client", lambda *_: httpx.Client(transport=transport))
    with pytest.raises(CommandFailed, match=r"Invalid account type(.|\n)*serviceAccountOpenIdTokenCreator(.|\n)*404"):
        tokens(DEV, DEPLOYER, Script(**FEDERATED))("https://x/documents")


def test_without_a_token_gclouds_own_message_is_reported() -> None:
    with pytest.raises(CommandFailed, match="refused"):
        tokens(DEV, ACCOUNT, Script(**{"gcloud auth print-identity-token": None}))("https://x/documents")


def test_what_never_happens_is_reported_after_the_timeout() -> None:
    with pytest.raises(SmokeTestFailed, match=f"no {REGION}"):
        poll(lambda: None, -1, f"no {REGION}")


def test_transient_errors_are_retried_and_reported_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_client, "PAUSE_SECONDS", 0)
    answers: list[httpx.Response | Exception] = [
        httpx.Response(503),
        httpx.ConnectError("broken"),
        httpx.Response(200, json={"a": 1}),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "Bearer of https://x/dev-documents"
        given = answers.pop(0) if answers else httpx.Response(500, text="a bug")
        if isinstance(given, Exception):
            raise given
        return given

    with deployment_client.DeploymentClient(
        "https://x/dev-", lambda url: f"of {url}", httpx.MockTransport(answer)
    ) as client:
        assert client.request("GET", "documents/x") == {"a": 1}
        monkeypatch.setattr(deployment_client, "RETRY_SECONDS_MAX", -1)
        with pytest.raises(SmokeTestFailed, match=r"GET documents/x has no answer.*; the last was: 500 a bug"):
            client.request("GET", "documents/x")
        refusal = {
            "title": "Service unavailable",
            "detail": "A newer release of signalbox wrote it. Deploy that release.",
        }
        answers.append(httpx.Response(503, json=refusal, headers={"Content-Type": "application/problem+json"}))
        with pytest.raises(SmokeTestFailed, match=r"last was: 503 A newer release of signalbox wrote it\. Deploy that"):
            client.request("GET", "documents/x")
        answers.append(httpx.Response(409, text="no"))
        with pytest.raises(SmokeTestFailed, match="GET documents/x: 409 no"):
            client.request("GET", "documents/x")


def test_declared_semaphores_are_set_after_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str, bytes]] = []
    statuses = [403, 201, 200]

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, str(request.url), request.content))
        return httpx.Response(statuses.pop(0), json={})

    monkeypatch.setattr(http_client, "client", lambda *_: httpx.Client(transport=httpx.MockTransport(answer)))
    declared_two = {name: Semaphore(name=name, permits=2, lease_seconds=60) for name in ("printer", "the dock")}
    catalogue = dataclasses.replace(load(), semaphores=declared_two)
    monkeypatch.setattr(deployment_target.Target, "catalogue", property(lambda _: catalogue))
    clock, said = VirtualClock(), list[str]()
    site = smoke.Site(DEV, "http://x/dev-", ACCOUNT, Script(), Clock(clock.now, clock.sleep))
    assert declared_limits.ensured(site, said.append)
    body = b'{"permits":2,"lease_seconds":60.0}'
    assert sent[1:] == [
        ("PUT", "http://x/dev-semaphores/printer", body),
        ("PUT", "http://x/dev-semaphores/the%20dock", body),
    ]
    assert said == ["Set the limits of 2 semaphores and rates of the catalogue."]
    statuses.append(400)
    assert not declared_limits.ensured(site, said.append)
    assert "The semaphores and rates of the catalogue are not all set: PUT semaphores/printer: 400" in said[-1]


@pytest.mark.parametrize(
    ("api", "steps"),
    [
        ("[]", ["a call without a token is refused"]),
        (
            "[semaphores]",
            ["a call without a token is refused", "a semaphore's permit is taken, refused and given back"],
        ),
        (
            "[batches]",
            [
                "a call without a token is refused",
                "a batch is completed from outside",
                "a batch is completed by tasks of a function that only queues call",
            ],
        ),
    ],
)
def test_the_test_uses_what_is_deployed_for_callers(tmp_path: Path, api: str, steps: list[str]) -> None:
    main = tmp_path / "functions" / "orders" / "main.py"
    main.parent.mkdir(parents=True)
    main.write_text('from signalbox import Function\n\napp = Function("orders")\norders = app.entry_point()\n')
    (tmp_path / "signalbox.yaml").write_text(f"api: {api}\nfunctions: {{orders: {{}}}}\n")
    site = smoke.Site(deployment_target.read(PROJECT, "dev", root=tmp_path), "http://x/", ACCOUNT, Script())
    with deployment_client.DeploymentClient("http://x/", lambda _: "") as client:
        found = [name for name, _ in smoke._steps(site, site.target.catalogue, client, "run")]
    assert [name for name in found if name != "the schedule sweep ran"] == steps
    assert ("the schedule sweep ran" in found) == (api != "[]"), "nothing is durable without a part"
