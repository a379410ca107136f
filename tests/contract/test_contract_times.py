"""Whose time it is: create, update, commit and read times, and what moves them."""

from datetime import UTC, datetime

from signalbox.core.ports import SERVER_TIME, Change, Delete, Increment, Must, Put, Snapshot, Store, Write


def read(store: Store, path: str) -> Snapshot:
    return store.read(path)[0]


def test_a_new_record_has_its_commits_time_as_both_its_times(store: Store) -> None:
    committed = store.commit([Put("d/a", {"n": 1}), Put("d/b", {"n": 1})])
    times = {moment for s in store.read("d/a", "d/b") for moment in (s.create_time, s.update_time)}
    assert times == {committed.commit_time} == {result.update_time for result in committed.results}


def test_an_overwrite_keeps_the_create_time_and_moves_the_update_time(store: Store) -> None:
    created = store.commit([Put("d/a", {"n": 1})]).commit_time
    overwritten = store.commit([Put("d/a", {"n": 2})]).commit_time
    assert (read(store, "d/a").create_time, read(store, "d/a").update_time) == (created, overwritten)


def test_deleting_and_creating_renews_the_create_time(store: Store) -> None:
    store.commit([Put("d/a", {"n": 1})])
    store.commit([Delete("d/a")])
    again = store.commit([Put("d/a", {"n": 1})]).commit_time
    assert read(store, "d/a").create_time == again


def test_a_write_that_changes_nothing_keeps_the_update_time(store: Store) -> None:
    data = {"n": 1, "m": {"x": [1, None]}, "nan": float("nan")}
    first = store.commit([Put("d/a", data)]).commit_time
    noops: list[Write] = [
        Put("d/a", data),
        Put("d/a", data, guard=first),
        Change("d/a", {("n",): 1}),
        Change("d/a", {}),
        Change("d/a", {("n",): Increment(0)}),
    ]
    assert {store.commit([noop]).results[0].update_time for noop in noops} == {first}
    assert read(store, "d/a").update_time == first


def test_among_writes_of_one_commit_only_those_that_change_something_move_their_record(store: Store) -> None:
    first = store.commit([Put("d/same", {"n": 1}), Put("d/moved", {"n": 1})]).commit_time
    second = store.commit([Put("d/same", {"n": 1}), Put("d/moved", {"n": 2})])
    assert [result.update_time for result in second.results] == [first, second.commit_time]
    assert read(store, "d/same").update_time == first


def test_another_kind_of_the_same_number_is_a_change(store: Store) -> None:
    values = [1, 1.0, True, 0.0, -0.0]
    times = [store.commit([Put("d/a", {"v": value})]).results[0].update_time for value in values]
    assert len(set(times)) == len(values)


def test_a_write_that_undoes_the_last_one_still_moves_the_update_time(store: Store) -> None:
    times = [store.commit([Put("d/a", {"v": value})]).results[0].update_time for value in (1, 2, 1)]
    assert len(set(times)) == 3


def test_commit_times_of_one_record_only_grow(store: Store) -> None:
    times = [store.commit([Put("d/a", {"n": n})]).commit_time for n in range(20)]
    assert times == sorted(set(times))


def test_what_was_committed_before_a_read_is_not_later_than_the_read(store: Store) -> None:
    for n in range(10):
        committed = store.commit([Put("d/a", {"n": n})]).commit_time
        snapshot = read(store, "d/a")
        assert (snapshot.data, snapshot.read_time >= committed) == ({"n": n}, True)


def test_what_is_committed_after_a_read_is_later_than_the_read(store: Store) -> None:
    for n in range(10):
        assert store.read("d/none")[0].read_time < store.commit([Put("d/a", {"n": n})]).commit_time


def test_server_time_is_the_commits_in_whole_milliseconds(store: Store) -> None:
    committed = store.commit([Put("d/a", {"at": SERVER_TIME}), Put("d/b", {"at": SERVER_TIME})])
    stamps = [(s.data or {})["at"] for s in store.read("d/a", "d/b")]
    seconds = (committed.commit_time - stamps[0]).total_seconds()
    assert (stamps[0].microsecond % 1_000, stamps[0].tzinfo, stamps[1] - stamps[0]) == (0, UTC, stamps[0] - stamps[0])
    assert 0 <= seconds < 5


def test_server_time_fills_a_field_inside_a_map(store: Store) -> None:
    store.commit([Put("d/a", {"m": {"x": 1}})])
    store.commit([Change("d/a", {("m", "at"): SERVER_TIME})])
    data = read(store, "d/a").data or {}
    assert (data["m"]["x"], type(data["m"]["at"])) == (1, datetime)


def test_server_time_never_goes_back(store: Store) -> None:
    stamps = []
    for _ in range(20):
        store.commit([Put("d/a", {"at": SERVER_TIME})])
        stamps.append((read(store, "d/a").data or {})["at"])
    assert stamps == sorted(stamps)


def test_a_read_of_nothing_there_has_a_read_time_and_no_other(store: Store) -> None:
    snapshot = read(store, "d/none")
    assert (snapshot.data, snapshot.update_time, snapshot.create_time) == (None, None, None)
    assert snapshot.read_time.tzinfo is UTC
    assert snapshot.guard is Must.NOT_EXIST
