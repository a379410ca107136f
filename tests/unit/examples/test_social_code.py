"""Social Code: drafts, versions and votes, imports in any shape, and each run of dependants once, in effect."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from signalbox import Function, Request, batch, documents, parse
from signalbox.adapters import settings
from signalbox.testing import Faults, Harness, user_token
from signalbox.testing.fixtures import harness as harness
from tests.social_functions import published

ADD = "def Add(a, b):\n    return a + b"
TWICE = "# {{Add}}\ndef Twice(a):\n    return Add(a, a)"
FOUR = "# {{Twice}}\ndef Four(a):\n    return Twice(Twice(a))"


def draft(harness: Harness, name: str, author: str = "ann", **texts: str) -> None:
    answer = harness.put(f"social-code/functions/{name}/draft", json=texts, headers={"X-Author": author})
    assert answer.status == 202, answer.json


def publish(harness: Harness, name: str, author: str = "ann", **texts: str) -> list[str]:
    """Publish texts; return the ids of the function's versions."""
    draft(harness, name, author, **texts)
    answer = harness.post(f"social-code/functions/{name}/draft/publish", headers={"X-Author": author})
    assert answer.status == 202, answer.json
    versions: list[str] = answer.json["versions"]
    return versions


def save(harness: Harness, name: str, code: str, tests: str = "check(True)") -> list[str]:
    return publish(harness, name, code=code, tests=tests)


def vote(harness: Harness, name: str, version: str, value: int, author: str) -> None:
    path = f"social-code/functions/{name}/versions/{version}/vote"
    assert harness.put(path, json={"value": value}, headers={"X-Author": author}).status == 202


def shown(harness: Harness, name: str) -> dict[str, Any]:
    found: dict[str, Any] = harness.get(f"social-code/functions/{name}").json
    return found


def state(harness: Harness, name: str) -> str:
    return str(shown(harness, name)["state"])


def runs(harness: Harness, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = harness.get(f"social-code/functions/{name}/runs").json["runs"]
    return found


def test_a_published_function_is_tested_with_all_that_depends_on_it(harness: Harness) -> None:
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)\nlog('added')")
    save(harness, "Twice", TWICE, "check(Twice(2) == 4)")
    save(harness, "Four", FOUR, "check(Four(1) == 4)")
    assert (state(harness, "Add"), shown(harness, "Add")["stage"]) == ("pending", "waiting")
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed"] * 3
    assert (shown(harness, "Add")["run"]["logs"], shown(harness, "Add")["stage"]) == ("added\n", "")
    assert (shown(harness, "Twice")["imports"], shown(harness, "Twice")["dependants"]) == (["Add"], ["Four"])

    publish(harness, "Add", code="def Add(a, b):\n    return 3")
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed", "failed", "failed"]
    assert shown(harness, "Four")["run"]["message"] == "check 1 failed"
    assert shown(harness, "Four")["not_implemented"] == ["Twice", "Four"]
    kept = len(runs(harness, "Four"))

    publish(harness, "Add", tests="check(Add(2, 2) == 4)")
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed"] * 3
    assert shown(harness, "Add")["code"] == ADD
    assert len(runs(harness, "Four")) == kept, "the inputs of the first run are back, and so is its result"


def test_the_current_one_passes_all_tests_with_the_most_votes_the_newest_of_several(harness: Harness) -> None:
    first, _ = save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    *_, second = publish(harness, "Add", "bob", code=f"{ADD}  # bob's")
    *_, wrong = publish(harness, "Add", "eve", code="def Add(a, b):\n    return 0")
    harness.run()
    assert shown(harness, "Add")["current"] == second
    vote(harness, "Add", first, 1, "bob")
    vote(harness, "Add", wrong, 1, "eve")
    vote(harness, "Add", wrong, 1, "ann")
    harness.run()
    assert shown(harness, "Add")["current"] == first
    assert {each["id"]: each["votes"] for each in shown(harness, "Add")["versions"]}[wrong] == 2
    assert harness.get("social-code/authors").json["authors"][0] == {"author": "eve", "votes": 2}

    vote(harness, "Add", first, -1, "bob")
    harness.run()
    assert shown(harness, "Add")["current"] == second, "an implementation below zero does not count"
    path = f"social-code/functions/Add/versions/{first}/vote"
    assert harness.delete(path, headers={"X-Author": "bob"}).status == 202
    vote(harness, "Add", first, 1, "ann")
    harness.run()
    assert shown(harness, "Add")["current"] == first


