"""Resolves the hosts of webhooks on threads of its own.

A name server that does not answer holds a thread for many seconds, and users choose the names. The threads that asyncio
shares among all are few: held by some webhooks, they would delay the others and the rest of the service.
"""

import asyncio
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

MOST_ADDRESSES = 4
"""Of one host, for each version of IP. An answer has room for thousands, and a connection would try them all."""


class OwnThreads(AbstractResolver):
    """Asks the system's resolver."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-hosts")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The first addresses of a host. Raises OSError."""
        asked = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, asked)
        taken, results = Counter[int](), list[ResolveResult]()
        for of, _, protocol, _, address in found:
            taken[of] += 1
            if taken[of] <= MOST_ADDRESSES:
                text = str(address[0])
                results.append(ResolveResult(hostname=host, host=text, port=port, family=of, proto=protocol, flags=0))
        return results

    async def close(self) -> None:
        """Start no more look-ups. Those that are under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
