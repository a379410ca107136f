"""A refused edit of a copy names the document to edit: the innermost copy that has all changes."""

from typing import Any

import pytest

from signalbox.documents.machine.patches import Null, patched
from signalbox.documents.problems import EditsACopy

ORDER = {
    "bike": {
        "key": "bike-2",
        "name": "Blue",
        "customer": {"key": "cid", "name": "Cid", "home": {"key": "ulm", "city": "Ulm"}},
        "lock": {"code": 7},
    }
}


@pytest.mark.parametrize(
    ("patch", "source", "place"),
    [
        ({"bike": {"name": "Red"}}, "bike-2", "bike"),
        ({"bike": {"lock": {"code": 8}}}, "bike-2", "bike"),
        ({"bike": {"customer": {"name": "Dee"}}}, "cid", "bike.customer"),
        ({"bike": {"name": "Blue", "customer": {"name": "Dee"}}}, "cid", "bike.customer"),
        ({"bike": {"customer": {"home": {"city": "Bonn"}}}}, "ulm", "bike.customer.home"),
        ({"bike": {"customer": {"name": "Dee", "home": {"city": "Bonn"}}}}, "cid", "bike.customer"),
        ({"bike": {"name": "Red", "customer": {"name": "Dee"}}}, "bike-2", "bike"),
        ({"bike": {"customer": {"key": "eve", "name": "Eve"}}}, "bike-2", "bike"),
        ({"bike": {"customer": None}}, "bike-2", "bike"),
    ],
)
@pytest.mark.parametrize("null", list(Null))
def test_a_refused_edit_names_the_document_that_has_the_changed_members(
    patch: dict[str, Any], source: str, place: str, null: Null
) -> None:
    with pytest.raises(EditsACopy, match=f'a copy of the document "{source}": edit that document') as refused:
        patched(ORDER, patch, null)
    assert refused.value.field == place
