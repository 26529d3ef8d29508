"""Asks people for patience, once for each outage, while the SDK sends a request again and again."""

from typing import TYPE_CHECKING

from clusterra_cli.output import note

if TYPE_CHECKING:
    from clusterra.exchange import Retrying

QUIET_SECONDS = 2.0
"""An outage that is shorter is nobody's concern."""


class RetryNotice:
    """Prints one line on stderr when an outage has lasted, or will last, for QUIET_SECONDS."""

    def __init__(self) -> None:
        self._printed_at: float | None = None

    def __call__(self, retrying: "Retrying") -> None:
        """What the SDK calls before each pause between two attempts."""
        tried = retrying.tried_seconds
        if self._printed_at is not None and tried >= self._printed_at:
            return
        if tried + retrying.pause_seconds < QUIET_SECONDS:
            self._printed_at = None
            return
        self._printed_at = tried
        left = retrying.left_seconds
        until = "until it does" if left is None else f"for up to {max(1, round(left))} s"
        note(f"{retrying.reason}; trying again {until}")
