"""The life of `lab up`: lock the folder, start everything, run until a signal, and remove everything."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from clusterra_lab.kube.node_number import remove_node_leftovers
from clusterra_lab.machine.container import remove_marked
from clusterra_lab.machine.orphans import adopt_orphans
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.ledger import MARK
from clusterra_lab.stack.leftovers import end_processes, unmount

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 1.0


@asynccontextmanager
async def open_home(directory: Path) -> AsyncIterator[Home]:
    """Own the folder of a lab: record all processes that start in the block, and end those left running after it.

    The leftovers of an earlier lab in the folder are ended first. Raises LabIsUp.
    """
    home = Home(directory)
    with home.locked():
        await end_leftovers(home)
        adopt_orphans()
        try:
            with home.ledger.open():
                yield home
        finally:
            await end_leftovers(home)


async def end_leftovers(home: Home) -> list[str]:
    """End all containers, processes and mounts of a lab whose folder is locked by this process.

    Returns their descriptions. Raises NotRemoved.
    """
    ended = await remove_marked(MARK, str(home.directory))
    ended += await end_processes(home.directory)
    ended += await remove_node_leftovers()
    ended += await unmount(home.directory)
    home.ledger.clear()
    return ended


class Lab(Protocol):
    """The part of a running lab that `stay_up` needs."""

    @property
    def home(self) -> Home:
        """Its folder."""

    @property
    def summary(self) -> Summary:
        """Its addresses and logins."""


async def until_signalled[T](work: Coroutine[Any, Any, T]) -> T | None:
    """Await `work`, or cancel it at the first SIGINT, SIGTERM or SIGHUP and return None.

    Later signals are ignored, so that cleanup runs to its end.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signalled = False

    def stop() -> None:
        nonlocal signalled
        if not signalled:
            signalled = True
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        return await work
    except asyncio.CancelledError:
        if not signalled:
            raise
        task.uncancel()
        return None
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def stay_up[L: Lab](
    starting: AbstractAsyncContextManager[L], tell: Callable[[str], None], ready: Callable[[L], None]
) -> None:
    """Start a lab, call `ready`, and end the lab at the first signal, even while it starts.

    `tell` is called with a message when a process of the lab ends by itself.
    """

    async def stay() -> None:
        async with starting as lab:
            with lab.home.publish_summary(lab.summary):
                ready(lab)
                await _watch(lab.home, tell)

    await until_signalled(stay())


async def _watch(home: Home, tell: Callable[[str], None]) -> None:
    known: set[tuple[int, int]] = set()
    while True:
        for entry in home.ledger.entries():
            if not entry.running and (entry.pid, entry.started) not in known:
                known.add((entry.pid, entry.started))
                tell(f"{entry.name} (pid {entry.pid}) has ended; see {entry.log}")
        await asyncio.sleep(_POLL_SECONDS)
