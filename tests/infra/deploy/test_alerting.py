"""The recipient of the alerts is asked for once, and the answer is written into the environment's file."""

import json

import pytest

from signalbox_tools.deploy import deployment_target
from signalbox_tools.deploy.alert_address import offer
from signalbox_tools.deploy.confirmation import Aborted
from tests.infra.deploy.gcloud import PROJECT


def offered(place: deployment_target.Target, answer: str) -> tuple[str | None, list[str]]:
    """Return the setting after the question was answered so, and the questions."""
    asked = list[str]()

    def agree(question: str) -> str:
        asked.append(question)
        return answer

    offer(deployment_target.read(PROJECT, "dev", root=place.root), lambda _: None, agree)
    return (deployment_target.read(PROJECT, "dev", root=place.root).settings or {}).get("alert_email"), asked


def test_an_address_is_written_into_the_file_and_not_asked_for_again(place: deployment_target.Target) -> None:
    file = place.root / "environments" / "dev.tfvars.json"
    before = dict(place.settings or {})
    assert offered(place, "ops@example.com")[0] == "ops@example.com"
    assert json.loads(file.read_text()) == {**before, "alert_email": "ops@example.com"}
    assert file.read_text().startswith('{\n  "environment": "dev",\n')
    assert offered(place, "other@example.com") == ("ops@example.com", [])


def test_no_ends_the_question_and_nothing_leaves_it_open(place: deployment_target.Target) -> None:
    assert (len(offered(place, "")[1]), offered(place, "yes")[0]) == (1, None)
    assert offered(place, "no")[0] is None
    assert "alert_email" in json.loads((place.root / "environments" / "dev.tfvars.json").read_text())
    assert offered(place, "ops@example.com") == (None, [])


@pytest.mark.parametrize("answer", ["ann", "ann@home", 'a"@b.org', "a@b.org ${x}"])
def test_an_invalid_address_stops_before_any_change(place: deployment_target.Target, answer: str) -> None:
    with pytest.raises(Aborted, match="not an e-mail address"):
        offered(place, answer)
    assert offered(place, "")[0] is None