def test_tests_that_are_voted_out_do_not_count(harness: Harness) -> None:
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    *_, wrong = publish(harness, "Add", "eve", tests="check(Add(1, 1) == 3)")
    harness.run()
    assert (shown(harness, "Add")["current"], state(harness, "Add")) == ("", "failed")
    vote(harness, "Add", wrong, -1, "ann")
    harness.run()
    assert state(harness, "Add") == "passed"


def test_a_version_never_changes_and_a_repeat_publishes_nothing(harness: Harness) -> None:
    versions = save(harness, "Add", ADD)
    again = harness.post("social-code/functions/Add/draft/publish", headers={"X-Author": "ann"})
    assert (again.status, again.json["versions"]) == (202, versions)
    assert publish(harness, "Add", "bob", code=ADD) == versions, "the same text is the same version"
    assert len(save(harness, "Add", f"{ADD}\n")) == 3
    assert shown(harness, "Add")["versions"][0]["text"] == ADD
    path = f"social-code/functions/Add/versions/{versions[0]}"
    assert harness.put(path, json={"text": "pass"}).status == 404


def test_a_draft_runs_before_it_is_published_and_only_its_author_sees_it(harness: Harness) -> None:
    draft(harness, "Add", code="def Add(a, b):\n    return a - b", tests="check(Add(1, 2) == 3)")
    harness.run()
    own = harness.get("social-code/functions/Add/draft", headers={"X-Author": "ann"}).json
    assert (own["state"], own["run"]["message"]) == ("failed", "check 1 failed")
    assert harness.get("social-code/functions/Add/draft", headers={"X-Author": "bob"}).status == 404
    drafts = [harness.get("social-code/drafts", headers={"X-Author": who}).json["drafts"] for who in ("ann", "bob")]
    assert drafts == [["Add"], []]
    assert harness.get("social-code/functions/add~draft/runs").status == 404
    assert harness.get("social-code/functions/Add").status == 404
    assert harness.post("social-code/functions/Add/draft/publish", headers={"X-Author": "bob"}).status == 404

    save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    harness.run()
    draft(harness, "Add", "bob", tests="check(Add(0, 0) == 0)\nlog('ran')")
    harness.run()
    own = harness.get("social-code/functions/Add/draft", headers={"X-Author": "bob"}).json
    assert (own["state"], own["run"]["logs"], own["run"]["checks"]) == ("passed", "ran\n", 2)
    assert harness.delete("social-code/functions/Add/draft", headers={"X-Author": "bob"}).status == 204


def test_users_who_signed_in_are_the_authors(harness: Harness) -> None:
    settings.bind(replace(settings.settings(), auth={"social_code": "firebase"}))
    client = harness.functions.app("social_code").test_client()
    ann, bob = ({"Authorization": f"Bearer {user_token(name)}", "X-Author": "eve"} for name in ("ann", "bob"))
    assert client.get("/functions").status_code == 401
    assert client.put("/functions/Add/draft", json={"code": ADD}, headers=ann).status_code == 202
    assert client.post("/functions/Add/draft/publish", headers=bob).status_code == 404
    assert client.post("/functions/Add/draft/publish", headers=ann).status_code == 202
    shown = json.loads(client.get("/functions/Add", headers=bob).data)
    assert [version["author"] for version in shown["versions"]] == ["ann"]


def test_acceptance_tests_of_dependants_name_what_a_new_implementation_breaks(harness: Harness) -> None:
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    accepts = "# {{Add}}\ncheck(Add(-1, -1) == -2, 'Add takes negative numbers')"
    publish(harness, "Twice", "bob", code=TWICE, tests="check(Twice(2) == 4)", acceptance=accepts)
    harness.run()
    assert (shown(harness, "Twice")["acceptance"]["success"], shown(harness, "Twice")["needs_fixing"]) == (True, False)

    positive = "def Add(a, b):\n    return max(a, 0) + max(b, 0)"
    *_, newer = publish(harness, "Add", code=positive)
    harness.run()
    found = shown(harness, "Add")
    assert (found["current"], found["versions"][-1]["breaks"]) == (newer, ["Twice"])
    twice = shown(harness, "Twice")
    assert (twice["state"], twice["needs_fixing"]) == ("passed", True)
    assert twice["acceptance"]["message"] == "Add takes negative numbers"


def test_a_function_is_implemented_only_if_its_imports_are(harness: Harness) -> None:
    save(harness, "Four", FOUR, "check(Four(1) == 4)")
    save(harness, "Twice", TWICE, "check(Twice(2) == 4)")
    harness.run()
    assert (shown(harness, "Four")["current"], state(harness, "Four")) == ("", "failed")
    assert (shown(harness, "Twice")["current"], shown(harness, "Twice")["not_implemented"]) == ("", ["Twice"])
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    harness.run()
    assert [state(harness, name) for name in ("Add", "Twice", "Four")] == ["passed"] * 3
    assert shown(harness, "Four")["not_implemented"] == []
    publish(harness, "Twice", tests="check(Twice(3) == 7)")
    harness.run()
    assert (state(harness, "Four"), shown(harness, "Four")["not_implemented"]) == ("passed", ["Twice"])


