"""On a running stack only its queues and its scheduler may call their routes."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from signalbox_tools.local.cloud_tasks.__main__ import PRIVATE_KEY
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity, new_private_key
from signalbox_tools.local.services.function_settings import SCHEDULER_ACCOUNT, TASKS_ACCOUNT
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
KNOCKS = TASKS_ACCOUNT.format(queue="knocks")
CATALOGUE = """
functions:
  door: {invoked_by: [people, queue], enqueues: [knocks], tasks: [knock]}
  tick: {invoked_by: [schedule]}
  yearly: {invoked_by: [schedule]}
queues:
  knocks:
    dispatches_per_second: 100
    concurrent_max: 4
    attempts_max: -1
    backoff_min_seconds: 0.1
    backoff_max_seconds: 1
    doublings_max: 4
schedules:
  tick: {function: tick, cron: "* * * * *", local_every_seconds: 0.3}
  yearly: {function: yearly, cron: "0 0 1 1 *", local_every_seconds: 31536000}
"""
DOOR = """
from signalbox.adapters import runtime
from signalbox import Function
from signalbox.core.ports import Put
from signalbox.core.effects import Effect, name_of

app = Function("door")

@app.task
def knock(who: str):
    runtime.ports().store.commit([Put(f"seen/{who}", {"seen": True})])

@app.http("POST", "/{who}")
def ask(request, who):
    knocking = knock.call(who=who)
    effect = Effect(name_of(who), "knocks", "door", knocking.task, knocking.payload, path="/tasks/knock")
    runtime.ports().queue.create([effect])

@app.http("GET", "/{who}")
def seen(request, who):
    return runtime.ports().store.read(f"seen/{who}")[0].data or {}

door = app.entry_point()
"""
SCHEDULED = """
from signalbox.adapters import runtime
from signalbox.adapters.http.task_deliveries import schedule_entry
from signalbox.core.ports import Put

@schedule_entry("{name}")
def {name}(ports):
    ports.store.commit([Put("seen/{name}", {{"seen": True}})])
"""


def project(folder: Path) -> Path:
    sources = {"door": DOOR} | {name: SCHEDULED.format(name=name) for name in ("tick", "yearly")}
    for name, source in sources.items():
        (folder / "functions" / name).mkdir(parents=True)
        (folder / "functions" / name / "main.py").write_text(source)
    (folder / "infra").mkdir()
    catalogue = folder / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE)
    return catalogue


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("door")
    with Stack(folder=folder / "state", catalogue=project(folder)) as running:
        yield running


@pytest.fixture(scope="module")
def http(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as client:
        yield client


@pytest.fixture(scope="module")
def signer(stack: Stack) -> bytes:
    """Return the private key of the stack's queues, from the file of its store."""
    with sqlite3.connect(stack.folder / "store.sqlite") as database:
        [(private_pem,)] = database.execute("SELECT value FROM secrets WHERE name = ?", (PRIVATE_KEY,))
    return bytes(private_pem)


def seen(http: httpx.Client, who: str) -> bool:
    return bool(http.get(f"door/{who}").raise_for_status().json())


def test_a_task_and_a_schedule_run_on_the_stack(http: httpx.Client) -> None:
    assert http.post("door/friend").status_code == 204
    eventually(lambda: seen(http, "friend"))
    eventually(lambda: seen(http, "tick"))


def post(http: httpx.Client, path: str, who: str, token: str | None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {"X-CloudScheduler": "true"} if path == "yearly" else {}  # it lets in nothing else
    return http.post(path, json={"operation": who, "task": "knock", "payload": {"who": who}}, headers=headers)


FORGERIES = ["no token", "address", "account", "another queue", "expired", "foreign key", "no signature", "not Google"]


def forged(kind: str, identity: Identity, account: str, url: str) -> str | None:
    """Make a token that is valid except for one claim."""
    now = time.time()
    made: dict[str, Callable[[], str | None]] = {
        "no token": lambda: None,
        "address": lambda: identity.token(account, url + "/other", now),
        "account": lambda: identity.token("somebody@signalbox.invalid", url, now),
        "another queue": lambda: identity.token(TASKS_ACCOUNT.format(queue="others"), url, now),
        "expired": lambda: identity.token(account, url, now - 3700),
        "foreign key": lambda: Identity(new_private_key()).token(account, url, now),
        "no signature": lambda: identity.token(account, url, now).rpartition(".")[0] + ".SIGNATURE_REMOVED_BY_GOOGLE",
        "not Google": lambda: "e30.e30.e30",
    }
    return made[kind]()


@pytest.mark.parametrize("kind", FORGERIES)
@pytest.mark.parametrize(
    ("path", "url", "account", "leaves"),
    [("door/tasks/knock", "door", KNOCKS, "{}"), ("yearly", "yearly", SCHEDULER_ACCOUNT, "yearly")],
)
def test_who_is_not_the_one_expected_is_refused_and_nothing_happens(
    stack: Stack, http: httpx.Client, signer: bytes, kind: str, path: str, url: str, account: str, leaves: str
) -> None:
    who = f"{kind} {url}".replace(" ", "-")
    token = forged(kind, Identity(signer), account, stack.base_url + url)
    refused = post(http, path, who, token)
    assert refused.status_code == (403 if kind in ("account", "another queue") else 401)
    assert refused.headers["content-type"] == "application/problem+json"
    assert not seen(http, leaves.format(who))


def test_the_right_token_opens_both_routes(stack: Stack, http: httpx.Client, signer: bytes) -> None:
    tasks = Identity(signer).token(KNOCKS, stack.base_url + "door", time.time())
    assert post(http, "door/tasks/knock", "key-holder", tasks).status_code == 204
    assert seen(http, "key-holder")
    scheduler = Identity(signer).token(SCHEDULER_ACCOUNT, stack.base_url + "yearly", time.time())
    assert post(http, "yearly", "", scheduler).status_code == 204
    assert seen(http, "yearly")


def test_tokens_for_callers_that_are_no_tasks_are_not_served_to_a_web_page(stack: Stack) -> None:
    url = f"{stack.identity_url}/computeMetadata/v1/instance/service-accounts/{SCHEDULER_ACCOUNT}/identity"
    asked = {"audience": stack.base_url + "yearly"}
    assert httpx.get(url, params=asked).status_code == 403
    assert httpx.get(url, headers={"Metadata-Flavor": "Google"}).status_code == 403
    given = httpx.get(url, params=asked, headers={"Metadata-Flavor": "Google"})
    assert given.text.count(".") == 2
