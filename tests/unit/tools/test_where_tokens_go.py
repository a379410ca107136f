"""A person's identity token is sent to the hosts of the deployment only, never to one that a folder chooses."""

import io
import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from signalbox.catalogue.project import KIT, Project
from signalbox.client import Client, identity
from signalbox.client.identity import NoServiceAccount
from signalbox_tools.cli.function_commands import opened
from signalbox_tools.deploy import deployment_target, programs
from signalbox_tools.deploy.deployment_client import DeploymentClient, tokens
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Outcome
from signalbox_tools.local.folder.running_stack import NoStack, RunningStack
from tests.unit.catalogue.test_databases import project

EMULATOR = {"FIRESTORE_EMULATOR_HOST": "127.9.9.9:8083", "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:8084"}
OWN: dict[str, Any] = {
    "folder": "",
    "pid": os.getpid(),
    "base_url": "http://127.0.0.1:8080/",
    "store": "emulator",
    "queues_url": "http://127.0.0.1:8081",
    "events_url": "http://127.0.0.1:8082",
    "environment": EMULATOR,
}
SQLITE = EMULATOR | {"FIRESTORE_EMULATOR_HOST": "sqlite", "SIGNALBOX_STORE_FILE": __file__}
FORGED: dict[str, dict[str, Any]] = {
    "another host": {"base_url": "http://evil.example/"},
    "another host in capitals": {"base_url": "HTTP://evil.example/"},
    "an encrypted one": {"base_url": "https://127.0.0.1:8080/"},
    "a host that begins like this machine": {"base_url": "http://127.0.0.1:80@evil.example/"},
    "a name of this machine's form": {"base_url": "http://127.0.0.1.evil.example:80/"},
    "queues elsewhere": {"queues_url": "http://evil.example:1"},
    "events elsewhere": {"events_url": "http://evil.example:1"},
    "an emulator elsewhere": {"environment": EMULATOR | {"FIRESTORE_EMULATOR_HOST": "evil.example:1"}},
    "the cloud's store": {"environment": EMULATOR | {"FIRESTORE_EMULATOR_HOST": ""}},
    "a file that does not exist": {"environment": SQLITE | {"SIGNALBOX_STORE_FILE": "/absent/store.sqlite"}},
    "no file": {"environment": SQLITE | {"SIGNALBOX_STORE_FILE": ""}},
    "tasks elsewhere": {"environment": EMULATOR | {"CLOUD_TASKS_EMULATOR_HOST": "evil.example:1"}},
    "every process": {"pid": 0},
    "a group of processes": {"pid": -1},
    "no number": {"pid": "1"},
    "no text": {"base_url": None},
    "no variables": {"environment": []},
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of confirmed hosts, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path / "home" / "signalbox" / "token_hosts"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the hosts that were called, each with its token. A person is signed in, and no service account."""
    found: list[tuple[str, str]] = []

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        found.append((request.url.host, request.headers.get("Authorization", "")))
        return httpx.Response(200, json={"key": "x"})

    def none(_: str) -> str:
        raise NoServiceAccount("no account here")

    def gcloud(command: tuple[str, ...], **_: Any) -> Outcome:
        return Outcome(0, "PERSON" if "print-identity-token" in command else "ann@example.com")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    monkeypatch.setattr(socket, "create_connection", lambda *_: io.BytesIO())
    monkeypatch.setattr(identity, "service_account_token", none)
    monkeypatch.setattr(identity, "persons_token", lambda _: "PERSON")
    monkeypatch.setattr(programs, "run", gcloud)
    return found


def read(url: str = "", project: str = "") -> None:
    with opened(url, project, "dev", "") as client:
        client.documents.get("x")


def folder_of(root: Path, stack: dict[str, Any]) -> Path:
    (root / "stack.json").write_text(json.dumps(stack))
    return root


def test_the_file_of_a_running_stack_is_read(tmp_path: Path) -> None:
    assert RunningStack.of(folder_of(tmp_path, OWN)).base_url == "http://127.0.0.1:8080/"
    sqlite = OWN | {"environment": SQLITE}
    assert RunningStack.of(folder_of(tmp_path, sqlite)).pid == os.getpid()


@pytest.mark.parametrize("forged", FORGED)
def test_a_file_of_a_stack_that_names_another_machine_is_no_stack(tmp_path: Path, forged: str) -> None:
    with pytest.raises(NoStack, match="signalbox dev"):
        RunningStack.of(folder_of(tmp_path, OWN | FORGED[forged]))


def test_a_file_of_another_user_is_no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    with pytest.raises(NoStack, match="another user"):
        RunningStack.of(folder_of(tmp_path, OWN))


def test_a_folder_cannot_name_the_logs_that_are_shown(tmp_path: Path) -> None:
    stack = RunningStack.of(folder_of(tmp_path, OWN | {"folder": "/etc"}))
    assert stack.functions_log == tmp_path / "functions.log"


@pytest.mark.parametrize("url", ["http://evil.example", "HTTP://evil.example", "hTTp://127.0.0.1:8080"])
def test_no_address_without_encryption_gets_a_token_by_itself(sent: list[tuple[str, str]], url: str) -> None:
    with Client(url) as client:
        client.documents.get("x")
    assert [token for _, token in sent] == [""]


@pytest.mark.parametrize("url", ["https://evil.example/", "HTTPS://EVIL.example/"])
def test_a_host_that_a_variable_names_is_confirmed_once(
    sent: list[tuple[str, str]], confirmed: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(click.ClickException, match=r"would go to evil\.example\. For an hour"):
        read(url)
    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    with pytest.raises(click.ClickException, match="nothing was sent"):
        read(url)
    assert sent == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    read(url)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    read(url)
    assert sent == [("evil.example", "Bearer PERSON")] * 2
    assert confirmed.read_text() == "evil.example\n"


def test_a_service_account_s_token_is_of_one_function_and_needs_no_confirmation(
    sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "service_account_token", lambda url: f"for {url}")
    read("https://api.example.com/")
    assert sent == [("api.example.com", "Bearer for https://api.example.com/documents")]


@pytest.mark.parametrize(("domain", "host"), [(False, "us-central1-my-project.cloudfunctions.net"), (True, "")])
def test_a_domain_that_a_folder_names_is_confirmed_and_googles_own_is_not(
    sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, domain: bool, host: str
) -> None:
    settings = {"domain": "evil.example", "domain_only": domain}
    place = Target("my-project", "dev", "us-central1", settings, KIT.root)
    monkeypatch.setattr(deployment_target, "read", lambda *_: place)
    if host:
        read(project="my-project")
        assert sent == [(host, "Bearer PERSON")]
        return
    with pytest.raises(click.ClickException, match=r"evil\.example"):
        read(project="my-project")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    read(project="my-project")
    assert sent == [("evil.example", "Bearer PERSON")]


@pytest.mark.parametrize("region", ["evil.example/x", "us-central1-evil", "us-central1.", "us-central1-a"])
def test_the_region_of_a_folder_is_no_other_host(
    sent: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    environments = Project.at(tmp_path).environments
    environments.mkdir(parents=True)
    (environments / "dev.tfvars.json").write_text(json.dumps({"environment": "dev", "region": region}))
    monkeypatch.setattr(deployment_target, "read", partial(deployment_target.read, root=tmp_path))
    with pytest.raises(click.ClickException, match="is not a region"):
        read(project="my-project")
    assert sent == []


def test_an_open_function_gets_no_persons_token(tmp_path: Path) -> None:
    """Its code would have the token with its signature, and could call each function that the person may call."""
    project(tmp_path, "functions:\n  orders: {}\n  cards: {database: payments, public: true}\n")
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "dev.tfvars.json").write_text('{"environment": "dev", "domain": "a.example", "domain_only": true}')
    run = Asked()
    for environment, function, got in (("dev.payments", "cards", ""), ("dev", "orders", "PERSON")):
        place = deployment_target.read("my-project", environment, root=tmp_path)
        token = tokens(place, "ann@example.com", run)
        assert {token(place.own_url + function), token(place.base_url + function)} == {got}
    robot = tokens(deployment_target.read("my-project", "dev.payments", root=tmp_path), ROBOT, run)
    assert robot(deployment_target.read("my-project", "dev.payments", root=tmp_path).own_url + "cards") == "PERSON"


def test_a_request_without_a_token_has_no_header_of_one() -> None:
    headers: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        headers.append(request.headers)
        return httpx.Response(200, json={"key": "a"})

    transport = httpx.MockTransport(answer)
    DeploymentClient("https://a.example/", lambda _: "", transport).request("GET", "documents")
    with Client("https://a.example/", token=lambda _: "", transport=transport) as client:
        client.documents.get("a")
    assert ["Authorization" in each for each in headers] == [False, False]


ROBOT = "robot@my-project.iam.gserviceaccount.com"


class Asked:
    """gcloud, which prints a token."""

    def __call__(self, *_: Any, **__: Any) -> Outcome:
        return Outcome(0, "PERSON\n", "")
