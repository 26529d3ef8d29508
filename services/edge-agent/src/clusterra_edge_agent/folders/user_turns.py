"""Leaves threads to others beside a user whose files take long.

A user can hold their own up: by a slow folder, or where jobs run on the agent's host by stopping the process that opens
files as them.
"""

from clusterra_runtime.keyed_turns import KeyedTurns
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.folders.failures import failed


def user_turns(at_once: int, waiting: int) -> KeyedTurns[int]:
    """Turns by uid: `at_once` threads for each user, and `waiting` more requests wait. Beyond, they raise RpcFailed."""
    return KeyedTurns(at_once, waiting, _refusal)


def _refusal(_present: int) -> RpcFailed:
    return failed("unavailable", "too many of your requests are under way at this edge", "try again in a minute")
