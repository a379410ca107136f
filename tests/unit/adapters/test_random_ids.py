"""Random ids have the form of those of Firestore's clients."""

import secrets
from collections import Counter

import pytest

from signalbox.adapters.system_clock import ALPHABET, LENGTH, random_id


def test_an_id_has_twenty_letters_and_digits_which_are_equally_likely() -> None:
    ids = [random_id() for _ in range(3_000)]
    letters = Counter("".join(ids))
    assert {len(id_) for id_ in ids} == {LENGTH}
    assert len({*ids}) == len(ids)
    assert letters.keys() == {*ALPHABET}
    mean = len(ids) * LENGTH / len(ALPHABET)
    assert 0.7 * mean < min(letters.values()) <= max(letters.values()) < 1.3 * mean


def test_bytes_that_would_favour_some_letters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([b"\xff" * 39 + b"\x00", b"\x01" * 19 + b"\xf8" * 21])
    monkeypatch.setattr(secrets, "token_bytes", lambda _: next(draws))
    assert random_id() == "a" + "b" * 19
