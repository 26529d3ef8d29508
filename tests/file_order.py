"""A plugin of pytest: files that share a lab go to one process or two, and the longest files start first.

A lab ends with the last of its tests. One that ran on would take CPU from the tests after it.

`make record-durations` records how long each file takes.
"""

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]
DURATIONS = Path(__file__).with_name("durations.json")
"""File -> seconds that its tests and their fixtures took, without the files below NOTABLE_SECONDS."""
NOTABLE_SECONDS = 2
SPLIT_SECONDS = 300
"""The files of a lab go to two processes if they take longer, since each of the two starts the lab."""


class SharedLabScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Gives tests to processes by `xdist_group`, as `--dist loadgroup` does, and those without a group by file."""

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).partition("::")[0]


class DurationRecorder:
    """Adds up the durations of each file, and writes them at the end."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._ran: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the setup, the call or the teardown of a test."""
        file = path_of(report.nodeid)
        self._seconds[file] += report.duration
        if report.when == "call" and not report.skipped:
            self._ran.add(file)

    def pytest_sessionfinish(self) -> None:
        """Replace the durations of files that ran. Those of skipped files stay, and those of deleted files go."""
        seconds = recorded() | {file: round(self._seconds[file]) for file in self._ran}
        notable = {file: seconds[file] for file in sorted(seconds) if seconds[file] >= NOTABLE_SECONDS}
        existing = {file: each for file, each in notable.items() if (ROOT / file).exists()}
        DURATIONS.write_text(json.dumps(existing, indent=0) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --record-durations."""
    parser.addoption("--record-durations", action="store_true", help="write the seconds of each file to durations.json")


def pytest_configure(config: pytest.Config) -> None:
    """Record durations in the process that gets all reports."""
    if config.getoption("record_durations") and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(DurationRecorder())


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SharedLabScheduling | None:
    """Keep files whole with `--dist loadgroup`, too."""
    return SharedLabScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that share a lab into groups, and the longest groups and files first."""
    seconds = recorded()
    groups = lab_groups({path_of(item.nodeid): lab for item in items if (lab := shared_lab(item))}, seconds)
    for item in items:
        if group := groups.get(path_of(item.nodeid)):
            item.add_marker(pytest.mark.xdist_group(group))
    place = places({path_of(item.nodeid) for item in items}, groups, seconds)
    items.sort(key=lambda item: place[path_of(item.nodeid)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """End a shared lab after the last test of its group."""
    yield
    lab = lab_fixture(item)
    if (
        lab is not None
        and isinstance(item, pytest.Function)
        and (nextitem is None or group_of(nextitem) != group_of(item))
    ):
        lab.finish(item._request)  # type: ignore[arg-type]


def group_of(item: pytest.Item) -> str | None:
    """The group of the files that share a lab with that of a test."""
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


def shared_lab(item: pytest.Item) -> str | None:
    """The folder and the name of the session's lab that a test uses; None for a test without one."""
    lab = lab_fixture(item)
    return None if lab is None else f"{lab.baseid}-{lab.argname}"


def lab_fixture(item: pytest.Item) -> pytest.FixtureDef[Any] | None:
    """The session's lab that a test uses; None for a test without one."""
    fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    for definitions in fixtures.values():
        fixture = definitions[-1]
        if fixture.scope == "session" and "Stack" in str(fixture.func.__annotations__.get("return")):
            return fixture
    return None


def lab_groups(lab_of: Mapping[str, str], seconds: Mapping[str, float]) -> dict[str, str]:
    """File -> group, from file -> lab: one group of each lab, or two of about the same duration."""
    whole: defaultdict[str, float] = defaultdict(float)
    for file, lab in lab_of.items():
        whole[lab] += seconds.get(file, 1)
    total: defaultdict[str, float] = defaultdict(float)
    groups = {}
    for file in sorted(lab_of, key=lambda file: (-seconds.get(file, 1), file)):
        lab = lab_of[file]
        of_lab = (f"{lab}-1", f"{lab}-2") if whole[lab] > SPLIT_SECONDS else (lab,)
        group = min(of_lab, key=lambda name: total[name])
        total[group] += seconds.get(file, 1)
        groups[file] = group
    return groups


def places(
    files: Iterable[str], groups: Mapping[str, str], seconds: Mapping[str, float]
) -> dict[str, tuple[float, str]]:
    """File -> place in the order: by falling duration of its group, so that none runs alone at the end.

    A file without a recorded duration is short, or new. It comes last: a new long file costs time once, until durations
    are recorded again.
    """
    group_of = {file: groups.get(file, file) for file in files}
    total: defaultdict[str, float] = defaultdict(float)
    for file, group in group_of.items():
        total[group] += seconds.get(file, 0)
    return {file: (-total[group], group) for file, group in group_of.items()}


@cache
def recorded() -> dict[str, float]:
    """The recorded durations."""
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    return seconds


def path_of(nodeid: str) -> str:
    """The file of a test, relative to the root of the repository."""
    return nodeid.partition("::")[0]
