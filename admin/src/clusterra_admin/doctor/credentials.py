"""Checks how long logins at NATS are still valid: the doctor's own, those of services, and those of edge-agents."""

from datetime import datetime
from pathlib import Path

from clusterra_contracts.identity import now
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.credentials import CredentialsUnreadable, login_of
from clusterra_runtime.nats.versions import announcements

from clusterra_admin.doctor.certificates import FAILURE_DAYS, WARNING_DAYS
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

CHECK = "nats.credentials"
RENEW = "make them anew with `clusterra-admin secrets init`, and mount them; or ask whoever signs them"
EDGE_CHECK = "edges.credentials"
EDGE_RENEW = (
    "renew it with `clusterra-admin secrets agent`, and replace agent.creds at the edge; it is read at a connect"
)


def check_credentials(file: Path | None) -> Finding:
    """The finding about a `.creds` file. Its signature is checked by the server, not here."""
    if file is None:
        return skipped(CHECK, "CLUSTERRA_NATS_CREDENTIALS_FILE is not set")
    try:
        name, ends_at = login_of(file)
    except CredentialsUnreadable as error:
        return failure(CHECK, str(error), RENEW)
    if ends_at is None:
        return ok(CHECK, f"those of {name} do not expire")
    return _finding(CHECK, f"those of {name}", ends_at, RENEW)


async def check_logins(client: Client) -> list[Finding]:
    """When the logins of the running services end. Replicas of a service share one: the first end counts."""
    try:
        found, _ = await announcements(client)
    except BusUnavailable as error:
        return [skipped(CHECK, f"the announcements cannot be read: {error}")]
    ends: dict[str, datetime] = {}
    for each in found:
        if each.login_expires_at is not None:
            ends[each.service] = min(each.login_expires_at, ends.get(each.service, each.login_expires_at))
    return [
        _finding(CHECK, f"the login of {service}", ends_at, RENEW, about=service)
        for service, ends_at in sorted(ends.items())
    ]


def edge_login(about: str, ends_at: datetime | None) -> Finding:
    """The finding about the login of an edge-agent, which tells its end in its heartbeats."""
    if ends_at is None:
        return skipped(EDGE_CHECK, "the edge-agent tells no end of its login", about=about)
    return _finding(EDGE_CHECK, "the login of the edge-agent", ends_at, EDGE_RENEW, about=about)


def _finding(check: str, what: str, ends_at: datetime, advice: str, *, about: str = "") -> Finding:
    days = (ends_at - now()).total_seconds() / 86_400
    seen = f"{what}: valid for {days:.1f} more days, until {ends_at:%Y-%m-%d}"
    if days <= 0:
        seen = f"{what}: it ended on {ends_at:%Y-%m-%d}"
    if days <= FAILURE_DAYS:
        return failure(check, seen, advice, about=about)
    return warning(check, seen, advice, about=about) if days <= WARNING_DAYS else ok(check, seen, about=about)
