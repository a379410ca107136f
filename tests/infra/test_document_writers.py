"""A catalogue that says that only the kit writes documents: their events call nothing, and users' own triggers stay."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from signalbox.adapters.settings import from_environment
from signalbox.catalogue.reading import load
from signalbox.catalogue.writing import written
from signalbox.core.kit_names import KIT, LINK_FAN_OUT
from tests.infra import applied_state
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.stack_from_state import settings_of
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTION = "google_cloudfunctions2_function"


def of_the_kit(catalogue: dict[str, Any]) -> None:
    """Let only the kit write documents."""
    catalogue["documents"] = {"written_by": KIT}


@pytest.fixture(scope="module")
def applied(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("kit"), google, zips)
        made.edit_catalogue(of_the_kit)
        made.initialise()
        made.apply()
        yield made


@pytest.fixture(scope="module")
def resources(applied: Workspace) -> Mapping[str, Resource]:
    return applied.resources()


def test_no_function_has_a_trigger_of_documents(resources: Mapping[str, Resource]) -> None:
    functions = [each.values for each in resources.values() if each.kind == FUNCTION]
    triggered = {each["build_config"][0]["entry_point"] for each in functions if each["event_trigger"]}
    assert triggered == {"standing_count"}
    assert len(functions) == len(load().functions) - 1


def test_the_function_of_their_events_has_no_account(resources: Mapping[str, Resource]) -> None:
    assert not [address for address in resources if LINK_FAN_OUT in address or "link-fan-out" in address]


def test_every_function_knows_it_and_the_local_stack_of_this_state_too(applied: Workspace, tmp_path: Path) -> None:
    folders = {name: function.folder for name, function in load().functions.items()}
    found = applied_state.read(json.loads(json.dumps(applied.shown())), folders, load().root)
    assert {from_environment(each).document_writers for each in found.environments.values()} == {KIT}
    assert (found.catalogue.document_writers, settings_of(found).document_writers) == (KIT, KIT)
    assert yaml.safe_load(written(found.catalogue))["documents"] == {"written_by": KIT}


def test_a_second_apply_changes_nothing(applied: Workspace) -> None:
    assert not applied.differs()
