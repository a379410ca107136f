"""Items whose documents have versions: each change of an item is one, in the commit of the change."""

from shared.history.rules.selection import HISTORY, HistoryRule
from shared.kit import Function, add_resource, documents
from shared.testing import Harness
from shared.testing.fixtures import harness as harness


class Town:
    name: str


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
