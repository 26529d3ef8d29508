"""Checks how long the doctor's own NATS credentials are still valid."""

import base64
import json
import re
import time
from pathlib import Path
from typing import Any

from clusterra_admin.doctor.certificates import FAILURE_DAYS, WARNING_DAYS
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

CHECK = "nats.credentials"
_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+[\w-]+\.([\w-]+)\.[\w-]+\s")


def check_credentials(file: Path | None) -> Finding:
    """The finding about a `.creds` file. Its signature is checked by the server, not here."""
    if file is None:
        return skipped(CHECK, "CLUSTERRA_NATS_CREDENTIALS_FILE is not set")
    advice = "make them anew with `clusterra-admin secrets init`, or ask whoever signs them"
    try:
        found = _JWT.search(file.read_text())
        if found is None:
            return failure(CHECK, f"{file} holds no user JWT", advice)
        claims: Any = json.loads(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
        expires_at = claims.get("exp")
    except (OSError, ValueError, AttributeError) as error:
        return failure(CHECK, f"{file} cannot be read ({type(error).__name__})", advice)
    name = claims.get("name", "nobody")
    if not expires_at:
        return ok(CHECK, f"those of {name} do not expire")
    days = (float(expires_at) - time.time()) / 86_400
    seen = f"those of {name} are valid for {days:.1f} more days"
    if days <= FAILURE_DAYS:
        return failure(CHECK, seen, advice)
    return warning(CHECK, seen, advice) if days <= WARNING_DAYS else ok(CHECK, seen)
