"""Which queries Firestore serves by itself, and which index the others need."""

import pytest

from signalbox.core.records import composite_indexes
from signalbox.documents.requests import FindRequest


def lacking(*where: str, order_by: tuple[str, ...] = (), declared: tuple[tuple[str, ...], ...] = ()) -> str:
    """Return the fields of the index that a query of documents lacks, in one text; empty: it is served."""
    search = FindRequest.from_request(where, order_by, "", "")
    known = [composite_indexes.parse("documents", fields) for fields in declared]
    index = composite_indexes.lacking("documents", search.where, search.order_by, known)
    return "" if index is None else " ".join(map(str, index.fields))


@pytest.mark.parametrize(
    ("where", "order_by"),
    [
        ((), ()),
        (("a==1",), ()),
        (("a==1", "b.c==2", "d==null"), ()),
        (("a in [1,2]", "b==2"), ()),
        (("a==1", "l contains 2", "b in [1,2]"), ()),
        (("a>1",), ()),
        (("a>1", "a<=5"), ("-a",)),
        (("a!=1",), ()),
        ((), ("a",)),
        ((), ("-a",)),
        (("a==1",), ("a",)),
        (("a in [1,2]",), ("-a",)),
        (("key==k",), ("a",)),
        (("key>k", "a==1"), ()),
        (("key>k",), ("a",)),
    ],
)
def test_these_are_served_from_the_indexes_of_single_fields(where: tuple[str, ...], order_by: tuple[str, ...]) -> None:
    assert lacking(*where, order_by=order_by) == ""


@pytest.mark.parametrize(
    ("where", "order_by", "needed"),
    [
        (("a==1", "b>2"), (), "a b"),
        (("b>2", "a==1"), ("-b",), "a -b"),
        (("a==1",), ("b",), "a b"),
        (("a in [1,2]",), ("-b",), "a -b"),
        (("a.zip==1", "c==2"), ("-b",), "a.zip c -b"),
        (("l contains 1",), ("b",), "l[] b"),
        (("l contains 1", "a==1", "b!=2"), (), "a l[] b"),
        ((), ("a", "-b"), "a -b"),
        (("a>1", "b<2"), (), "a b"),
        (("a>1",), ("b",), "b a"),
        (("a>1",), ("-b",), "-b -a"),
        (("a==1",), ("a", "b"), "a b"),
        (("l contains 1",), ("l",), "l[] l"),
    ],
)
def test_these_need_an_index_and_exactly_this_one(
    where: tuple[str, ...], order_by: tuple[str, ...], needed: str
) -> None:
    assert lacking(*where, order_by=order_by) == needed
    assert lacking(*where, order_by=order_by, declared=(tuple(needed.split()),)) == ""


@pytest.mark.parametrize(
    ("where", "order_by", "declared"),
    [
        (("a==1", "c==2"), ("b",), ("c", "a", "b")),
        (("a==1", "c==2"), ("b",), ("-c", "a", "b")),
        (("a==1",), ("-b",), ("a", "b")),
        ((), ("a", "-b"), ("-a", "b")),
    ],
)
def test_equalities_may_come_in_any_order_and_an_index_is_read_both_ways(
    where: tuple[str, ...], order_by: tuple[str, ...], declared: tuple[str, ...]
) -> None:
    assert lacking(*where, order_by=order_by, declared=(declared,)) == ""


@pytest.mark.parametrize(
    ("where", "order_by", "declared"),
    [
        (("a==1",), ("b",), ("b", "a")),
        (("a==1",), ("b",), ("a", "b", "c")),
        (("a==1",), ("b",), ("a", "c", "b")),
        (("a==1",), ("b",), ("a[]", "b")),
        (("a contains 1",), ("b",), ("a", "b")),
        ((), ("a", "-b"), ("a", "b")),
        (("a==1", "c==2"), ("b",), ("a", "b")),
    ],
)
def test_another_index_does_not_serve(
    where: tuple[str, ...], order_by: tuple[str, ...], declared: tuple[str, ...]
) -> None:
    assert lacking(*where, order_by=order_by, declared=(declared,)) != ""


def test_indexes_that_end_alike_are_merged_for_equalities_but_not_for_in() -> None:
    both = (("a", "b"), ("c", "b"))
    assert lacking("a==1", "c==2", order_by=("b",), declared=both) == ""
    assert lacking("a==1", "c==2", order_by=("-b",), declared=both) == ""
    assert lacking("a==1", "c in [2,3]", order_by=("b",), declared=both) == "a c b"
    assert lacking("a==1", "c==2", order_by=("b",), declared=(("a", "b"), ("c", "-b"))) == "a c b"


def test_an_index_is_of_the_collections_with_its_id_wherever_they_lie() -> None:
    search = FindRequest.from_request(["a==1"], ["b"], "", "")
    declared = [composite_indexes.parse("units", ("a", "b"))]
    assert composite_indexes.lacking("batches/x/units", search.where, search.order_by, declared) is None
    assert composite_indexes.lacking("units/x/others", search.where, search.order_by, declared) is not None


def test_an_index_is_written_as_the_entry_to_declare() -> None:
    index = composite_indexes.parse("documents", ["address.zipcode", "tags[]", "-Name"])
    assert str(index) == (
        'documents-address-zipcode-tags-name: {collection: documents, fields: ["address.zipcode", "tags[]", "-Name"]}'
    )


@pytest.mark.parametrize(
    "fields",
    [(), ("a",), ("a", "a"), ("a", ""), ("a", "b..c"), ("a[]", "b[]"), ("-a[]", "b"), ("a", "-")],
)
def test_an_invalid_index_is_refused(fields: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"an index|fields is"):
        composite_indexes.parse("documents", fields)
