"""Values drawn for the contract tests: small, unusual, and often equal to one another."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from signalbox.core.records.record_values import INTEGER_MAX

keys = st.one_of(
    st.sampled_from(["a", "b", "a.b", "é", "`", "\\", "__", "__x", "1", "😀", "\uffff", "\0"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
        lambda key: not (len(key) >= 4 and key.startswith("__") and key.endswith("__"))
    ),
)
moments = st.datetimes(timezones=st.just(UTC)) | st.sampled_from([datetime(2020, 1, 1, tzinfo=UTC)])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, 2, 0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), 2**53, 2**53 + 1, float(2**53), "", "a"]
    ),
    st.integers(-INTEGER_MAX - 1, INTEGER_MAX),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    moments,
)
storable = st.recursive(
    scalars,
    lambda inner: (
        st.dictionaries(keys, inner, max_size=3)
        | st.lists(inner.filter(lambda item: not isinstance(item, list)), max_size=3)
    ),
    max_leaves=8,
)
"""What a record can hold."""

records = st.dictionaries(keys, storable, max_size=3)

odd_scalars = st.one_of(
    scalars,
    st.integers(),
    st.text(max_size=4),
    st.text(st.characters(categories=["Cs"]), max_size=2),
    st.datetimes(),
    st.binary(max_size=2),
)
anything = st.recursive(
    odd_scalars,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["", "__x__", "a", "k" * 1_501, "\ud800"]) | keys, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.sets(st.integers(), max_size=2),
    ),
    max_leaves=8,
)
"""What Python can hold, and a record perhaps."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value, with the numbers that Python's reader lets through."""
