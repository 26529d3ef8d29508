"""Signing in at an OpenID Connect issuer: authorization code flow with PKCE, as a relying party."""

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import structlog
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yarl import URL

from clusterra_gateway.http.errors import Unauthenticated, Unavailable

log = structlog.get_logger()

ALGORITHMS = ("RS256", "PS256", "ES256", "Ed25519", "EdDSA")
"""What an id_token may be signed with: only asymmetric ones, for our client secret signs nothing."""

SCOPES = "openid email profile"
CLAIMS = '{"id_token":{"email":null,"email_verified":null,"name":null}}'
"""What the id_token shall hold beside the standard (OIDC Core 5.5): many issuers put it there for the scopes alone,
some only when asked by name."""
CLOCK_SKEW_SECONDS = 60
METADATA_SECONDS = 3600.0
KEYS_AGAIN_SECONDS = 10.0
"""An unknown key id makes us read the issuer's keys again, but no more often than this."""
TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class Metadata(BaseModel):
    """The part of an issuer's discovery document that we use."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(BaseModel):
    """A token endpoint's answer; nothing of it is kept."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id_token: Annotated[str, Field(repr=False)]
    access_token: Annotated[str, Field(repr=False)] = ""


class OAuthError(BaseModel):
    """Why a token endpoint refused (RFC 6749, 5.2)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    error: Annotated[str, Field(max_length=64)]

    @classmethod
    def of(cls, body: bytes) -> "OAuthError":
        """Read a refusal's body."""
        try:
            return cls.model_validate_json(body)
        except ValidationError:
            return cls(error="no reason given")


class UserInfo(BaseModel):
    """What an issuer tells of a person, in the id_token or at its UserInfo endpoint."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sub: Annotated[str, Field(min_length=1, max_length=255)]
    email: Annotated[str | None, Field(max_length=320)] = None
    email_verified: bool | None = None
    name: str | None = None


@dataclass(frozen=True)
class Identity:
    """Who signed in, as the issuer vouches."""

    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str


def code_challenge(verifier: str) -> str:
    """PKCE's S256 challenge of a verifier (RFC 7636, 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class Issuer:
    """One issuer. Its metadata and keys are read when first needed and kept for an hour."""

    def __init__(
        self, http: aiohttp.ClientSession, issuer: str, client_id: str, client_secret: str | None, redirect_uri: str
    ) -> None:
        self._http = http
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._redirect_uri = redirect_uri
        self._metadata: tuple[Metadata, float] | None = None
        self._keys: tuple[KeySet, float] | None = None

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where to send the browser. Raises Unavailable."""
        metadata = await self._discover()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": SCOPES,
            "claims": CLAIMS,
            "state": state,
            "nonce": nonce,
            "code_challenge": code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        return str(URL(metadata.authorization_endpoint).update_query(query))

    async def identity(self, *, code: str, verifier: str, nonce: str) -> Identity:
        """Redeem a code and verify the id_token. Raises Unauthenticated or Unavailable."""
        metadata = await self._discover()
        tokens = await self._redeem(metadata, code, verifier)
        told = await self._verified(tokens.id_token, nonce)
        if (told.email is None or told.email_verified is None) and metadata.userinfo_endpoint and tokens.access_token:
            # OpenID Connect Core 5.4: what the scopes ask for may be told there only.
            more = await self._user_info(metadata.userinfo_endpoint, tokens.access_token)
            if more.sub != told.sub:
                raise Unauthenticated("the sign-in service's answers are about two people", hint="sign in again")
            told = more.model_copy(update=told.model_dump(exclude_none=True))
        return Identity(self._issuer, told.sub, told.email or "", told.email_verified is True, told.name or "")

    async def _user_info(self, address: str, access_token: str) -> UserInfo:
        try:
            return UserInfo.model_validate(await self._get(address, {"Authorization": f"Bearer {access_token}"}))
        except ValidationError as error:
            raise Unavailable("the sign-in service's answer is not usable", hint="tell the operators") from error

    async def _redeem(self, metadata: Metadata, code: str, verifier: str) -> Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if self._client_secret is None:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            headers["Authorization"] = aiohttp.encode_basic_auth(self._client_id, self._client_secret)
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        try:
            async with self._http.post(metadata.token_endpoint, data=form, headers=headers, timeout=TIMEOUT) as answer:
                body = await answer.read()
                if answer.status >= 500:
                    raise Unavailable("the sign-in service failed", hint="try to sign in again")
                if answer.status != 200:
                    log.warning("code_refused", status=answer.status, error=OAuthError.of(body).error)
                    raise Unauthenticated("the sign-in service did not accept this login", hint="sign in again")
            return Tokens.model_validate_json(body)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable("the sign-in service does not answer", hint="try to sign in again") from error
        except ValidationError:
            raise Unauthenticated("the sign-in service answered without an id_token", hint="sign in again") from None

    async def _verified(self, id_token: str, nonce: str) -> UserInfo:
        registry = jwt.JWTClaimsRegistry(
            leeway=CLOCK_SKEW_SECONDS,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = await self._decoded(id_token)
            registry.validate(claims)
            if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != self._client_id:
                raise Unauthenticated("the id_token was made for another application", hint="sign in again")
            return UserInfo.model_validate(claims)
        except (JoseError, ValidationError, ValueError) as error:
            log.warning("id_token_refused", reason=type(error).__name__)
            raise Unauthenticated("the sign-in service's answer is not valid", hint="sign in again") from error

    async def _decoded(self, id_token: str) -> dict[str, Any]:
        try:
            return jwt.decode(id_token, await self._key_set(), algorithms=ALGORITHMS).claims
        except InvalidKeyIdError:
            return jwt.decode(id_token, await self._key_set(again=True), algorithms=ALGORITHMS).claims

    async def _discover(self) -> Metadata:
        if self._metadata is not None and time.monotonic() < self._metadata[1]:
            return self._metadata[0]
        address = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            metadata = Metadata.model_validate(await self._get(address))
        except ValidationError as error:
            raise Unavailable("the sign-in service's description is not usable", hint="tell the operators") from error
        if metadata.issuer != self._issuer:
            # OpenID Connect Discovery 4.3: a document of another issuer must not be used.
            raise Unavailable("the sign-in service describes another issuer", hint="tell the operators")
        self._metadata = (metadata, time.monotonic() + METADATA_SECONDS)
        return metadata

    async def _key_set(self, *, again: bool = False) -> KeySet:
        if self._keys is not None:
            keys, read_at = self._keys
            age = time.monotonic() - read_at
            if age < (KEYS_AGAIN_SECONDS if again else METADATA_SECONDS):
                return keys
        document = await self._get((await self._discover()).jwks_uri)
        try:
            keys = KeySet.import_key_set(document)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise Unavailable("the sign-in service's keys are not usable", hint="tell the operators") from error
        self._keys = (keys, time.monotonic())
        return keys

    async def _get(self, address: str, headers: dict[str, str] | None = None) -> Any:
        try:
            async with self._http.get(address, headers=headers, timeout=TIMEOUT) as answer:
                answer.raise_for_status()
                return await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable("the sign-in service does not answer", hint="try to sign in again") from error


def new_secret() -> str:
    """An unguessable value for a state, a nonce or a code verifier (43 characters)."""
    return secrets.token_urlsafe(32)
