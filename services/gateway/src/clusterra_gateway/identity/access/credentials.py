"""Bearer credentials: their format, their stored hash, and a short-lived cache of verified ones."""

import time
from collections.abc import Callable
from hashlib import sha256

from clusterra_runtime.bounded_cache import BoundedCache

from clusterra_gateway.http.requests.errors import Unauthenticated

TOKEN_PREFIX = "clusterra_"  # noqa: S105

CACHE_SECONDS = 15.0
"""How long a verification is cached.

A revocation, a lost role and a sign-out are told on the bus (`revocations`), and take that long only where the message
does not arrive.
"""
MAX_CACHED = 10_000


def secret_hash(secret: str) -> str:
    """The stored form of a secret. A plain hash suffices: a secret has 256 random bits."""
    # A header may have bytes that are no UTF-8. They arrive as surrogates.
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def join_token(member_id: str, token_id: str, secret: str) -> str:
    """An API token as its owner sends it."""
    return f"{TOKEN_PREFIX}{member_id}_{token_id}_{secret}"


def split_token(token: str) -> tuple[str, str, str]:
    """The member's id, the token's id and the secret of an API token. Raises Unauthenticated."""
    parts = token.removeprefix(TOKEN_PREFIX).split("_", 2)
    if len(parts) != 3 or not all(part.isascii() and 1 <= len(part) <= 64 for part in parts):
        raise Unauthenticated("the token is malformed", hint="send it exactly as it was shown")
    return parts[0], parts[1], parts[2]


class CredentialCache[C]:
    """The owners of credentials that were verified within the last 15 s, by the credential's hash."""

    def __init__(self) -> None:
        self._owners = BoundedCache[str, C](MAX_CACHED)
        self.forgotten = 0
        """How often owners were forgotten. A verification that began before the last time proves nothing."""

    def get(self, digest: str) -> C | None:
        """The owner of a credential; None when it must be verified (again)."""
        return self._owners.get(digest)

    def put(self, digest: str, owner: C, forgotten: int, *, expires_at: float | None = None) -> None:
        """Caches the owner of a credential that was just verified, unless credentials were revoked meanwhile.

        `forgotten` is the count from before the verification. `expires_at` is the end of the credential in epoch
        seconds; None for one that has no end, or whose owner has it.
        """
        if forgotten != self.forgotten:
            return
        seconds = CACHE_SECONDS if expires_at is None else min(CACHE_SECONDS, expires_at - time.time())
        self._owners.put(digest, owner, seconds=seconds)

    def forget(self, matches: Callable[[C], bool]) -> None:
        """Forgets the credentials whose owner matches."""
        self.forgotten += 1
        self._owners.forget(lambda _, owner: matches(owner))
