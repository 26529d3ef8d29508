"""Turns of users: how much of a cluster's Slurm one user may occupy at a time, whatever they ask for."""

from clusterra_runtime.keyed_turns import KeyedTurns

from clusterra_proxy.slurmrestd.errors import Unavailable

MAX_WAITING = 256
"""How many requests of one user wait for a turn. Each may hold a script of megabytes."""

type UserTurns = KeyedTurns[int]
"""By uid."""


def user_turns(at_once: int, what: str) -> UserTurns:
    """Turns that raise Unavailable when too many requests of a user wait. `what` they are, such as `submits`."""

    def refusal(present: int) -> Unavailable:
        return Unavailable(
            f"{present} {what} of this user are in flight", hint="wait for their answers, or submit an array"
        )

    return KeyedTurns(at_once, MAX_WAITING, refusal)
