"""Tokens that the gateway signs itself: a browser's session, and the state of a login in progress."""

import hmac
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

from clusterra_gateway.http.requests.errors import Unauthenticated

ALGORITHMS = {"oct": "HS256", "OKP": "Ed25519"}
"""The signature algorithm for each type of key."""
MIN_SECRET_BYTES = 32


class SigningKeyMissing(RuntimeError):
    """There is no usable key to sign sessions with. The gateway does not start without one."""


class Claims(BaseModel):
    """The claims of a session: the member's id (`sub`), the sign-in's id (`jti`), start and end in Unix seconds.

    A renewed session keeps its `jti` and `auth_time`.
    """

    model_config = ConfigDict(frozen=True)

    sub: str
    jti: str
    iat: int
    exp: int
    auth_time: int | None = None
    """When the person signed in, as in OIDC; None in sessions of the release before: at `iat`."""

    @property
    def signed_in_at(self) -> datetime:
        """The moment of the sign-in."""
        return datetime.fromtimestamp(self.iat if self.auth_time is None else self.auth_time, UTC)

    @property
    def expires_at(self) -> datetime:
        """The end of the session."""
        return datetime.fromtimestamp(self.exp, UTC)


class LoginState(BaseModel):
    """What the gateway must know again when the issuer sends the browser back."""

    model_config = ConfigDict(frozen=True)

    state: str
    nonce: str
    verifier: str
    """The code verifier of PKCE."""
    return_to: str
    invitation: str = ""
    """The invitation that the person accepts with this login, whose secret was checked; empty for none."""
    issuer: str = ""
    """The issuer that the browser was sent to; empty in logins of the release before: the platform's default issuer."""


class SigningKeys:
    """The keys of session tokens. The first key signs, all verify.

    To rotate, put a new key first, and remove the old one when its sessions have ended.
    """

    def __init__(self, keys: KeySet) -> None:
        if not keys.keys:
            raise SigningKeyMissing("the session key file holds an empty key set")
        for key in keys.keys:
            if key.key_type not in ALGORITHMS:
                raise SigningKeyMissing(
                    f"a session key has the type {key.key_type}: only oct and OKP (Ed25519) are supported"
                )
            if isinstance(key, OctKey) and len(key.raw_value) < MIN_SECRET_BYTES:
                raise SigningKeyMissing(f"a session secret is shorter than {MIN_SECRET_BYTES} bytes")
            key.ensure_kid()
        self._keys = keys
        self._signer: Key = keys.keys[0]
        self._algorithms = sorted({ALGORITHMS[key.key_type] for key in keys.keys})

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """Reads a JWK set, a JWK, or a raw secret of at least 32 bytes. Raises SigningKeyMissing."""
        if path is None:
            raise SigningKeyMissing(
                "no session key: set CLUSTERRA_SESSION_KEY_FILE to a file with 32 or more random bytes or a JWK set"
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SigningKeyMissing(f"the session key file cannot be read: {error}") from error
        try:
            with warnings.catch_warnings():
                # joserfc warns of short secrets; they are rejected in any case.
                warnings.simplefilter("ignore", SecurityWarning)
                return cls(_key_set(content))
        except (JoseError, ValueError) as error:
            # The cause is left out: it may contain the key itself.
            raise SigningKeyMissing(f"{path} is neither a JWK nor a JWK set ({type(error).__name__})") from None

    def sign(self, audience: str, claims: BaseModel, *, seconds: float) -> str:
        """A token with these claims that is valid for this long. `audience` names its purpose."""
        issued = int(time.time())
        header = {"alg": ALGORITHMS[self._signer.key_type], "kid": self._signer.kid}
        payload = {"iat": issued, "exp": issued + int(seconds), **claims.model_dump(), "aud": audience}
        return jwt.encode(header, payload, self._signer, algorithms=self._algorithms)

    def derive(self, purpose: str, about: str, kid: str = "") -> tuple[str, str]:
        """A secret of 64 hex digits that only this installation can make, and the id of the key that it follows from.

        With `kid` that key is used again. Raises Unauthenticated when it was removed.
        """
        key = self._signer if not kid else next((each for each in self._keys.keys if each.kid == kid), None)
        if key is None:
            raise Unauthenticated("the key of this session was removed", hint="start a new session")
        secret = key.raw_value if isinstance(key, OctKey) else str(key.as_dict(private=True)["d"]).encode()
        return hmac.new(secret, f"{purpose}\0{about}".encode(), "sha256").hexdigest(), str(key.kid)

    def verify[C: BaseModel](self, audience: str, token: str, claims: type[C]) -> C:
        """The claims of a token that was signed here for this purpose and is not expired. Raises Unauthenticated."""
        try:
            decoded: dict[str, Any] = jwt.decode(token, self._keys, algorithms=self._algorithms).claims
            _claims_registry(audience).validate(decoded)
            return claims.model_validate(decoded)
        except (JoseError, ValidationError, ValueError) as error:
            raise Unauthenticated("this sign-in is not valid or has expired", hint="sign in again") from error


def _key_set(content: bytes) -> KeySet:
    # Random bytes may begin with a brace, but they are not valid UTF-8.
    if not content.lstrip().startswith(b"{") or "\ufffd" in content.decode(errors="replace"):
        return KeySet([OctKey.import_key(content)])
    parsed = json.loads(content)
    return KeySet.import_key_set(parsed if "keys" in parsed else {"keys": [parsed]})


def _claims_registry(audience: str) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        aud={"essential": True, "value": audience}, exp={"essential": True}, iat={"essential": True}
    )
