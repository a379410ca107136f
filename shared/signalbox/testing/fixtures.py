"""The pytest fixture `harness`, for a conftest.py: ``from signalbox.testing.fixtures import harness  # noqa: F401``.

Alternatively, in the conftest.py of the project's root: ``pytest_plugins = ["signalbox.testing.fixtures"]``.
"""

from collections.abc import Iterator

import pytest

from signalbox.testing.harness import Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    """Return an entered `Harness` for one test."""
    with Harness() as entered:
        yield entered
