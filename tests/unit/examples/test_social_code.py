"""Social Code: names, imports in any shape, and after a save the tests of each dependant, once in effect."""

from random import Random
from typing import Any

import pytest

from signalbox import batch, documents
from signalbox.testing import Faults, Harness
from signalbox.testing.fixtures import harness as harness

ADD = "def Add(a, b):\n    return a + b"
TWICE = "# {{Add}}\ndef Twice(a):\n    return Add(a, a)"


def save(harness: Harness, name: str, code: str, tests: str = "check(True)") -> None:
    answer = harness.put(f"social-code/functions/{name}", json={"code": code, "tests": tests})
    assert answer.status == 202, answer.json


def shown(harness: Harness, name: str) -> dict[str, Any]:
    found: dict[str, Any] = harness.get(f"social-code/functions/{name}").json
    return found


def state(harness: Harness, name: str) -> str:
    return str(shown(harness, name)["state"])


def runs(harness: Harness, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = harness.get(f"social-code/functions/{name}/runs").json["runs"]
    return found


def test_a_save_runs_the_tests_of_the_function_and_of_all_that_depends_on_it(harness: Harness) -> None:
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)\nlog('added')")
    save(harness, "Twice", TWICE, "check(Twice(2) == 4)")
    save(harness, "Four", "# {{Twice}}\ndef Four(a):\n    return Twice(Twice(a))", "check(Four(1) == 4)")
    assert state(harness, "Add") == "pending"
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed"] * 3
    assert shown(harness, "Add")["run"]["logs"] == "added\n"
    assert (shown(harness, "Twice")["imports"], shown(harness, "Twice")["dependants"]) == (["Add"], ["Four"])

    save(harness, "Add", ADD.replace("+", "-"), "check(Add(3, 2) == 1)")
    assert [state(harness, name) for name in ("Add", "Four")] == ["pending"] * 2
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed", "failed", "failed"]
    assert shown(harness, "Four")["run"]["message"] == "check 1 failed"
    assert len(runs(harness, "Four")) == 2

    save(harness, "Add", ADD)
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed"] * 3
    assert [each.action for each in documents.versions("social-function~add").versions] == ["put"] * 3


def test_a_name_is_unique_regardless_of_case_and_found_in_any(harness: Harness) -> None:
    save(harness, "Add", ADD)
    refused = harness.put("social-code/functions/ADD", json={"code": ADD})
    assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:name-taken")
    save(harness, "Twice", TWICE.replace("{{Add}}", "{{ aDD }} {{add}}"), "check(Twice(2) == 4)")
    harness.run()
    assert (shown(harness, "tWICE")["imports"], state(harness, "twice")) == (["Add"], "passed")


def test_cycles_and_diamonds_have_each_function_once(harness: Harness) -> None:
    save(harness, "Even", "# {{Odd}} {{Even}}\ndef Even(n):\n    return n == 0 or Odd(n - 1)", "check(Even(4))")
    save(harness, "Odd", "# {{Even}}\ndef Odd(n):\n    return n != 0 and Even(n - 1)", "check(Odd(3))")
    save(harness, "Left", "# {{Even}}\nlog('left')")
    save(harness, "Right", "# {{Even}}\nlog('right')")
    save(harness, "Both", "# {{Left}} {{Right}} {{Odd}}\nlog('both')")
    harness.run()
    names = ("Even", "Odd", "Left", "Right", "Both")
    assert [state(harness, name) for name in names] == ["passed"] * 5
    assert shown(harness, "Both")["run"]["logs"] == "left\nright\nboth\n"
    assert shown(harness, "Even")["dependants"] == ["Left", "Odd", "Right"]


def test_a_missing_import_is_named_and_found_once_it_is_saved(harness: Harness) -> None:
    save(harness, "Twice", TWICE, "check(Twice(2) == 4)")
    harness.run()
    assert (shown(harness, "Twice")["missing"], state(harness, "Twice")) == (["add"], "failed")
    save(harness, "Add", ADD)
    harness.run()
    assert (shown(harness, "Twice")["missing"], state(harness, "Twice")) == ([], "passed")
    assert harness.delete("social-code/functions/add").status == 202
    assert harness.delete("social-code/functions/add").status == 404
    harness.run()
    assert (shown(harness, "Twice")["missing"], state(harness, "Twice")) == (["add"], "failed")


@pytest.mark.parametrize(
    ("name", "body", "where"),
    [
        ("1st", {"code": ""}, "name"),
        ("a" * 81, {"code": ""}, "name"),
        ("A", {}, "code"),
        ("A", {"code": "x" * 10_001}, "code"),
        ("A", {"code": "", "tests": 3}, "tests"),
        ("A", {"code": " ".join(f"{{{{F{n}}}}}" for n in range(51))}, "code"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_the_field(
    harness: Harness, name: str, body: dict[str, Any], where: str
) -> None:
    answer = harness.put(f"social-code/functions/{name}", json=body)
    assert (answer.status, answer.json["field"]) == (400, where)


def test_a_function_that_is_too_long_with_its_imports_fails_and_says_so(harness: Harness) -> None:
    for number in range(10):
        save(harness, f"F{number}", "#" * 9_900)
    save(harness, "All", " ".join(f"# {{{{F{n}}}}}" for n in range(10)))
    harness.run()
    assert shown(harness, "All")["run"]["message"] == "with its imports it is longer than 90,000 bytes"
    assert state(harness, "F1") == "passed"


def test_saves_that_follow_each_other_quickly_run_the_tests_once(harness: Harness) -> None:
    for number in range(5):
        save(harness, "Add", f"{ADD}  # {number}")
    harness.run()
    assert (state(harness, "Add"), len(runs(harness, "Add"))) == ("passed", 1)


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(duplicate=0.2, late=0.1, lose_answer=0.2, unavailable=0.2, reorder=True, seed=1)],
    ids=lambda faults: f"seed {faults.seed}",
)
def test_a_hubs_save_runs_each_dependants_tests_once_in_effect(harness: Harness, faults: Faults) -> None:
    """Fifty dependants, some also through others: one run each is kept for the hub's new code."""
    random = Random(faults.seed)
    names = [f"F{number}" for number in range(50)]
    others = [random.choice(names[:number] or ["hub"]).lower() for number in range(50)]
    documents.put_many(
        {
            "key": f"social-function~{name.lower()}",
            "type": "SocialFunction",
            "name": name,
            "code": "",
            "tests": "check(Hub() == 1)",
            "social_imports": ["hub", *({other} - {"hub"})],
        }
        for name, other in zip(names, others, strict=True)
    )
    save(harness, "Hub", "def Hub():\n    return 1")
    harness.run()
    assert {state(harness, name) for name in names} == {"passed"}
    save(harness, "Hub", "def Hub():\n    return 2", "check(Hub() == 2)")
    harness.run(faults)
    assert state(harness, "Hub") == "passed"
    assert {state(harness, name) for name in names} == {"failed"}
    assert {len(runs(harness, name)) for name in names} == {2}
    units = list(batch(shown(harness, "Hub")["batch"]).results())
    assert sorted(unit["result"]["name"] for unit in units) == sorted(["hub", *(name.lower() for name in names)])
