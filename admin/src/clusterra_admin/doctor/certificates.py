"""Checks how long the certificates of the TLS endpoints in use are still valid."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

CHECK = "certificates.expiry"
WARNING_DAYS = 21.0
"""Certificates of 90 days are renewed when 30 days are left: below this, the renewal does not work."""
FAILURE_DAYS = 3.0
RENEW = "renew it; with cert-manager see `kubectl describe certificate`"


async def check_certificate(name: str, url: str) -> list[Finding]:
    """Connect to an https address and check its certificate. `name` says what is served there."""
    parts = urlsplit(url)
    about = f"{name} {parts.netloc}"
    if parts.scheme != "https":
        return [skipped(CHECK, f"{parts.scheme or 'no'} URL: no certificate", about=about)]
    try:
        _, writer = await asyncio.open_connection(
            parts.hostname, parts.port or 443, ssl=ssl.create_default_context(), server_hostname=parts.hostname
        )
    except ssl.SSLCertVerificationError as error:
        advice = RENEW if "expired" in error.verify_message else "install a certificate of a known authority, or add"
        if advice != RENEW:
            advice += " its authority to SSL_CERT_FILE"
        return [failure(CHECK, f"not accepted: {error.verify_message}", advice, about=about)]
    except OSError as error:
        return [skipped(CHECK, f"no connection ({error.strerror or error})", about=about)]
    try:
        return [expiry_finding(about, writer.get_extra_info("peercert"))]
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def expiry_finding(about: str, certificate: Mapping[str, Any] | None) -> Finding:
    """The finding about a verified certificate, as Python's `ssl` describes it."""
    if not certificate:
        return skipped(CHECK, "the connection has no certificate", about=about)
    days = (ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) / 86_400
    seen = f"valid for {days:.1f} more days, until {certificate['notAfter']}"
    if days <= FAILURE_DAYS:
        return failure(CHECK, seen, RENEW, about=about)
    if days <= WARNING_DAYS:
        return warning(CHECK, seen, RENEW, about=about)
    return ok(CHECK, seen, about=about)
