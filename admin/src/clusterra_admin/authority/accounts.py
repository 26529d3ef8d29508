"""The account of a tenant's integrations at NATS, and the logins in it: what they say, and the keys that sign them.

The account imports the events of its tenant and nothing else. It exports nothing, has no JetStream, and its users
publish nothing: so they can name no reply subject, which nats-server would not check.
"""

import time
from collections.abc import Mapping

from clusterra_contracts.bus import sharing
from clusterra_contracts.bus.permissions import integration
from clusterra_contracts.bus.topology import MAX_MESSAGE_BYTES
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.rpc.bus_logins import MAX_BUS_CREDENTIALS, MAX_LOGIN_SECONDS, RevokeBusLogins, SignBusLogin

from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.nats_jwt import Claims, shared
from clusterra_admin.secrets.nkey import Key

SUBSCRIPTIONS = 4
"""The most subscriptions of one connection. Of each event the server holds a copy for each, until it is read."""
CONNECTIONS = 2 * MAX_BUS_CREDENTIALS
"""The most connections of a tenant's integrations together, at each server."""

_LIMITS = {
    "conn": CONNECTIONS,
    "leaf": 0,
    "subs": CONNECTIONS * SUBSCRIPTIONS,
    "payload": MAX_MESSAGE_BYTES,
    "imports": 1,
    "exports": 0,
    "wildcards": False,
}
_EVERY_USER = "*"

type Revocations = Mapping[str, int]
"""The Unix second until which logins are revoked, by the public key of their user; `*` for all users."""


def account_key(authority: Key, ref: TenantRef) -> Key:
    """The key of the account of a tenant's integrations. It follows from the authority's, and is stored nowhere."""
    return authority.derived("A", f"integrations {ref.tenant}")


def account_claims(ref: TenantRef, account: str, central: str, revocations: Revocations) -> Claims:
    """What the JWT of a tenant's account says. `central` is the account of the control plane."""
    imports = [shared("stream", each, central) for each in sharing.streams_for_integrations(ref)]
    fields = {"imports": imports} | ({"revocations": dict(revocations)} if revocations else {})
    return nats_jwt.account_claims(f"integrations {ref.tenant}", account, _LIMITS, **fields)


def login_claims(ref: TenantRef, request: SignBusLogin, now: int) -> Claims:
    """What the login of an integration says."""
    limits = {"subs": SUBSCRIPTIONS, "payload": MAX_MESSAGE_BYTES}
    allowed = integration(ref, request.cluster)
    expires_at = now + request.lifetime_seconds
    return nats_jwt.user_claims(request.credential_id, request.public_key, allowed, limits, expires_at)


def revocations_of(claims: Claims | None) -> dict[str, int]:
    """The revocations in the JWT of an account; none without one."""
    return {} if claims is None else dict(claims["nats"].get("revocations", {}))


def revoked(known: Revocations, request: RevokeBusLogins) -> dict[str, int]:
    """The revocations after a request. Those are left out whose logins have all ended by now.

    A login may be issued a second after the present one, if that replaced one revoked in the present one.
    """
    now = int(time.time())
    kept = {key: until for key, until in known.items() if until > now - MAX_LOGIN_SECONDS - 60}
    keys = (_EVERY_USER,) if request.every else request.public_keys
    return kept | {key: max(now, kept.get(key, 0)) + 1 for key in keys}


def revoked_until(known: Revocations, public_key: str) -> int:
    """Until when logins of a key are revoked, in Unix seconds."""
    return max(known.get(public_key, 0), known.get(_EVERY_USER, 0))
