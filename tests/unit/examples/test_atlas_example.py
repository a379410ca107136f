"""The atlas, loaded with the world's countries and some of its cities, changed and compared."""

from typing import Any

import pytest

from examples.local import atlas
from signalbox.testing import Harness


@pytest.mark.slow
def test_every_answer_of_the_atlas_equals_the_input() -> None:
    assert atlas.run(60) == []


def test_a_country_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real = atlas.world(1), atlas.shown
    held: atlas.World = {**whole, "countries": dict([*whole["countries"].items()][:2]), "cities": {}}
    changed = next(iter(held["countries"]))

    def shown(world: atlas.World, resource: str, id_: str) -> dict[str, Any]:
        return real(world, resource, id_) | ({"name": "Atlantis"} if id_ == changed else {})

    monkeypatch.setattr(atlas, "shown", shown)
    with Harness() as harness:
        first, again = atlas._loaded(harness, held)
    assert first.startswith(f"countries/{changed}: 201")
    assert again == f"after loading: countries differ in ['{changed}']"
