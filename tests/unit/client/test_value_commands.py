"""The commands that print results of units and answers to updates, also large ones."""

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox import Function, Problem, batch, flow, flows
from signalbox.catalogue.reading import load
from signalbox.testing import Harness
from signalbox_tools.cli.main import main
from signalbox_tools.local.functions.server import mounted
from tests.serving import serving
from tests.unit.client.test_commands import shown

press = Function("press")


@press.task
def print_page(text: str) -> str:
    if not text:
        raise Problem("No \x9b2J text.")
    return text


@press.flow
async def printing() -> None:
    while True:
        got = await flow.update("page", str)
        if got.value:
            got.answer(got.value)
        else:
            got.refuse(Problem("No text."))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    with Harness() as harness:
        harness.functions._catalogue = replace(harness.functions._catalogue, payloads=True)
        harness.add(press)
        with serving(DispatcherMiddleware(mounted(load()), {"/press": harness.functions.app("press")})) as base:
            monkeypatch.setenv("SIGNALBOX_URL", base)
            yield harness


LARGE = "x" * 200_000


def test_the_units_of_a_batch_are_listed_with_their_results_and_a_large_one_is_printed(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch("b").populate([print_page.call(text) for text in ("a\x9b2J", "", LARGE, "y" * 500)])
    harness.run(raise_errors=False)
    units = {unit["index"]: unit for unit in shown(capsys, "batches", "units", "b", "--json")}
    assert (units[0]["result"], units[1]["state"], units[3]["result"]) == ("a\x9b2J", "failed", "y" * 500)
    sha256 = units[2]["result"]["$payload"]["sha256"]
    assert main(["batches", "units", "b", "--state", "succeeded"]) == 0
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed[0] == '0  succeeded  0  "a\\u009b2J"'
    assert printed[1] == f"2  succeeded  0  200,002 bytes, SHA256 {sha256}"
    assert len(printed[2]) == len("3  succeeded  0  ") + 300
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        assert main(["batches", "units", "b", "--state", "failed"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert (head, line[:20]) == ("INDEX  STATE   ATTEMPT  RESULT", "1      failed  0    ")
    assert "\\u009b2J text." in line
    assert shown(capsys, "batches", "value", "b", "2", sha256) == [LARGE]
    assert main(["batches", "value", "b", "0", sha256]) == main(["batches", "units", "none"]) == 1


def test_the_answer_to_an_update_is_printed_also_a_large_one(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = flows("printing", "1")
    run.start()
    for id_, text in {"small": "a", "large": LARGE, "empty": ""}.items():
        run.update("page", text, id=id_)
    assert main(["flows", "answer", "press", "printing", "1", "small"]) == 1
    assert "the update small has no answer" in capsys.readouterr().err
    harness.run()
    assert shown(capsys, "flows", "answer", "press", "printing", "1", "small", "--wait", "5") == ["a"]
    assert shown(capsys, "flows", "answer", "press", "printing", "1", "large") == [LARGE]
    assert main(["flows", "answer", "press", "printing", "1", "empty"]) == 1
    assert "No text." in capsys.readouterr().err
    known = SimpleNamespace(functions={"press": SimpleNamespace(name="press", flows=["printing"])})
    monkeypatch.setattr("signalbox.catalogue.reading.load", lambda **_: known)
    assert shown(capsys, "flows", "answer", "printing/1", "small") == ["a"]


def test_an_update_that_the_code_does_not_wait_for_is_warned_of_once_and_before_the_wait(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    flows("printing", "1").start()
    harness.run()
    assert main(["flows", "update", "press", "printing", "1", "pgae", '"a"', "--wait", "0.2"]) == 1
    warned, error = capsys.readouterr().err.splitlines()
    assert warned.startswith("Warning: The code does not wait for the update `pgae` now")
    assert "`page`" in warned
    assert error.endswith("has no answer after the given time")


@pytest.mark.parametrize("option", ["--label", "--count-by", "--state", "--since", "--until"])
def test_an_empty_choice_of_runs_is_refused(harness: Harness, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["flows", "ls", "press", "printing", option, ""]) != 0
    printed = capsys.readouterr()
    assert (printed.out, "is empty" in printed.err or "must be 30m" in printed.err) == ("", True)


def test_a_large_value_of_a_run_is_printed_with_its_letters_as_those_of_units_are(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "é\x7f" * 60_000
    flows("printing", "1").start()
    flows("printing", "1").update("page", text, id="large")
    harness.run()
    sha256 = hashlib.sha256(json.dumps(text).encode()).hexdigest()
    assert main(["flows", "value", "press", "printing", "1", sha256]) == 0
    assert capsys.readouterr().out == '"{}"\n'.format("é\\u007f" * 60_000)
