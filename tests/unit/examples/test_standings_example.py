"""The example on real input ends with exact standings, and notices one that is not."""

from pathlib import Path
from unittest import mock

from examples.local import standings as example
from examples.standings.data import cities, ratings
from signalbox.standings.model.exact_sums import Tally


def test_every_standing_of_the_worlds_cities_equals_a_recount() -> None:
    assert example.run(cities(80)) == []


def test_every_standing_of_rated_films_equals_a_recount(tmp_path: Path) -> None:
    file = tmp_path / "ratings"
    lines = (f"{number % 9}\t{number // 9}\t{number % 5 + 1}\t{881250949 + number * 9000}" for number in range(60))
    file.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + "\n".join(lines))
    found = ratings(file, 50)
    assert (len(found), found[0].attributes) == (50, {"day": "1997-12-04"})
    assert example.run(found) == []


def test_a_sum_that_is_wrong_is_noticed() -> None:
    with mock.patch.object(Tally, "__add__", lambda self, other: Tally(self.count + other.count, self.values)):
        assert example.run(cities(20))
