"""A running stack follows its files: code, modules and the catalogue; what cannot run does not replace it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from signalbox.testing import user_token
from signalbox_tools.local.reloading.dev_loop import DevLoop
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0
CATALOGUE = """
functions:
  greeter: {{folder: greeter, invoked_by: [{invokers}], enqueues: [links, tasks]{tasks}}}
{more}
queues:
  tasks: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  links: *queue
"""
TRIGGER = """
triggers:
  notes: {function: noted, event: google.cloud.firestore.document.v1.written, document: "documents/{key}"}
"""
GREETER = """
import texts
from signalbox import Function, Request, documents

app = Function("greeter")


@app.http("GET")
def greet(request: Request) -> dict[str, str]:
    return {"text": texts.TEXT}


@app.http("PUT", "/{key}")
def put(request: Request, key: str) -> None:
    documents.put(key, {"greeted": True})


@app.http("GET", "/{key}")
def get(request: Request, key: str) -> dict[str, object]:
    return documents.get(key) or {}


@app.http("GET", "/{key}/versions")
def versions(request: Request, key: str) -> dict[str, int]:
    return {"count": len(documents.versions(key).versions)}


@app.http("GET", "/slow/{key}")
def slow(request: Request, key: str) -> dict[str, str]:
    import time

    time.sleep(2)
    return {"text": texts.TEXT}


greeter = app.entry_point()
"""
NOTED = """
from signalbox import DocumentEvent, Function, documents

app = Function("noted")


@app.document_written("documents/{key}")
def note(event: DocumentEvent, key: str) -> None:
    if not key.startswith("noted-"):
        documents.put(f"noted-{key}", {"noted": True})


noted = app.entry_point()
"""


class Project:
    """A project of one function, served and watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.main, self.texts = folder / "greeter" / "main.py", folder / "greeter" / "texts.py"
        self.catalogue = folder / "infra" / "catalogue.yaml"
        for parent in (self.main.parent, self.catalogue.parent):
            parent.mkdir(parents=True)
        self.main.write_text(GREETER)
        self.texts.write_text("TEXT = 'one'\n")
        self.catalogue.write_text(CATALOGUE.format(invokers="people", tasks="", more=""))
        self.announced: list[str] = []
        self.heard = threading.Semaphore(0)
        self.base_url = ""

    def announce(self, line: str, trace: str) -> None:
        self.announced.append(f"{line}\n{trace}")
        self.heard.release()

    def next_line(self) -> str:
        assert self.heard.acquire(timeout=SECONDS_MAX), self.announced
        return self.announced[-1]

    def text(self) -> str:
        return str(httpx.get(f"{self.base_url}greeter", timeout=SECONDS_MAX).json()["text"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("reload"))
    with Stack(folder=made.folder / ".local", catalogue=made.catalogue) as stack:
        made.base_url = stack.base_url
        loop = DevLoop(stack, made.announce, made.catalogue)
        loop.watch()
        loop.start()
        yield made
        loop.stop()


def test_a_changed_module_is_served_soon_and_announced_in_one_line(project: Project) -> None:
    assert project.text() == "one"
    project.texts.write_text("TEXT = 'two'\n")
    line = project.next_line()
    assert line.startswith("reloaded in ")
    assert "greeter/texts.py" in line
    assert project.text() == "two"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("TEXT = 'three", "greeter/texts.py:1:"),
        ("TEXT = 'three'\ndef f():\n    return unknown\n", "greeter/texts.py:3:12: F821 Undefined name `unknown`"),
        ("TEXT = [][1]\n", "greeter/texts.py:1: IndexError: list index out of range"),
        ("from signalbox import Lese\nTEXT = Lese\n", "greeter/texts.py:1: ImportError: cannot import name 'Lese'"),
        ("import neighbours\nTEXT = neighbours\n", "texts.py:1 imports neighbours"),
    ],
    ids=["syntax", "name", "import", "kit", "package"],
)
def test_what_cannot_run_is_named_with_its_line_and_the_last_good_version_serves(
    project: Project, wrong: str, complaint: str
) -> None:
    good = project.text()
    project.texts.write_text(wrong)
    line = project.next_line()
    assert line.startswith("not reloaded, the last good version serves: ")
    assert complaint in line
    assert project.text() == good
    project.texts.write_text(f"TEXT = {good!r}\n")
    assert project.next_line().startswith("reloaded in ")


def test_a_request_that_has_begun_ends_well(project: Project) -> None:
    project.text()
    answers: list[httpx.Response] = []
    url = f"{project.base_url}greeter/slow/x"
    thread = threading.Thread(target=lambda: answers.append(httpx.get(url, timeout=SECONDS_MAX)))
    thread.start()
    project.texts.write_text("TEXT = 'later'\n")
    project.next_line()
    thread.join()
    assert answers[0].status_code == 200
    assert project.text() == "later"


def test_documents_outlive_a_reload(project: Project) -> None:
    httpx.put(f"{project.base_url}greeter/kept").raise_for_status()
    project.texts.write_text("TEXT = 'after'\n")
    project.next_line()
    assert httpx.get(f"{project.base_url}greeter/kept").json()["greeted"] is True


def test_a_changed_catalogue_is_checked_and_then_served(project: Project) -> None:
    project.catalogue.write_text(CATALOGUE.format(invokers="peple", tasks="", more=""))
    assert "functions.greeter: invoked_by contains 'peple'" in project.next_line()
    project.catalogue.write_text(CATALOGUE.format(invokers="people", tasks="", more=""))
    assert project.next_line().startswith("reloaded in ")


def test_a_new_function_with_a_trigger_gets_events(project: Project) -> None:
    entry = "  noted: {folder: noted, invoked_by: [event]}"
    text = CATALOGUE.format(invokers="people", tasks="", more=entry) + TRIGGER
    project.catalogue.write_text(text)
    assert "not reloaded" in project.next_line()  # its folder is still to come
    (project.folder / "noted").mkdir()
    (project.folder / "noted" / "main.py").write_text(NOTED)
    while not project.next_line().startswith("reloaded in "):
        pass
    httpx.put(f"{project.base_url}greeter/news").raise_for_status()
    assert eventually(lambda: httpx.get(f"{project.base_url}greeter/noted-news").json().get("noted"))


def test_what_a_changed_catalogue_says_of_callers_and_documents_holds_at_once(project: Project) -> None:
    open_to_a_page = ", auth: firebase, cors: [https://app.example.com]"
    history = "history:\n  kept: {keys: [remembered]}\n"
    project.catalogue.write_text(CATALOGUE.format(invokers="people", tasks=open_to_a_page, more="") + history)
    assert project.next_line().startswith("reloaded in ")
    url, ann = f"{project.base_url}greeter", {"Authorization": f"Bearer {user_token('ann')}"}
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers=ann).status_code == 200
    page = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "PUT"}
    assert httpx.options(url, headers=page).status_code == 204
    for _ in range(2):
        httpx.put(f"{url}/remembered", headers=ann).raise_for_status()
    assert httpx.get(f"{url}/remembered/versions", headers=ann).json() == {"count": 1}
    project.catalogue.write_text(CATALOGUE.format(invokers="people", tasks="", more=""))
    assert project.next_line().startswith("reloaded in ")
    assert httpx.get(url).status_code == 200
