"""JWTs of NATS in operator mode: claims of operators, accounts and users, signed with NKeys."""

import base64
import hashlib
import json
import re
import time
from typing import Any

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


def signed(claims: Claims, key: Key) -> str:
    """The JWT of some claims, issued by `key` now."""
    content = {**claims, "iat": int(time.time()), "iss": key.public, "jti": ""}
    content["nats"] = {**content["nats"], "version": _VERSION}
    digest = hashlib.sha256(_json(content)).digest()
    content["jti"] = base64.b32encode(digest).decode().rstrip("=")
    message = f"{_base64(_json(_HEADER))}.{_base64(_json(content))}"
    return f"{message}.{_base64(key.sign(message.encode()))}"


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


def operator_claims(operator: Key, system_account: str) -> Claims:
    """The claims of an operator, who signs them itself."""
    return {"name": "clusterra", "sub": operator.public, "nats": {"type": "operator", "system_account": system_account}}


def account_claims(name: str, public: str, *, jetstream: bool = False, **fields: Any) -> Claims:
    """The claims of an account with or without JetStream. `fields` are further ones."""
    names = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
    limits: dict[str, Any] = {**dict.fromkeys(names, UNLIMITED), "wildcards": True}
    if jetstream:
        # max_file_store of the servers is the bound: one with less than an account's limit gives it no JetStream.
        limits |= dict.fromkeys(("disk_storage", "mem_storage", "streams", "consumer"), UNLIMITED)
    return {"name": name, "sub": public, "nats": {"type": "account", "limits": limits, **fields}}


def scoped_key(public: str, role: str, permissions: Permissions, *, max_payload: int, max_subscriptions: int) -> Claims:
    """A signing key of an account: users that it signs have exactly these permissions and limits."""
    limits = {"subs": max_subscriptions, "data": UNLIMITED, "payload": max_payload}
    return {"kind": "user_scope", "key": public, "role": role, "template": {**_permissions(permissions), **limits}}


def user_claims(name: str, public: str, permissions: Permissions) -> Claims:
    """The claims of a user with permissions of its own, to be signed by the account's own key."""
    limits = dict.fromkeys(("subs", "data", "payload"), UNLIMITED)
    return {"name": name, "sub": public, "nats": {"type": "user", **_permissions(permissions), **limits}}


def scoped_user_claims(name: str, public: str, account: str, tags: tuple[str, ...], expires_at: int) -> Claims:
    """The claims of a user whose permissions are those of its signing key, for its tags.

    The server puts tags into subjects as they are, so their values must be valid ids.
    """
    nats = {"type": "user", "issuer_account": account, "tags": list(tags)}
    return {"name": name, "sub": public, "exp": expires_at, "nats": nats}


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
