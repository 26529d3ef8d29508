"""Compares clocks. A wrong clock breaks tokens, signed requests and the order of heartbeats."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from clusterra_admin.doctor.finding import Finding, failure, ok, warning

WARNING_SECONDS = 3.0
"""Above the resolution of an HTTP date plus the time of a slow request."""
FAILURE_SECONDS = 30.0
"""Sign-ins tolerate 60 s between issuer and gateway, and signed requests to DynamoDB 5 minutes."""
ADVICE = "synchronise the clocks of both machines with NTP (`chronyc tracking`, `timedatectl`)"


def clock_finding(about: str, ahead_seconds: float) -> Finding:
    """The finding for a clock that is this far ahead of the one it is compared with; negative: behind."""
    seen = f"{abs(ahead_seconds):.1f} s {'ahead' if ahead_seconds > 0 else 'behind'}"
    if abs(ahead_seconds) >= FAILURE_SECONDS:
        return failure("clocks.skew", seen, ADVICE, about=about)
    if abs(ahead_seconds) >= WARNING_SECONDS:
        return warning("clocks.skew", seen, ADVICE, about=about)
    return ok("clocks.skew", f"{abs(ahead_seconds):.1f} s apart", about=about)


def ahead_by_date(date: str | None, sent_at: datetime, received_at: datetime) -> float | None:
    """The seconds that the clock behind an HTTP `Date` header is ahead of ours; None without a valid header.

    A difference that the header's whole seconds and the time of the request explain counts as none.
    """
    if not date:
        return None
    try:
        shown = parsedate_to_datetime(date)
    except ValueError:
        return None
    if shown.tzinfo is None:
        shown = shown.replace(tzinfo=UTC)
    earliest, latest = (sent_at - shown).total_seconds() - 1.0, (received_at - shown).total_seconds()
    return -earliest if earliest > 0 else -latest if latest < 0 else 0.0
