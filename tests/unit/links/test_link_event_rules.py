"""The reaction to an event of a document: which client wrote it, which copies it brought in, what must follow."""

import pytest

from signalbox.documents.machine import reactions
from signalbox.documents.machine.reactions import Reaction
from signalbox.documents.model.contents import Content, Surveyed, digest_of
from signalbox.documents.model.stamped_contents import Author, Document, Stamp


def document(content: Content, author: Author = "put", *, version: int = 1, linked: bool | None = False) -> Document:
    return Document(Surveyed(content), Stamp(version, author, digest_of(content)), linked)


LINKING_A = {"n": 1, "a": {"key": "t", "x": 1}}
LINKING_B = {"n": 1, "a": {"key": "t", "x": 2}}
FOREIGN = Document(Surveyed({"n": 2}))
CHANGED_UNDER_ITS_STAMP = Document(Surveyed({"n": 2}), Stamp(3, "put", digest_of({"n": 1})), linked=True)


@pytest.mark.parametrize(
    ("before", "after", "reaction"),
    [
        (None, None, Reaction()),
        (None, document({}), Reaction(check_wanted_note=True)),
        (None, document(LINKING_A), Reaction(check_wanted_note=True, verify_targets=("t",))),
        (None, document({}, linked=True), Reaction(start_fan_out=True)),
        (document({}), document({"n": 1}, version=2), Reaction()),
        (document({}, linked=True), document({"n": 1}, version=2, linked=True), Reaction(start_fan_out=True)),
        (document({}, linked=None), document({"n": 1}, version=2, linked=True), Reaction(start_fan_out=True)),
        (document({}, linked=True), document({}, version=2, linked=True), Reaction()),
        (document({}), document({}, linked=True), Reaction()),
        (document({}), None, Reaction()),
        (document({}, linked=True), None, Reaction(start_fan_out=True)),
        (FOREIGN, None, Reaction(start_fan_out=True)),
        (document({}, linked=True), document({"n": 1.0}, version=2, linked=True), Reaction(start_fan_out=True)),
    ],
    ids=[
        "nothing and nothing",
        "created",
        "created with a link",
        "created and known to be wanted",
        "changed, not embedded",
        "changed, embedded",
        "changed, perhaps embedded",
        "put as it was",
        "marked as embedded",
        "deleted, not embedded",
        "deleted, embedded",
        "deleted, perhaps embedded",
        "changed only in kind",
    ],
)
def test_reaction_to_the_kits_own_write(before: Document | None, after: Document | None, reaction: Reaction) -> None:
    assert reactions.react(before, after) == reaction


@pytest.mark.parametrize(
    ("before", "after", "verified"),
    [
        (document(LINKING_A), document(LINKING_B, version=2), ("t",)),
        (document(LINKING_A), document({**LINKING_A, "n": 2}, version=2), ()),
        (document(LINKING_A), document({**LINKING_A, "b": {"key": "u"}}, version=2), ("u",)),
        (document(LINKING_A), document({"n": 1}, version=2), ()),
        (document({"l": [LINKING_A["a"]]}), document({"l": [0, LINKING_A["a"]]}, version=2), ("t",)),
        (document({}), document({"l": [{"key": "u"}, {"key": "t"}, {"key": "u"}]}, version=2), ("t", "u")),
        (document({}), document({"a": {"key": None}, "b": {"key": "x/y"}}, version=2), ()),
        (FOREIGN, document(LINKING_A, version=2, linked=True), ("t",)),
        (Document(Surveyed(LINKING_A)), document(LINKING_A, version=2, linked=True), ("t",)),
        (document(LINKING_A), document(LINKING_B, "refresh", version=2), ()),
        (document(LINKING_A), document(LINKING_A, linked=True), ()),
    ],
    ids=[
        "a copy changed",
        "a copy kept",
        "a link gained",
        "a link given up",
        "a copy moved",
        "each target once",
        "no keys",
        "after another client's write",
        "after another client's copies",
        "a refresh",
        "a mark",
    ],
)
def test_the_targets_of_copies_that_a_put_changed_are_verified(
    before: Document, after: Document, verified: tuple[str, ...]
) -> None:
    assert reactions.react(before, after).verify_targets == verified


@pytest.mark.parametrize(
    ("before", "after", "reaction"),
    [
        (None, FOREIGN, Reaction(normalize=True, start_fan_out=True)),
        (document({}), FOREIGN, Reaction(normalize=True, start_fan_out=True)),
        (document({"n": 2}), FOREIGN, Reaction(normalize=True)),
        (document({"n": 1}), CHANGED_UNDER_ITS_STAMP, Reaction(normalize=True, start_fan_out=True)),
        (None, CHANGED_UNDER_ITS_STAMP, Reaction(normalize=True, start_fan_out=True)),
        (document({}, version=2), document(LINKING_A, version=1), Reaction(normalize=True, start_fan_out=True)),
        (document({}, version=2), document({}, version=1), Reaction(normalize=True)),
        (document({}, linked=True), document({}), Reaction(normalize=True)),
        (document({}, linked=None), document({}), Reaction(normalize=True)),
    ],
    ids=[
        "created",
        "written over",
        "written over with what was there",
        "changed under its stamp",
        "created with a stamp that does not fit",
        "an older state restored",
        "an older state with the same content",
        "the mark taken away",
        "a mark where nothing was known",
    ],
)
def test_another_clients_write_is_normalized(before: Document | None, after: Document, reaction: Reaction) -> None:
    assert reactions.react(before, after) == reaction


@pytest.mark.parametrize(
    ("after", "reaction"),
    [
        (None, Reaction(start_fan_out=True)),
        (document(LINKING_A), Reaction(verify_targets=("t",), check_wanted_note=True, start_fan_out=True)),
        (document({}, linked=True), Reaction(start_fan_out=True)),
        (FOREIGN, Reaction(normalize=True, start_fan_out=True)),
    ],
    ids=["nothing there", "a document", "an embedded one", "another client's"],
)
def test_an_event_without_data_counts_as_a_change_of_everything(after: Document | None, reaction: Reaction) -> None:
    assert reactions.react_to_unknown(after) == reaction