def test_another_implementation_of_a_dependant_takes_over_if_the_current_one_fails_with_its_import(
    harness: Harness,
) -> None:
    save(harness, "One", "def One():\n    return 1", "check(One() > 0)")
    publish(
        harness, "Two", code="# {{One}}\ndef Two():\n    return 3 - One() * 0 - (One() == 2)", tests="check(Two() == 2)"
    )
    publish(harness, "Two", "bob", code="# {{One}}\ndef Two():\n    return One() + 1")
    save(harness, "Three", "# {{Two}}\ndef Three():\n    return Two() + 1", "check(Three() == 3)")
    harness.run()
    old, _, newer = (each["id"] for each in shown(harness, "Two")["versions"])
    assert (shown(harness, "Two")["current"], state(harness, "Three")) == (newer, "passed")
    publish(harness, "One", code="def One():\n    return 2")
    harness.run()
    assert (shown(harness, "Two")["current"], state(harness, "Three")) == (old, "passed")


def test_a_name_is_unique_regardless_of_case_and_found_in_any(harness: Harness) -> None:
    save(harness, "Add", ADD)
    refused = harness.put("social-code/functions/ADD/draft", json={"code": ADD})
    assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:name-taken")
    save(harness, "Twice", TWICE.replace("{{Add}}", "{{ aDD }} {{add}}"), "check(Twice(2) == 4)")
    harness.run()
    assert (shown(harness, "tWICE")["imports"], state(harness, "twice")) == (["Add"], "passed")


def test_cycles_and_diamonds_have_each_function_once(harness: Harness) -> None:
    save(harness, "Even", "# {{Odd}} {{Even}}\ndef Even(n):\n    return n == 0 or Odd(n - 1)", "check(Even(0))")
    save(harness, "Odd", "# {{Even}}\ndef Odd(n):\n    return n != 0 and Even(n - 1)", "check(Odd(3))")
    save(harness, "Left", "# {{Even}}\nlog('left')")
    save(harness, "Right", "# {{Even}}\nlog('right')")
    save(harness, "Both", "# {{Left}} {{Right}} {{Odd}}\nlog('both')")
    harness.run()
    publish(harness, "Even", tests="check(Even(4))")
    harness.run()
    names = ("Even", "Odd", "Left", "Right", "Both")
    assert [state(harness, name) for name in names] == ["passed"] * 5
    assert shown(harness, "Both")["run"]["logs"] == "left\nright\nboth\n"
    assert shown(harness, "Even")["dependants"] == ["Left", "Odd", "Right"]


@pytest.mark.slow
def test_functions_that_exclude_each_others_implementations_come_to_rest(harness: Harness) -> None:
    """A's first passes with B's first only, which passes with A's second only, and so on: no choice is right."""
    for name, other, wanted in (("A", "B", (1, 2)), ("B", "A", (2, 1))):
        for number in (1, 2):
            fits = (
                f"def fits_{name}():\n    try:\n        return {other}() == {wanted[number - 1]}\n    except NameError:"
            )
            code = f"# {{{{{other}}}}}\ndef {name}():\n    return {number}\n{fits}\n        return True"
            publish(harness, name, code=code, tests=f"check(fits_{name}())")
    harness.run()
    assert "pending" not in {state(harness, name) for name in ("A", "B")}
    changes = len(documents.versions("social-function~a", limit=100).versions)
    assert changes > 30, "the choice changed until the limit"


def test_an_implementation_that_was_voted_out_gives_way_when_another_one_passes(harness: Harness) -> None:
    save(harness, "One", "def One():\n    return 1", "check(One() > 0)")
    save(harness, "Two", "def Two():\n    return 2", "check(Two() == 2)")
    *_, second = publish(harness, "Two", "bob", code="# {{One}}\ndef Two():\n    return One()")
    harness.run()
    first = shown(harness, "Two")["current"]
    vote(harness, "Two", first, -1, "bob")
    harness.run()
    found = shown(harness, "Two")
    assert (found["current"], found["state"], found["not_implemented"]) == (first, "failed", ["Two"])
    publish(harness, "One", code="def One():\n    return 2")
    harness.run()
    found = shown(harness, "Two")
    assert (found["current"], found["state"], found["not_implemented"]) == (second, "passed", [])


