"""When the keeper reads its sentinels: after each change of a node, and seldom without one."""

import asyncio
from collections.abc import Callable

import pytest
from clusterra_proxy.admission import keeper
from clusterra_proxy.admission.keeper import PlaceholderKeeper
from clusterra_proxy.slurmrestd.errors import Unreachable
from hypothesis import given
from hypothesis import strategies as st


class Ended(Exception):
    """The last pause has begun."""


class Checked(PlaceholderKeeper):
    """Notes the rounds in which it reads the sentinels, and the whole list."""

    def __init__(self) -> None:
        self.round = 0
        self.checks: list[int] = []
        self.lists: list[int] = []
        self.failing: set[int] = set()

    async def intact(self) -> bool:
        """Note a check."""
        self.checks.append(self.round)
        if self.round in self.failing:
            raise Unreachable("away")
        return True

    async def _repair(self) -> None:
        self.lists.append(self.round)


async def rounds(kept: Checked, count: int, version: Callable[[int], int | None]) -> None:
    """Run a number of rounds."""

    async def sleep(_seconds: float) -> None:
        kept.round += 1
        if kept.round == count:
            raise Ended
        await asyncio.sleep(0)

    with pytest.raises(Ended):
        await kept.keep(sleep=sleep, nodes_version=lambda: version(kept.round))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=20))
async def test_the_sentinels_are_read_after_each_change_of_a_node(versions: list[int]) -> None:
    kept = Checked()

    await rounds(kept, len(versions), lambda number: versions[number])

    changed = [number for number in range(1, len(versions)) if versions[number] != versions[number - 1]]
    # The first round reads the whole list instead.
    assert kept.lists == [0]
    assert kept.checks == changed


async def test_they_are_read_each_time_while_changes_are_not_known() -> None:
    kept = Checked()

    await rounds(kept, 4, lambda _number: None)

    assert kept.checks == [1, 2, 3]


async def test_they_are_read_from_time_to_time_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Checked()
    monkeypatch.setattr(keeper, "UNCHANGED_CHECK_SECONDS", 0.0)

    await rounds(kept, 4, lambda _number: 1)

    assert kept.checks == [1, 2, 3]


async def test_a_check_that_failed_is_followed_by_the_whole_list_without_a_change() -> None:
    kept = Checked()
    kept.failing = {2}

    await rounds(kept, 5, lambda number: int(number >= 2))

    assert kept.checks == [2]
    assert kept.lists == [0, 3]
