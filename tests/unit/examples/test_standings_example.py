"""The example on real input ends with exact standings, and notices one that is not."""

from unittest import mock

from examples.local import standings as example
from shared.standings.rules.tallies import Tally


def test_every_standing_of_the_worlds_cities_equals_a_recount() -> None:
    assert example.run(80) == []


def test_a_sum_that_is_wrong_is_noticed() -> None:
    with mock.patch.object(Tally, "__add__", lambda self, other: Tally(self.count + other.count, self.values)):
        assert example.run(20)
