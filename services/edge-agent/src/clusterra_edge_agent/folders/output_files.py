"""Opens outputs of jobs that are closed to the agent, with the rights of their owners.

In threads of its own, of which each user has some only: a user can hold up the process that opens files as them.
"""

import asyncio
import errno
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any

from clusterra_contracts.rpc.edge_folders import LocalUser
from pydantic import ValidationError

from clusterra_edge_agent.folders.user_process import FolderRefused, FolderUnavailable, UserProcesses
from clusterra_edge_agent.folders.user_turns import user_turns

_NO_GROUP = 65534
"""The group of nobody, as Linux has it. The owner of a file needs none."""
THREADS = 4
THREADS_OF_USER = 2
WAITING_OF_USER = 62
"""A user may follow many outputs at once, and all begin anew together when the agent does."""


class OutputFiles:
    """Opens files of one shared folder for those who read output."""

    def __init__(self, processes: UserProcesses) -> None:
        self._processes = processes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="outputs")
        self._turns = user_turns(THREADS_OF_USER, WAITING_OF_USER)

    def close(self) -> None:
        """Shuts the threads down."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def opened(self, uid: int, path: str) -> AsyncIterator[int]:
        """Opens a file with the rights of a uid alone.

        Raises FileNotFoundError where it may not, OSError, and RpcFailed where too many of its requests wait.
        """
        stack = ExitStack()
        try:
            user = LocalUser(uid=uid, gid=_NO_GROUP)
            async with self._turns.turn(uid):
                opening = self._processes.opened_file(user, path)
                work = asyncio.get_running_loop().run_in_executor(self._threads, stack.enter_context, opening)
                try:
                    file, _ = await asyncio.shield(work)
                except asyncio.CancelledError:
                    # The thread goes on, and opens it for nobody.
                    work.add_done_callback(partial(_close, stack))
                    raise
        except (FolderRefused, ValidationError) as error:
            raise FileNotFoundError(str(error)) from None
        except FolderUnavailable as error:
            raise OSError(errno.EIO, str(error)) from error
        with stack:
            yield file


def _close(stack: ExitStack, opening: asyncio.Future[Any]) -> None:
    if not opening.cancelled():
        opening.exception()  # Nobody asks for it any more.
    stack.close()