@pytest.mark.parametrize(
    ("name", "body", "where"),
    [
        ("1st", {"code": "x"}, "name"),
        ("a" * 81, {"code": "x"}, "name"),
        ("A", {}, "code"),
        ("A", {"code": "x" * 10_001}, "code"),
        ("A", {"code": "x", "tests": 3}, "tests"),
        ("A", {"code": " ".join(f"{{{{F{n}}}}}" for n in range(51))}, "code"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_the_field(
    harness: Harness, name: str, body: dict[str, Any], where: str
) -> None:
    answer = harness.put(f"social-code/functions/{name}/draft", json=body)
    assert (answer.status, answer.json["field"]) == (400, where)


def test_bad_votes_and_authors_are_refused(harness: Harness) -> None:
    first, _ = save(harness, "Add", ADD)
    path = f"social-code/functions/Add/versions/{first}/vote"
    assert harness.put(path, json={"value": 2}).json["field"] == "value"
    assert harness.put(path, json={"value": True}).status == 400
    assert harness.put(path, json={"value": 1}, headers={"X-Author": "a b"}).json["field"] == "X-Author"
    assert harness.put(path.replace(first, "none"), json={"value": 1}).status == 404


def test_a_function_has_a_bounded_number_of_versions(harness: Harness) -> None:
    for number in range(20):
        save(harness, "Add", f"# {number}", f"check({number} < 99)")
    draft(harness, "Add", code="pass")
    refused = harness.post("social-code/functions/Add/draft/publish", headers={"X-Author": "ann"})
    assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:too-many-versions")


def test_a_function_that_is_too_long_with_its_imports_fails_and_says_so(harness: Harness) -> None:
    for number in range(10):
        save(harness, f"F{number}", "#" * 9_900)
    save(harness, "All", " ".join(f"# {{{{F{n}}}}}" for n in range(10)))
    harness.run()
    assert shown(harness, "All")["run"]["message"] == "it has more than 100 parts or 90,000 bytes with its imports"
    assert state(harness, "F1") == "passed"


def test_versions_that_follow_each_other_quickly_are_tested_together(harness: Harness) -> None:
    for number in range(5):
        save(harness, "Add", f"{ADD}  # {number}")
    harness.run()
    assert (state(harness, "Add"), len(runs(harness, "Add"))) == ("passed", 5)
    assert len(harness.get("social-code/flows/publishing").json["flows"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(duplicate=0.2, late=0.1, lose_answer=0.2, unavailable=0.2, reorder=True, seed=1)],
    ids=lambda faults: f"seed {faults.seed}",
)
def test_a_hubs_new_implementation_runs_each_dependants_tests_once_in_effect(harness: Harness, faults: Faults) -> None:
    """Fifty dependants, some also through others: one run each is kept for the hub's new code."""
    random = Random(faults.seed)
    names = [f"F{number}" for number in range(50)]
    others = [random.choice(names[:number] or ["hub"]).lower() for number in range(50)]
    documents.put_many(
        published(name, ["Hub()"], f"check({name}() == 1)", ["hub", *({other} - {"hub"})])
        for name, other in zip(names, others, strict=True)
    )
    save(harness, "Hub", "def Hub():\n    return 1", "check(Hub() > 0)")
    harness.run()
    assert {state(harness, name) for name in names} == {"passed"}
    save(harness, "Hub", "def Hub():\n    return 2")
    harness.run(faults)
    assert state(harness, "Hub") == "passed"
    assert {state(harness, name) for name in names} == {"failed"}
    assert {len(runs(harness, name)) for name in names} == {2}
    units = list(batch(shown(harness, "Hub")["batch"]).results())
    assert sorted(unit["result"]["name"] for unit in units) == sorted(name.lower() for name in names)


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 8))]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_order_things_arrive_in_the_best_implementation_is_current(harness: Harness, seed: int) -> None:
    """Random publications and votes under faulty deliveries; imports have no cycles, so there is one right choice."""
    random = Random(seed)
    faults = Faults(duplicate=0.2, late=0.1, lose_answer=0.2, unavailable=0.2, reorder=True, seed=seed, late_seconds=5)
    names = ["A", "B", "C", "D"]
    for _ in range(14):
        at = random.randrange(len(names))
        name, author = names[at], random.choice(["ann", "bob"])
        imports = random.sample(names[:at], k=random.randrange(at + 1))
        result = " + ".join(["0", *(f"{each}()" for each in imports), str(random.randrange(3))])
        code = "".join(f"# {{{{{each}}}}}\n" for each in imports) + f"def {name}():\n    return {result}"
        match random.randrange(4):
            case 0:
                test = random.choice([f"check({name}() != {random.randrange(4)})", f"check({name}() < 5)"])
                publish(harness, name, author, tests=test)
            case 1 if found := harness.get(f"social-code/functions/{name}").json.get("versions"):
                vote(harness, name, random.choice(found)["id"], random.choice([1, -1]), author)
            case _:
                publish(harness, name, author, code=code, tests=f"check({name}() >= 0)")
        if random.random() < 0.7:
            harness.travel(random.choice([0.5, 2, 10]), faults, raise_errors=False)
    harness.run(faults, raise_errors=False)
    assert harness.get("failures").json["failures"] == []
    values: dict[str, int] = {}
    for name in names:
        found = harness.get(f"social-code/functions/{name}").json
        if "versions" not in found:
            continue
        runs = {each["id"]: each["run"] for each in found["versions"] if each["kind"] == "code" and each["votes"] >= 0}
        assert None not in runs.values(), "an implementation was not tested with the present code of its imports"
        values_of = {each["id"]: value_of(each["text"], values) for each in found["versions"] if each["kind"] == "code"}
        tests = [each["text"] for each in found["versions"] if each["kind"] == "tests" and each["votes"] >= 0]
        passing = [
            (each["votes"], each["number"], each["id"])
            for each in found["versions"]
            if each["id"] in runs and tests and all(holds(test, values_of[each["id"]]) for test in tests)
        ]
        assert {each for each, run in runs.items() if run["success"]} == {each for _, _, each in passing}
        if passing:
            assert found["current"] == max(passing)[2]
        if found["current"] and (value := values_of[found["current"]]) is not None:
            values[name] = value


