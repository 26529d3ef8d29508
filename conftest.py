"""What holds for the tests of all packages."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# How long an example takes is the machine's affair, and it runs other tests beside this one. The suite plays the same
# examples each time; `make test-histories` plays others.
settings.register_profile("suite", deadline=None, derandomize="HISTORIES" not in os.environ)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """Commands that a test runs in this process say what is logged from then on."""
    yield
    structlog.reset_defaults()
