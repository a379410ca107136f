"""Items whose documents have versions: each change of an item is one, in the commit of the change."""

from typing import Annotated

from signalbox import Function, RefersTo, add_resource, documents
from signalbox.history.model import HISTORY, HistoryRule
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness


class Town:
    name: str


class Street:
    name: str
    town: Annotated[str, RefersTo("towns", on_delete="cascade")]


def test_each_change_of_an_item_is_a_version(harness: Harness) -> None:
    app = Function("atlas")
    add_resource(app, Town, "/towns", ids_from_clients=True)
    harness.add(app)
    with HISTORY.replaced([HistoryRule(prefix="towns~")]):
        harness.put("atlas/towns/1", json={"name": "Rome"})
        harness.put("atlas/towns/1", json={"name": "Roma"})
        harness.run()
        latest, first = documents.versions("towns~1").versions
        held = [documents.get_version("towns~1", each.version) or {} for each in (first, latest)]
        assert [each["name"] for each in held] == ["Rome", "Roma"]


def test_a_deletion_is_a_version_of_the_item_and_of_what_goes_with_it(harness: Harness) -> None:
    app = Function("atlas")
    add_resource(app, Town, "/towns", ids_from_clients=True)
    add_resource(app, Street, "/streets", ids_from_clients=True)
    harness.add(app)
    with HISTORY.replaced([HistoryRule(prefix="towns~"), HistoryRule(prefix="streets~")]):
        harness.put("atlas/towns/1", json={"name": "Rome"})
        harness.put("atlas/streets/1", json={"name": "Via Appia", "town": "1"})
        harness.run()
        assert harness.delete("atlas/towns/1").status == 204
        for key in ("towns~1", "streets~1"):
            latest, first = documents.versions(key).versions
            assert (latest.action, first.action) == ("delete", "put")
            assert documents.get_version(key, latest.version) is None
