"""The gazetteer's input and expectations: pure, so the job's checks rest on nothing that the service has said."""

import pytest

from examples.gazetteer.data import (
    Document,
    bare,
    canonical,
    cities_by_continent,
    cities_by_country,
    gazetteer,
    matching,
    shown,
)
from signalbox.core.keys import check_key
from signalbox.documents.model.stamped_contents import check_body


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return gazetteer(3_000)


def test_the_default_holds_every_continent_every_country_and_the_most_populous_cities(
    documents: dict[str, Document],
) -> None:
    types = [each["type"] for each in documents.values()]
    assert (types.count("continent"), types.count("city")) == (7, 3_000)
    assert 240 <= types.count("country") <= 260
    assert documents["city-1850147"]["name"] == "Tokyo"
    assert documents["city-1850147"]["country"] == {"key": "country-JP"}


def test_fewer_cities_are_the_most_populous_of_more(documents: dict[str, Document]) -> None:
    cities = {key: each["population"] for key, each in documents.items() if each["type"] == "city"}
    ten = {key for key, each in gazetteer(10).items() if each["type"] == "city"}
    assert len(ten) == 10
    assert min(cities[key] for key in ten) >= max(cities[key] for key in cities.keys() - ten)


def test_without_a_number_all_cities_come() -> None:
    assert len(gazetteer(None)) > 30_000


def test_codes_of_continents_and_countries_do_not_collide(documents: dict[str, Document]) -> None:
    assert documents["continent-AF"]["name"] == "Africa"
    assert documents["country-AF"]["name"] == "Afghanistan"


def test_every_link_leads_to_a_document_of_the_right_type(documents: dict[str, Document]) -> None:
    targets = [
        (each["type"], documents[each[link]["key"]]["type"])
        for each in documents.values()
        for link in each
        if link in ("country", "continent")
    ]
    assert set(targets) == {("city", "country"), ("country", "continent")}


def test_the_kit_accepts_every_document(documents: dict[str, Document]) -> None:
    for key, document in documents.items():
        assert canonical(check_body(check_key(key), document).content) == canonical(document)


def test_a_city_is_shown_with_its_country_and_that_with_its_continent(documents: dict[str, Document]) -> None:
    country = shown("city-1850147", documents)["country"]
    assert (country["key"], country["name"], country["capital"]) == ("country-JP", "Japan", "Tokyo")
    assert country["continent"] == {"key": "continent-AS", **documents["continent-AS"]}


def test_a_link_to_a_missing_document_is_shown_as_missing() -> None:
    documents: dict[str, Document] = {"city-1": {"type": "city", "country": {"key": "country-XX"}}}
    expected = {"key": "city-1", "type": "city", "country": {"key": "country-XX", "link_missing": True}}
    assert shown("city-1", documents) == expected


def test_bare_undoes_shown_for_every_document(documents: dict[str, Document]) -> None:
    assert {key: bare(shown(key, documents)) for key in documents} == documents


def test_matching_reaches_into_copies_of_copies(documents: dict[str, Document]) -> None:
    answers = {key: shown(key, documents) for key in documents}
    found = matching({"country.continent.name": "Oceania"}, answers)
    assert {each["country"]["continent"]["key"] for each in found.values()} == {"continent-OC"}
    assert len(found) == dict(cities_by_continent(documents))["continent-OC"] > 0
    assert matching({"country.link_missing": True}, answers) == {}


def test_ranks_count_every_city_once_and_put_the_most_first(documents: dict[str, Document]) -> None:
    for rank in (cities_by_country(documents), cities_by_continent(documents)):
        counts = [cities for _, cities in rank]
        assert sum(counts) == 3_000
        assert counts == sorted(counts, reverse=True)
    assert cities_by_country(documents)[0][0] == "country-CN"
    assert cities_by_continent(documents)[0][0] == "continent-AS"


def test_canonical_distinguishes_numbers_and_booleans() -> None:
    assert len({canonical({"n": value}) for value in (1, 1.0, True, "1", None)}) == 5
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
