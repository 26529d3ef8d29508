"""Configuration of all tests: markers, number of examples."""

import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from clusterra_lab.parts.aws import Aws, aws_emulator
from hypothesis import settings

pytest_plugins = ("file_order",)

MARKERS = {
    "slurm": "starts a real Slurm",
    "kubernetes": "starts a real Kubernetes",
    "containers": "runs containers of an engine",
    "browser": "uses the console in a real browser",
    "servers": "starts NATS, an AWS emulator or another server of the lab",
}
NEEDS = {
    "ControlPlane": "kubernetes",
    "RealNode": "kubernetes",
    "OwnedSlurmCluster": "slurm",
    "Site": "slurm",
    "SlurmCluster": "slurm",
    "SlurmWorld": "slurm",
    "Stack": "slurm",
}
"""Class that a fixture yields -> marker of each test that uses the fixture. A test that starts Slurm or Kubernetes
without such a fixture carries the marker itself."""
JOURNEYS = Path(__file__).parent / "tests/browser"

SLOW_SECONDS = 5
"""`make test-fast` leaves out files that take longer: they start processes without a fixture, or compute much."""

# Where a test gives no credentials, boto3 would ask the metadata service of the machine for some.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# A shell that starts the suite in the background makes all its descendants ignore SIGINT, also the processes that a
# test starts to end them with SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline for an example: its time depends on the machine, which runs other tests at the same time. All targets play
# the same few examples each time, but `make test-histories` plays others, and more.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("many", deadline=None, max_examples=100)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --fast, which `make test-fast` uses."""
    parser.addoption("--fast", action="store_true", help="leave out servers, containers, histories and slow files")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and choose how many examples property tests play."""
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    settings.load_profile("many" if "HISTORIES" in os.environ else "few")


def needed(item: pytest.Item) -> set[str]:
    """The markers of a test that follow from its folder and from the return annotations of its fixtures."""
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    annotations = [str(definitions[-1].func.__annotations__.get("return")) for definitions in fixtures]
    names = set(re.findall(r"\w+", " ".join(annotations)))
    markers = {marker for name, marker in NEEDS.items() if name in names}
    if item.path.is_relative_to(JOURNEYS):
        markers.add("browser")
    return markers | {"servers"} if "clusterra_lab" in names else markers


def is_fast(item: pytest.Item) -> bool:
    """Whether `make test-fast` runs this test.

    It has no marker of MARKERS, its file is not a `*_histories.py`, and the file takes less than SLOW_SECONDS.
    """
    from file_order import path_of, recorded  # pytest imports a plugin itself, before anybody else does

    is_slow = item.path.stem.endswith("_histories") or recorded().get(path_of(item.nodeid), 0) >= SLOW_SECONDS
    return not is_slow and not any(map(item.get_closest_marker, MARKERS))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and leave out slow ones with --fast."""
    for item in items:
        for marker in needed(item):
            item.add_marker(marker)
    if config.getoption("fast"):
        fast = {item: is_fast(item) for item in items}
        config.hook.pytest_deselected(items=[item for item in items if not fast[item]])
        items[:] = filter(fast.get, items)


@pytest.fixture(scope="session")
async def emulator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aws]:
    """DynamoDB, S3 and Secrets Manager for all tests of this process. A test chooses names that no other test uses."""
    async with aws_emulator(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture(autouse=True)
def _reset_logging() -> Iterator[None]:
    """Undo the logging configuration of commands that a test runs in this process.

    Such a command logs to the output that its test captured, which is closed afterwards.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
