"""Fixtures of the journeys: one lab with the console, one browser, and people with a page each."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.stack.services import console_built
from clusterra_lab.stack.stack import LabOptions, Stack, stack

from browser.own_page import Site, own_page
from browser.people import Member, Visitor, signed_in, visiting
from browser.pictures import saved
from browser.playwright_api import Browser, running_browser

FAILED = pytest.StashKey[bool]()

type Person = Callable[[str], Awaitable[Member]]
"""Gives the browser of a person by the name before @acme.example, or by a whole address."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test failed, for the fixtures that end after it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """The lab of all journeys, whose gateway serves the console that `make console-build` built."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    assert console_built(), "the console is not built: make console-build"
    options = LabOptions(ScalingPolicy(idle_seconds=2.0), environment={"CLUSTERRA_COST_NOTE_SECONDS": "1"})
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests. Each person has a context of their own in it."""
    async with running_browser() as running:
        yield running


@pytest.fixture
async def site(browser: Browser) -> AsyncIterator[Site]:
    """A page of the test's own."""
    async with own_page(browser) as site:
        yield site


@pytest.fixture
async def visitor(
    browser: Browser, lab: Stack, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Visitor]:
    """Somebody who has not signed in."""
    async with visiting(browser, lab) as visitor, _judged(visitor, "visitor", request.node, tmp_path):
        yield visitor


@pytest.fixture
async def person(browser: Browser, lab: Stack, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Person]:
    """Signs people in, each in a browser context of their own: `ada = await person("ada")`."""
    async with AsyncExitStack() as running:

        async def made(name: str) -> Member:
            email = name if "@" in name else f"{name}@acme.example"
            member = await running.enter_async_context(signed_in(browser, lab, email))
            await running.enter_async_context(_judged(member, name, request.node, tmp_path))
            return member

        yield made


@asynccontextmanager
async def _judged(visitor: Visitor, name: str, item: Any, folder: Path) -> AsyncIterator[None]:
    """Fail the test for what the visitor's pages did wrong, and save the pages of a test that failed."""
    yield
    problems = visitor.guards.problems()
    if problems or item.stash.get(FAILED, False):
        for number, page in enumerate(visitor.context.pages):
            for file in await saved(page, folder, f"{name}-{number}"):
                print(f"{page.url}: {file}")
    assert not problems, f"the pages of {name} did what no page may do:\n" + "\n".join(problems)
