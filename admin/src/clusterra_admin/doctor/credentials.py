"""Checks how long logins at NATS are still valid: the doctor's own, and those that services announce."""

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


def check_credentials(file: Path | None) -> Finding:
    """The finding about a `.creds` file. Its signature is checked by the server, not here."""
    if file is None:
        return skipped(CHECK, "CLUSTERRA_NATS_CREDENTIALS_FILE is not set")
    try:
        name, ends_at = login_of(file)
    except CredentialsUnreadable as error:
        return failure(CHECK, str(error), RENEW)
    return _finding(f"those of {name}", ends_at, "")


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
    return [_finding(f"the login of {service}", ends_at, service) for service, ends_at in sorted(ends.items())]


def _finding(what: str, ends_at: datetime | None, about: str) -> Finding:
    if ends_at is None:
        return ok(CHECK, f"{what} do not expire", about=about)
    days = (ends_at - now()).total_seconds() / 86_400
    seen = f"{what}: valid for {days:.1f} more days, until {ends_at:%Y-%m-%d}"
    if days <= FAILURE_DAYS:
        return failure(CHECK, seen, RENEW, about=about)
    return warning(CHECK, seen, RENEW, about=about) if days <= WARNING_DAYS else ok(CHECK, seen, about=about)