def value_of(code: str, values: dict[str, int]) -> int | None:
    """Return what an implementation returns with these values of its imports, or None if one of them is missing."""
    parts = code.rpartition("return ")[2].split(" + ")
    found = [int(part) if part.isdigit() else values.get(part.removesuffix("()")) for part in parts]
    return None if None in found else sum(each for each in found if each is not None)


def holds(test: str, value: int | None) -> bool:
    """Return whether a test of the form ``check(NAME() < 5)`` passes with a value."""
    _, operator, number = test.removesuffix(")").split(" ")
    if value is None:
        return False
    return {"!=": value != int(number), "<": value < int(number), ">=": value >= int(number)}[operator]


def test_a_hubs_first_dependants_are_shown(harness: Harness) -> None:
    documents.put_many(published(f"F{number}", ["1"], "check(True)", ["Hub"]) for number in range(201))
    save(harness, "Hub", "pass")
    assert (len(shown(harness, "Hub")["dependants"]), shown(harness, "Hub")["more_dependants"]) == (200, True)


@pytest.mark.marathon
def test_a_hub_with_more_dependants_than_one_call_may_read(harness: Harness) -> None:
    names = [f"F{number}" for number in range(502)]
    for some in (names[:251], names[251:]):
        documents.put_many(published(name, ["Hub()"], f"check({name}() == 2)", ["Hub"]) for name in some)
    save(harness, "Hub", "def Hub():\n    return 2", "check(Hub() > 0)")
    harness.run()
    assert harness.get("failures").json["failures"] == []
    assert {state(harness, name) for name in names[::50]} == {"passed"}
    assert documents.count(("type", "==", "SocialRun"), ("success", "==", True)) == 502 + 2


@pytest.mark.parametrize(
    "added",
    [
        {"key": "payroll", "salary": 1_000_000},
        {"run_id": "another", "run_of": "Other", "type": "Payroll", "name": "Other"},
        {"logs": "x" * 10**6, "message": "y" * 10**6},
        {"success": "yes"},
        {"checks": 10**30},
        {"message": "half a character: \ud800"},
        {"logs": "\udfff"},
    ],
)
def test_an_answer_of_the_sandbox_chooses_nothing_that_is_stored(harness: Harness, added: dict[str, Any]) -> None:
    documents.put("payroll", {"salary": 100})
    sandbox = Function("social_sandbox")

    @sandbox.http("POST", "/runs")
    def hostile(request: Request) -> dict[str, Any]:
        result = {"success": True, "message": "", "logs": "", "checks": 1, **added}
        return {"results": [result for _ in parse(request.json_object()["runs"], list[Any])]}

    harness.add(sandbox)
    save(harness, "Add", ADD, "check(Add(1, 2) == 3)")
    harness.run()
    assert documents.get("payroll")["salary"] == 100
    run = shown(harness, "Add")["run"]
    assert run["success"] is ("success" not in added)
    assert (len(run["message"]) <= 500, len(run["logs"]) <= 10_000) == (True, True)
