"""Signed tokens of the gateway itself: a browser's session, and the state of a login under way."""

import json
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import Key, KeySet, OctKey
from pydantic import BaseModel, ConfigDict, ValidationError

from clusterra_gateway.http.errors import Unauthenticated

ALGORITHMS = {"oct": "HS256", "OKP": "Ed25519"}
MIN_SECRET_BYTES = 32


class SessionKeyMissing(RuntimeError):
    """There is no key to sign sessions with: the gateway does not start without one."""


class Claims(BaseModel):
    """What a session says: who (a member's id), which sign-in (`jti`), from and until when (Unix seconds)."""

    model_config = ConfigDict(frozen=True)

    sub: str
    jti: str
    iat: int
    exp: int

    @property
    def expires_at(self) -> datetime:
        """When the session ends."""
        return datetime.fromtimestamp(self.exp, UTC)


class LoginState(BaseModel):
    """What a login must find again when the issuer sends the browser back."""

    model_config = ConfigDict(frozen=True)

    state: str
    nonce: str
    verifier: str
    """PKCE's code verifier."""
    return_to: str


class SessionKeys:
    """The first key signs, all verify: a new key goes first, the old one leaves when its sessions are over."""

    def __init__(self, keys: KeySet) -> None:
        if not keys.keys:
            raise SessionKeyMissing("the session key file holds an empty key set")
        for key in keys.keys:
            if key.key_type not in ALGORITHMS:
                raise SessionKeyMissing(f"a session key is of type {key.key_type}: only oct and OKP (Ed25519) will do")
            if isinstance(key, OctKey) and len(key.raw_value) < MIN_SECRET_BYTES:
                raise SessionKeyMissing(f"a session secret is shorter than {MIN_SECRET_BYTES} bytes")
            key.ensure_kid()
        self._keys = keys
        self._signer: Key = keys.keys[0]
        self._algorithms = sorted({ALGORITHMS[key.key_type] for key in keys.keys})

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """Read a JWK set or a JWK (JSON), or else a secret of at least 32 bytes. Raises SessionKeyMissing."""
        if path is None:
            raise SessionKeyMissing(
                "no session key: set CLUSTERRA_SESSION_KEY_FILE to a file with 32 or more random bytes or a JWK set"
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SessionKeyMissing(f"the session key file cannot be read: {error}") from error
        try:
            with warnings.catch_warnings():
                # Of short secrets, which are refused below.
                warnings.simplefilter("ignore", SecurityWarning)
                return cls(_key_set(content))
        except (JoseError, ValueError) as error:
            # The cause may carry the key itself.
            raise SessionKeyMissing(f"{path} is neither a JWK nor a JWK set ({type(error).__name__})") from None

    def sign(self, audience: str, claims: BaseModel, *, seconds: float) -> str:
        """A token for `audience` (what it is used for), valid for so long."""
        issued = int(time.time())
        header = {"alg": ALGORITHMS[self._signer.key_type], "kid": self._signer.kid}
        payload = {"iat": issued, "exp": issued + int(seconds), **claims.model_dump(), "aud": audience}
        return jwt.encode(header, payload, self._signer, algorithms=self._algorithms)

    def verify[C: BaseModel](self, audience: str, token: str, claims: type[C]) -> C:
        """The claims of a token signed here for this use and not expired. Raises Unauthenticated."""
        try:
            decoded: dict[str, Any] = jwt.decode(token, self._keys, algorithms=self._algorithms).claims
            _registry(audience).validate(decoded)
            return claims.model_validate(decoded)
        except (JoseError, ValidationError, ValueError) as error:
            raise Unauthenticated("this sign-in is not valid or has expired", hint="sign in again") from error


def _key_set(content: bytes) -> KeySet:
    # Random bytes may well begin with a brace, but they are no UTF-8.
    if not content.lstrip().startswith(b"{") or "\ufffd" in content.decode(errors="replace"):
        return KeySet([OctKey.import_key(content)])
    parsed = json.loads(content)
    return KeySet.import_key_set(parsed if "keys" in parsed else {"keys": [parsed]})


def _registry(audience: str) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        aud={"essential": True, "value": audience}, exp={"essential": True}, iat={"essential": True}
    )
