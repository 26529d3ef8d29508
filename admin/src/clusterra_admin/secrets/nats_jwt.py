"""JWTs of NATS in operator mode: claims of operators, accounts and users, signed with NKeys."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import Any, Literal

from clusterra_contracts.bus.permissions import Permissions

from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_VERSION = 2
UNLIMITED = -1
REPLY_SECONDS = 120
"""How long the receiver of a request may answer it."""
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")

type Claims = dict[str, Any]


def signed(claims: Claims, key: Key, revoked_at: int = 0) -> str:
    """The JWT of some claims, issued by `key` now, but after `revoked_at` (in Unix seconds).

    NATS takes a login that was issued in the second of a revocation for a revoked one.
    """
    content = {**versioned(claims), "iat": max(int(time.time()), revoked_at + 1), "iss": key.public, "jti": ""}
    digest = hashlib.sha256(_json(content)).digest()
    content["jti"] = base64.b32encode(digest).decode().rstrip("=")
    message = f"{_base64(_json(_HEADER))}.{_base64(_json(content))}"
    return f"{message}.{_base64(key.sign(message.encode()))}"


def versioned(claims: Claims) -> Claims:
    """Claims with the version of their format, as `signed` writes them."""
    return {**claims, "nats": {**claims["nats"], "version": _VERSION}}


def claims_of(jwt: str) -> Claims:
    """The claims of a JWT, unverified. Raises SecretsProblem."""
    try:
        claims: Claims = json.loads(base64.urlsafe_b64decode(jwt.split(".")[1] + "=="))
    except (IndexError, ValueError):
        raise SecretsProblem("a JWT of NATS is damaged") from None
    return claims


def jwts_in(text: str) -> list[str]:
    """All JWTs in a configuration or a .creds file."""
    return _JWT.findall(text)


def operator_claims(operator: Key, system_account: str, signing_key: str) -> Claims:
    """The claims of an operator, who signs them itself. Whoever has the signing key signs accounts like the operator;
    an empty one is none."""
    claims = {"type": "operator", "system_account": system_account}
    keys = {"signing_keys": [signing_key]} if signing_key else {}
    return {"name": "clusterra", "sub": operator.public, "nats": {**claims, **keys}}


def account_claims(name: str, public: str, limits: Mapping[str, Any], **fields: Any) -> Claims:
    """The claims of an account. A limit that `limits` does not name is off. `fields` are further claims."""
    names = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    all_limits = {**dict.fromkeys(names, UNLIMITED), "wildcards": True, **limits}
    return {"name": name, "sub": public, "nats": {"type": "account", "limits": all_limits, **fields}}


def shared(
    kind: Literal["service", "stream"], subject: str, account: str | None = None, local: str | None = None
) -> Claims:
    """An export of a subject, or with `account` an import from there, which may have another `local` subject."""
    if account is not None:
        local = local or subject
        return {"name": subject, "subject": subject, "account": account, "local_subject": local, "type": kind}
    answers = {"response_type": "Singleton"} if kind == "service" else {}
    return {"name": subject, "subject": subject, "type": kind, **answers}


def user_claims(
    name: str, public: str, permissions: Permissions, limits: Mapping[str, int], expires_at: int | None = None
) -> Claims:
    """The claims of a user, to be signed by its account's own key. A limit that `limits` does not name is off."""
    all_limits = {**dict.fromkeys(("subs", "data", "payload"), UNLIMITED), **limits}
    expiry = {} if expires_at is None else {"exp": expires_at}
    return {
        "name": name,
        "sub": public,
        **expiry,
        "nats": {"type": "user", **_permissions(permissions), **all_limits},
    }


def credentials(jwt: str, user: Key) -> str:
    """The text of a .creds file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )


def _permissions(permissions: Permissions) -> dict[str, Any]:
    # For nats-server an empty allow list means "everything".
    content: dict[str, Any] = {
        name: {"allow": list(allowed)} if allowed else {"deny": [">"]}
        for name, allowed in (("pub", permissions.publish), ("sub", permissions.subscribe))
    }
    if permissions.replies:
        content["resp"] = {"max": 1, "ttl": REPLY_SECONDS * 1_000_000_000}
    return content


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
