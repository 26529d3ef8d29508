"""Signs people in at an OpenID Connect issuer: the authorization code flow with PKCE, as a relying party."""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import Annotated, Any

import aiohttp
import structlog
from clusterra_runtime.secrets.reference import SecretUnavailable
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from yarl import URL

from clusterra_gateway.http.requests.errors import Unauthenticated, Unavailable
from clusterra_gateway.identity.issuers.configuration import ConfiguredIssuer
from clusterra_gateway.identity.issuers.issuer_documents import (
    TIMEOUT,
    IssuerDocuments,
    Metadata,
    bounded_body,
    fetch_json,
)
from clusterra_gateway.identity.issuers.kinds import address_of, issuer_of, may_issue, verified

log = structlog.get_logger()

ALGORITHMS = ("RS256", "PS256", "ES256", "Ed25519", "EdDSA")
"""Accepted signature algorithms of an id_token. All are asymmetric: the client secret must not sign one."""

SCOPES = "openid email profile"
CLAIMS = '{"id_token":{"email":null,"email_verified":null,"name":null}}'
"""Claims that the id_token should hold (OIDC Core 5.5). Many issuers include them for the scopes alone, some only when
asked by name."""
CLOCK_SKEW_SECONDS = 60


class TokenResponse(BaseModel):
    """A token endpoint's response. The gateway does not store it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id_token: Annotated[str, Field(repr=False)]
    access_token: Annotated[str, Field(repr=False)] = ""


class OAuthError(BaseModel):
    """A token endpoint's error response (RFC 6749, 5.2)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    error: Annotated[str, Field(max_length=64)]

    @classmethod
    def of(cls, body: bytes) -> "OAuthError":
        """Reads the body of an error response."""
        try:
            return cls.model_validate_json(body)
        except ValidationError:
            return cls(error="no reason given")


