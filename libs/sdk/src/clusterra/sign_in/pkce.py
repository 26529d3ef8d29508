"""Proof Key for Code Exchange (RFC 7636): only the program that began a sign-in can redeem its code."""

import base64
import secrets
from dataclasses import dataclass, field
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class Proof:
    """The secret of one sign-in. The browser shows others the challenge alone."""

    verifier: str = field(repr=False)

    @property
    def challenge(self) -> str:
        """The SHA-256 of the verifier in base64url without padding (S256)."""
        return base64.urlsafe_b64encode(sha256(self.verifier.encode()).digest()).decode().rstrip("=")


def new_proof() -> Proof:
    """A new verifier: 43 letters, digits, `-` and `_` (256 random bits)."""
    return Proof(secrets.token_urlsafe(32))
