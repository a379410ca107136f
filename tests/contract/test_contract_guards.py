"""A commit is applied completely if its guards hold, otherwise not at all."""

from datetime import datetime, timedelta

import pytest

from signalbox.core.ports import (
    SERVER_TIME,
    AlreadyExists,
    Change,
    Delete,
    Increment,
    Must,
    Put,
    RecordMissing,
    Stale,
    Store,
    Write,
    WriteResult,
)


def updated(store: Store, path: str) -> datetime:
    moment = store.read(path)[0].update_time
    assert moment is not None
    return moment


def test_a_put_guarded_by_the_update_time_it_read_lands(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    store.commit([Put("d/a", {"n": 2}, guard=updated(store, "d/a"))])
    assert store.read("d/a")[0].data == {"n": 2}


@pytest.mark.parametrize("write", [Put("d/a", {"n": 3}), Change("d/a", {("n",): 3}), Delete("d/a")], ids=repr)
def test_a_write_of_a_record_that_moved_on_is_stale(store: Store, write: Write) -> None:
    store.commit([Put("d/a", {"n": 1})])
    read = updated(store, "d/a")
    store.commit([Put("d/a", {"n": 2})])
    with pytest.raises(Stale):
        store.commit([type(write)(**{**{name: getattr(write, name) for name in write.__slots__}, "guard": read})])
    assert store.read("d/a")[0].data == {"n": 2}


def test_a_record_deleted_since_it_was_read_is_stale(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    read = updated(store, "d/a")
    store.commit([Delete("d/a")])
    with pytest.raises(Stale):
        store.commit([Put("d/a", {"n": 2}, guard=read)])


def test_a_record_deleted_and_created_again_alike_is_stale(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    read = updated(store, "d/a")
    store.commit([Delete("d/a")])
    store.commit([Put("d/a", {"n": 1})])
    with pytest.raises(Stale):
        store.commit([Put("d/a", {"n": 2}, guard=read)])


@pytest.mark.parametrize("microseconds", [-1, 1])
def test_an_update_time_one_microsecond_off_is_stale(store: Store, microseconds: int) -> None:
    store.commit([Put("d/a", {"n": 1})])
    off = Put("d/a", {"n": 2}, guard=updated(store, "d/a") + timedelta(microseconds=microseconds))
    with pytest.raises(Stale):
        store.commit([off])
    assert isinstance(store.write_each([off])[0], Stale)


def test_creating_what_exists_fails(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1}, guard=Must.NOT_EXIST)])
    with pytest.raises(AlreadyExists):
        store.commit([Put("d/a", {"n": 2}, guard=Must.NOT_EXIST)])
    assert store.read("d/a")[0].data == {"n": 1}


@pytest.mark.parametrize(
    "write",
    [Put("d/a", {"n": 1}, guard=Must.EXIST), Change("d/a", {("n",): 1}), Delete("d/a", guard=Must.EXIST)],
    ids=repr,
)
def test_a_write_of_what_must_exist_and_does_not_fails(store: Store, write: Write) -> None:
    with pytest.raises(RecordMissing):
        store.commit([write])
    assert store.read("d/a")[0].data is None


def test_deleting_what_is_not_there_succeeds_without_a_guard(store: Store) -> None:
    assert store.commit([Delete("d/a")]).results[0].update_time is None


def test_a_delete_that_must_find_its_record_deletes_it(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    store.commit([Delete("d/a", guard=Must.EXIST)])
    assert store.read("d/a")[0].data is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_guard_that_fails_stops_the_whole_commit(store: Store, place: int) -> None:
    store.commit([Put("d/a", {"n": 1}), Put("d/b", {"n": 1})])
    writes: list[Write] = [Put("d/a", {"n": 2}), Put("d/new", {"n": 2}, guard=Must.NOT_EXIST)]
    writes.insert(place, Delete("d/none", guard=Must.EXIST))
    with pytest.raises(RecordMissing):
        store.commit([*writes, Delete("d/b")])
    assert [snapshot.data for snapshot in store.read("d/a", "d/new", "d/b")] == [{"n": 1}, None, {"n": 1}]


def test_the_first_guard_that_fails_is_the_one_reported(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    exists, missing = Put("d/a", {}, guard=Must.NOT_EXIST), Put("d/b", {}, guard=Must.EXIST)
    with pytest.raises(AlreadyExists):
        store.commit([exists, missing])
    with pytest.raises(RecordMissing):
        store.commit([missing, exists])


def test_a_snapshot_of_what_is_missing_guards_its_creation(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1}, guard=store.read("d/a")[0].guard)])
    with pytest.raises(Stale):
        store.commit([Put("d/a", {"n": 2}, guard=store.read("d/a")[0].guard), Put("d/b", {}, guard=_long_ago())])
    assert store.read("d/a")[0].data == {"n": 1}


def _long_ago() -> datetime:
    return datetime.fromisoformat("2001-01-01T00:00:00+00:00")


@pytest.mark.parametrize("guard", [None, Must.NOT_EXIST])
def test_a_change_without_a_record_to_change_is_a_mistake(store: Store, guard: Must | None) -> None:
    with pytest.raises(ValueError, match="exists"):
        store.commit([Change("d/a", {("n",): 1}, guard=guard)])


def test_a_blind_change_of_server_values_creates_the_record_or_counts_on(store: Store) -> None:
    counting = Change("d/a", {("n",): Increment(1), ("at",): SERVER_TIME}, guard=None)
    assert [store.commit([counting]).results[0].values for _ in range(2)] == [{("n",): 1}, {("n",): 2}]
    store.commit([Change("d/a", {("kept",): True})])
    [outcome] = store.write_each([counting])
    assert isinstance(outcome, WriteResult)
    assert outcome.values == {("n",): 3}
    record = store.read("d/a")[0].data
    assert record is not None
    assert (set(record), record["n"]) == ({"n", "at", "kept"}, 3)


def test_a_blind_change_with_a_plain_value_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="exists"):
        store.commit([Change("d/a", {("n",): Increment(1), ("m",): 1}, guard=None)])


def test_a_commit_that_names_a_record_twice_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="once"):
        store.commit([Put("d/a", {"n": 1}), Delete("d/a")])
    assert store.read("d/a")[0].data is None


def test_a_delete_of_what_must_not_exist_lands_where_nothing_is(store: Store) -> None:
    committed = store.commit([Put("d/b", {"n": 1}), Delete("d/a", guard=Must.NOT_EXIST)])
    assert committed.results[1].update_time is None
    assert [snapshot.data for snapshot in store.read("d/a", "d/b")] == [None, {"n": 1}]


def test_a_delete_of_what_must_not_exist_and_does_stops_the_whole_commit(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1}), Put("d/b", {"n": 1})])
    with pytest.raises(AlreadyExists):
        store.commit([Delete("d/a", guard=Must.NOT_EXIST), Put("d/b", {"n": 2}, guard=updated(store, "d/b"))])
    assert [snapshot.data for snapshot in store.read("d/a", "d/b")] == [{"n": 1}, {"n": 1}]
