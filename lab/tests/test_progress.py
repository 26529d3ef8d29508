"""The display of long steps."""

import asyncio
import io
import re

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import console_progress
from rich.console import Console


def plain() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=80), text


def test_without_a_terminal_a_step_prints_a_line_at_its_begin_and_its_end() -> None:
    console, text = plain()
    with console_progress(console) as progress:
        progress("first")
        progress("second")

    assert re.sub(r"[0-9.]+ s", "N s", text.getvalue()).splitlines() == [
        "  first ...",
        "✓ first (N s)",
        "  second ...",
        "✓ second (N s)",
    ]


def test_a_failed_step_prints_no_end() -> None:
    console, text = plain()

    def fail() -> None:
        with console_progress(console) as progress:
            progress("breaks")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "✓" not in text.getvalue()


async def test_steps_of_several_tasks_overlap() -> None:
    console, text = plain()
    go_on = asyncio.Event()

    async def slow() -> None:
        progress("slow")
        await go_on.wait()

    async def quick() -> None:
        progress("quick")

    async def broken() -> None:
        progress("broken")
        raise RuntimeError

    with console_progress(console) as progress:
        waiting = asyncio.create_task(slow())
        await asyncio.create_task(quick())

        with pytest.raises(RuntimeError):
            await asyncio.create_task(broken())
        assert "✓ quick" in text.getvalue()
        assert "✓ slow" not in text.getvalue()

        go_on.set()
        await waiting

        await asyncio.sleep(0)

        assert "✓ slow" in text.getvalue()

    assert "✓ broken" not in text.getvalue()


async def test_a_terminal_shows_the_running_step_with_its_seconds() -> None:
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True)
    with console_progress(console) as progress:
        progress("turning")
        await until(lambda: "turning (0 s)" in text.getvalue(), seconds=90, what="a turning step")
    assert "✓ turning" in text.getvalue()
