"""What holds for the tests of all packages."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# How long an example takes is the machine's affair, and it runs other tests beside this one.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """Commands that a test runs in this process say what is logged from then on."""
    yield
    structlog.reset_defaults()