class UserInfo(BaseModel):
    """An issuer's claims about a person, in the id_token or from its UserInfo endpoint."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sub: Annotated[str, Field(min_length=1, max_length=255)]
    email: Annotated[str | None, Field(max_length=320)] = None
    email_verified: bool | None = None
    preferred_username: Annotated[str | None, Field(max_length=320)] = None
    name: str | None = None
    hd: Annotated[str | None, Field(max_length=255)] = None
    """The domain of a Google Workspace."""


@dataclass(frozen=True)
class Identity:
    """The person who signed in, as the issuer vouches."""

    issuer: str
    subject: str
    email: str
    """Empty for none."""
    email_verified: bool | None
    """None where the issuer says nothing of it, as Entra ID does."""
    name: str


def code_challenge(verifier: str) -> str:
    """The S256 code challenge of a PKCE verifier (RFC 7636, 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class Issuer:
    """One issuer, as its client sees it."""

    def __init__(self, http: aiohttp.ClientSession, given: ConfiguredIssuer, redirect_uri: str) -> None:
        self._http = http
        self.given = given
        self._client_id = given.client_id
        self._redirect_uri = redirect_uri
        self._documents = IssuerDocuments(http, given.issuer, given.kind)

    @property
    def identifier(self) -> str:
        """The issuer identifier, as it is configured."""
        return self.given.issuer

    def may_issue(self, issuer: str) -> bool:
        """Whether id_tokens of this issuer (`iss`) may come from here."""
        return may_issue(self.given.kind, self.identifier, issuer)

    async def answers_as(self, named: str | None) -> bool:
        """Whether an answer in which the issuer is named so comes from here (RFC 9207, 2.4). Raises Unavailable."""
        metadata = await self._documents.metadata()
        if named is None:
            return not metadata.authorization_response_iss_parameter_supported
        return named == metadata.issuer or self.may_issue(named)

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """The address to send the browser to. Raises Unavailable."""
        metadata = await self._documents.metadata()
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
        """Redeems a code and verifies the id_token. Raises Unauthenticated, Unavailable."""
        metadata = await self._documents.metadata()
        tokens = await self._redeem(metadata, code, verifier)
        issuer, claims = await self._verify(metadata, tokens.id_token, nonce)
        incomplete = claims.email is None or claims.email_verified is None
        if incomplete and metadata.userinfo_endpoint and tokens.access_token:
            # OpenID Connect Core 5.4: the issuer may return the scopes' claims there only.
            user_info = await self._user_info(metadata.userinfo_endpoint, tokens.access_token)
            if user_info.sub != claims.sub:
                raise Unauthenticated("the sign-in service answered about two different people", hint="sign in again")
            # A verification counts for the address that it came with.
            there = user_info.model_dump(include={"email", "email_verified"}, exclude_none=True)
            whose = set(there) if "email" in there else None
            claims = user_info.model_copy(update=claims.model_dump(exclude_none=True, exclude=whose))
        address = address_of(self.given.kind, claims.email, claims.preferred_username)
        is_verified = verified(self.given.kind, address, claims.email_verified, claims.hd)
        return Identity(issuer, claims.sub, address, is_verified, claims.name or "")

    async def _user_info(self, address: str, access_token: str) -> UserInfo:
        headers = {"Authorization": f"Bearer {access_token}"}
        try:
            return UserInfo.model_validate(await fetch_json(self._http, address, headers))
        except ValidationError as error:
            raise Unavailable(
                "the sign-in service's UserInfo response is invalid", hint="contact the operators"
            ) from error

    async def _redeem(self, metadata: Metadata, code: str, verifier: str) -> TokenResponse:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        client_secret = self._secret()
        if client_secret is None:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            headers["Authorization"] = aiohttp.encode_basic_auth(self._client_id, client_secret)
        else:
            form |= {"client_id": self._client_id, "client_secret": client_secret}
        try:
            async with self._http.post(
                metadata.token_endpoint, data=form, headers=headers, timeout=TIMEOUT, allow_redirects=False
            ) as answer:
                body = await bounded_body(answer)
                if answer.status >= 500:
                    raise Unavailable("the sign-in service failed", hint="try to sign in again")
                if answer.status != 200:
                    log.warning("code_refused", status=answer.status, error=OAuthError.of(body).error)
                    raise Unauthenticated("the sign-in service did not accept this login", hint="sign in again")
            return TokenResponse.model_validate_json(body)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable("the sign-in service does not answer", hint="try to sign in again") from error
        except ValidationError:
            raise Unauthenticated("the sign-in service answered without an id_token", hint="sign in again") from None

    def _secret(self) -> str | None:
        try:
            return self.given.secret()
        except SecretUnavailable as error:
            log.error("client_secret_unavailable", issuer=self.given.name, reason=str(error))  # noqa: TRY400
            raise Unavailable(
                "the sign-in service's client secret cannot be read", hint="contact the operators"
            ) from None

    async def _verify(self, metadata: Metadata, id_token: str, nonce: str) -> tuple[str, UserInfo]:
        """The issuer that signed, and the claims."""
        registry = jwt.JWTClaimsRegistry(
            leeway=CLOCK_SKEW_SECONDS,
            iss={"essential": True},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = await self._decode(id_token)
            registry.validate(claims)
            if claims["iss"] != issuer_of(self.given.kind, metadata.issuer, claims):
                raise Unauthenticated("the id_token comes from another issuer", hint="sign in again")
            if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != self._client_id:
                raise Unauthenticated("the id_token was made for another application", hint="sign in again")
            return claims["iss"], UserInfo.model_validate(claims)
        except (JoseError, ValidationError, ValueError) as error:
            log.warning("id_token_refused", reason=type(error).__name__)
            raise Unauthenticated(
                "the sign-in service's id_token is not valid for this login", hint="sign in again"
            ) from error

    async def _decode(self, id_token: str) -> dict[str, Any]:
        try:
            return jwt.decode(id_token, await self._documents.keys(), algorithms=ALGORITHMS).claims
        except (InvalidKeyIdError, BadSignatureError):
            # An issuer with one key need not give it an id, and a new one then looks like the one before.
            return jwt.decode(id_token, await self._documents.newer_keys(), algorithms=ALGORITHMS).claims


def new_secret() -> str:
    """A random value for a state, a nonce or a code verifier: 256 bits in 43 characters."""
    return secrets.token_urlsafe(32)
