"""The threads that read and render templates.

What a template computes is its author's, and takes up to two seconds for each job of a workflow. In the threads that
everything else shares, a few such requests would keep all of it waiting, even the look-up of a name in DNS.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="templates")


async def in_thread[**P, R](work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What the work returns. Raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(work, *arguments, **named))
