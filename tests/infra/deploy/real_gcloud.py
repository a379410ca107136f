"""The real gcloud without an account: whether it takes a command, and what a `--filter` selects.

It refuses every call, since nobody is signed in, but only after it has read the arguments: with the status 1, and 2 for
arguments that it does not know. A filter is applied by gcloud itself to what an API has returned.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
