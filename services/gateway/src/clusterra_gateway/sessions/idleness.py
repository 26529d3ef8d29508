"""What becomes of a session that nobody uses: pure decisions, with time as an argument."""

from typing import Literal

WARNING_SECONDS = 300.0
"""How long before its end the owner of an idle session is warned; of a short time half."""

type Action = Literal["keep", "warn", "withdraw", "cancel"]
"""`withdraw`: the session is in use again, so its warning is void."""


def warning_seconds(cull_seconds: float) -> float:
    """How long before the end of the idle time its owner is warned."""
    return min(WARNING_SECONDS, cull_seconds / 2)


def decide(idle_seconds: float, cull_seconds: float, warned_seconds_ago: float | None) -> Action:
    """What to do with a session that has been idle for `idle_seconds`. `warned_seconds_ago` is None without a warning.

    It is cancelled only when the whole time of the warning has passed, also when no gateway looked for a while.
    """
    lead = warning_seconds(cull_seconds)
    if idle_seconds < cull_seconds - lead:
        return "keep" if warned_seconds_ago is None else "withdraw"
    if warned_seconds_ago is None:
        return "warn"
    return "cancel" if idle_seconds >= cull_seconds and warned_seconds_ago >= lead else "keep"
