"""The real gcloud without an account: whether it takes a command, and what a `--filter` selects.

It refuses every call, since nobody is signed in, but only after it has read the arguments: with the status 1, and 2 for
arguments that it does not know. A filter is applied by gcloud itself to what an API has returned.
"""

import http.server
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from signalbox_tools.deploy import programs
from signalbox_tools.deploy.programs import Run
from tests.required_programs import GCLOUD

WRONG_ARGUMENTS = 2
SIGNED_OUT = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false"}
PARSE = """
import contextlib, io
from googlecloudsdk import gcloud_main
cli = gcloud_main.CreateCLI([])
answers = []
for command in asked:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            cli.Execute(command)
            answers.append(0)
        except SystemExit as ended:
            answers.append(ended.code)
"""
FILTER = """
from googlecloudsdk.core.resource import resource_filter
answers = list(map(bool, map(resource_filter.Compile(asked[0]).Evaluate, asked[1])))
"""


def refused(commands: Sequence[Sequence[str]], settings: Path) -> list[str]:
    """Return the commands whose arguments gcloud refuses. `settings` is an empty folder for its configuration."""
    statuses = _python(PARSE, [list(each[1:]) for each in commands], settings)
    return [" ".join(each) for each, status in zip(commands, statuses, strict=True) if status == WRONG_ARGUMENTS]


def selects(expression: str, resources: Sequence[Any]) -> list[bool]:
    """Return which of these resources a filter selects."""
    found: list[bool] = _python(FILTER, [expression, list(resources)])
    return found


class Tasks(http.server.BaseHTTPRequestHandler):
    """Cloud Tasks as gcloud reads it: `urls` of the waiting tasks, in pages of the size that is asked for."""

    urls: ClassVar[Sequence[str]] = ()

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        at, size = int(asked.get("pageToken", ["0"])[0]), int(asked["pageSize"][0])
        tasks = [{"name": "t", "httpRequest": {"url": url}} for url in self.urls[at : at + size]]
        more = {"nextPageToken": str(at + size)} if at + size < len(self.urls) else {}
        body = json.dumps({"tasks": tasks, **more}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def with_tasks(urls: Sequence[str], settings: Path) -> Iterator[Run]:
    """Run the real gcloud, signed in, with a stand-in for Cloud Tasks that has a queue with these tasks."""
    GCLOUD.require()
    handler = type("Handler", (Tasks,), {"urls": urls})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    (token := settings / "token").write_text("a-token", "utf-8")
    own = {
        "CLOUDSDK_CONFIG": str(settings),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDTASKS": f"http://127.0.0.1:{server.server_port}/",
    }
    try:
        yield partial(programs.run, environment=SIGNED_OUT | own)
    finally:
        server.shutdown()
        server.server_close()


def _python(code: str, asked: Any, settings: Path | None = None) -> Any:
    """Run code with gcloud's own modules, in a process of its own: they replace modules of this environment."""
    GCLOUD.require()
    library = Path(str(shutil.which("gcloud"))).resolve().parents[1] / "lib"
    program = f"""
import json, sys
sys.path[:0] = [{str(library)!r}, {str(library / "third_party")!r}]
asked, out = json.load(sys.stdin), sys.stdout
{code}
json.dump(answers, out)
"""
    done = subprocess.run(
        (sys.executable, "-I", "-c", program),
        input=json.dumps(asked),
        env={"PATH": os.environ["PATH"], "CLOUDSDK_CONFIG": str(settings or "/nowhere"), **SIGNED_OUT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
