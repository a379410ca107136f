"""The steps of the job, as values: the changes, the conditions that every copy has followed, and the queries.

Pure. Each step has the bare documents as they must be after it. The expected answer of any query follows from those
alone (`data.shown`, `data.matching`), so no check depends on an earlier answer of the service.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from examples.gazetteer.data import (
    Condition,
    Document,
    Documents,
    cities_by_continent,
    cities_by_country,
    is_link,
    shown,
)

TYPES = ("continent", "country", "city")
BY_TYPE = tuple({"type": name} for name in TYPES)
EARLY_COUNTRIES = 1
"""Countries, those with the most cities first, that a load puts after their cities."""

READ_EVERY = 10
"""Of this many documents, the last step reads one by its key. It reads all of them by their type."""

MISSING = tuple({f"{field}.link_missing": True} for field in ("country", "continent", "country.continent"))


@dataclass(frozen=True, slots=True)
class Change:
    """Put this content under the key, or delete the document there (None)."""

    key: str
    content: Document | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `queries` run at its end, and `reads` are read one by one.

    `stale` are conditions that no document meets once every copy has followed: cheap to poll, one read each.
    """

    name: str
    summary: str
    before: Documents
    after: Documents
    changes: tuple[Change, ...] = ()
    stale: tuple[Condition, ...] = ()
    queries: tuple[Condition, ...] = ()
    reads: tuple[str, ...] = ()

    def affected(self) -> list[str]:
        """Return the keys of documents that have to follow: those with a link that shows something else than before.

        A document that the step puts after its targets need not follow, since its put fills its links.
        """
        position = {change.key: place for place, change in enumerate(self.changes)}
        differing = (key for key in self.after if _links_shown(key, self.after) != _links_shown(key, self.before))
        return [key for key in differing if _has_later_target(key, self.after, position)] if self.changes else []


def plan(documents: Documents, seed: int = 7) -> Iterator[Step]:
    """Iterate over the whole job: load, rename, rename across two links, delete, create again, query, verify."""
    [(country, cities), (other, others), *_] = cities_by_country(documents)
    yield _load(documents, seed)
    step = _rename(documents, country, f"{cities:,} cities", "country")
    yield step
    continent = _largest_continent(step.after)
    step = _rename(step.after, continent, "its countries, and all their cities", "continent")
    yield step
    step = _delete(step.after, other, others)
    yield step
    yield _create(step.after, other, step.before[other], others)
    yield _query_by_copies(step.before)
    yield _verify(step.before)


def removal(documents: Documents) -> Step:
    """Return the step that deletes everything: the cities first, so that no copy has to be refreshed."""
    keys = sorted(documents, key=lambda key: TYPES.index(documents[key]["type"]), reverse=True)
    changes = tuple(Change(key, None) for key in keys)
    return Step("remove", f"{len(keys):,} documents go", documents, {}, changes, queries=BY_TYPE)


def _load(documents: Documents, seed: int) -> Step:
    """Load the cities of some countries before these countries, so their copies must be refreshed.

    The other cities find their countries.
    """
    keys = list(documents)
    random.Random(seed).shuffle(keys)  # noqa: S311  the same order in every run
    late = {country for country, _ in cities_by_country(documents)[:EARLY_COUNTRIES]}
    early = [key for key in keys if documents[key].get("country", {}).get("key") in late]
    others = sorted(set(keys) - set(early), key=lambda key: (TYPES.index(documents[key]["type"]), key))
    changes = tuple(Change(key, documents[key]) for key in (*early, *others))
    summary = f"{len(documents):,} documents in bulk calls, {len(early):,} cities before their country"
    return Step("load", summary, {}, documents, changes, MISSING, BY_TYPE)


def _rename(documents: Documents, key: str, whose: str, kind: str) -> Step:
    name = documents[key]["name"]
    content = documents[key] | {"name": f"{name} (renamed)"}
    summary = f"{name} becomes {content['name']}: {whose}"
    links = ("country",) if kind == "country" else ("continent", "country.continent")
    return Step(
        f"rename a {kind}",
        summary,
        documents,
        {**documents, key: content},
        (Change(key, content),),
        tuple({f"{link}.name": name} for link in links),
        tuple({f"{link}.key": key} for link in links),
        (key,),
    )


def _delete(documents: Documents, key: str, cities: int) -> Step:
    name = documents[key]["name"]
    after = {each: content for each, content in documents.items() if each != key}
    summary = f"{name} goes: link_missing in each of its {cities:,} cities"
    missing = ({"country.key": key}, {"country.link_missing": True}, {"country.name": name})
    return Step(
        "delete a country", summary, documents, after, (Change(key, None),), ({"country.name": name},), missing, (key,)
    )


def _create(documents: Documents, key: str, content: Document, cities: int) -> Step:
    summary = f"{content['name']} comes back, and into each of its {cities:,} cities"
    queries = ({"country.key": key}, {"country.link_missing": True})
    after = {**documents, key: content}
    return Step("create it again", summary, documents, after, (Change(key, content),), MISSING[:1], queries, (key,))


def _query_by_copies(documents: Documents) -> Step:
    """Query by fields of copies: the cities of each continent by the name in the copy of their country's copy."""
    continents = tuple({"country.continent.name": documents[key]["name"]} for key, _ in cities_by_continent(documents))
    countries = tuple({"country.name": documents[key]["name"]} for key, _ in cities_by_country(documents)[:5])
    summary = "the cities of every continent and of five countries, by the names in their copies"
    return Step("query by copies", summary, documents, documents, queries=continents + countries)


def _verify(documents: Documents) -> Step:
    """Read all documents back in lists by type, and some of each type by key: both return the same content."""
    summary = f"every document read back by its type, and every {READ_EVERY}th by its key"
    return Step("verify all", summary, documents, documents, queries=BY_TYPE, reads=tuple(documents)[::READ_EVERY])


def _largest_continent(documents: Documents) -> str:
    return cities_by_continent(documents)[0][0]


def _has_later_target(key: str, documents: Documents, position: Mapping[str, int]) -> bool:
    """Return whether a document was put before a document to which it links, or was not put."""
    targets = [value["key"] for value in documents[key].values() if is_link(value)]
    return key not in position or any(position.get(target, -1) > position[key] for target in targets)


def _links_shown(key: str, documents: Documents) -> list[Document]:
    if key not in documents:
        return []
    return [value for value in shown(key, documents).values() if is_link(value)]
