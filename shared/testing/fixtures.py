"""The pytest fixture `harness`, for a conftest.py: ``from shared.testing.fixtures import harness  # noqa: F401``.

Or, in the conftest.py of the project's root: ``pytest_plugins = ["shared.testing.fixtures"]``.
"""

from collections.abc import Iterator

import pytest

from shared.testing.harness import Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    """Return a `Harness` of the test's own, entered."""
    with Harness() as entered:
        yield entered
