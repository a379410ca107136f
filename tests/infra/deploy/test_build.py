"""The executor takes a build file as Cloud Build does, or refuses it."""

from typing import Any

import pytest

from tests.infra.deploy.cloud_build import Refused, build, substituted


def ran(*steps: dict[str, Any], status: int = 0, **substitutions: str) -> list[tuple[list[str], str, dict[str, str]]]:
    """Run steps that all end with a status; return what was run."""
    calls = []

    def run(*call: Any) -> int:
        calls.append(call)
        return status

    build({"steps": [{"name": "image", "entrypoint": "do", **step} for step in steps]}, "/here", run, **substitutions)
    return calls


@pytest.mark.parametrize(
    ("text", "result"),
    [("$_A/${_A}b", "1/1b"), ("$$(date) $$_A", "$(date) $_A"), ("$lower ${_A}", "$lower 1"), ("$PROJECT_ID", "p")],
)
def test_substitutions_are_put_in_and_doubled_dollars_are_one(text: str, result: str) -> None:
    assert substituted(text, {"_A": "1", "PROJECT_ID": "p"}) == result


def test_a_step_runs_its_arguments_in_its_folder_with_its_variables() -> None:
    step = {"id": "a", "args": ["$_A", "/workspace/x"], "dir": "infra", "env": ["PLACE=/workspace", "B=c=d"]}
    assert ran(step, _A="1") == [(["do", "1", "/here/x"], "infra", {"PLACE": "/here", "B": "c=d"})]


def test_steps_that_do_not_wait_for_each_other_run_in_the_least_expected_order() -> None:
    steps: list[dict[str, Any]] = [
        {"id": "a"},
        {"id": "b", "waitFor": ["-"]},
        {"id": "c", "waitFor": ["a"]},
        {"id": "d"},
    ]
    named = [{**step, "args": [step["id"]]} for step in steps]
    assert [command[1] for command, *_ in ran(*named)] == ["b", "a", "c", "d"]


def test_a_step_that_fails_ends_the_build() -> None:
    assert len(ran({"id": "a"}, {"id": "b"}, status=1)) == 1


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"id": "a", "args": ["$_NOBODY"]}, "no substitution is called _NOBODY"),
        ({"id": "a", "waitFor": ["later"]}, "waits for what is not above it"),
        ({"id": "a", "secretEnv": ["x"]}, "not known here"),
    ],
)
def test_what_cloud_build_would_refuse_or_does_not_know_is_refused(step: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        ran(step)


def test_a_substitution_that_nothing_refers_to_is_refused() -> None:
    with pytest.raises(Refused, match="nothing refers to"):
        ran({"id": "a"}, _UNUSED="1")
