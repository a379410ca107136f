"""The atlas, loaded with the world's countries and some of its cities, changed and compared."""

import pytest

from examples.local import atlas
from shared.testing import Harness


def test_every_answer_of_the_atlas_equals_the_input() -> None:
    assert atlas.run(60) == []


def test_a_city_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    held = atlas.world(3)
    monkeypatch.setattr(atlas, "world", lambda _: held)
    id_ = next(iter(held["cities"]))
    real = atlas.shown

    def shown(world: atlas.World, resource: str, item: str) -> dict[str, object]:
        return real(world, resource, item) | ({"name": "Atlantis"} if item == id_ else {})

    monkeypatch.setattr(atlas, "shown", shown)
    with Harness() as harness:
        assert any(id_ in each for each in atlas._loaded(harness, held))
