"""Reads and keeps what an issuer publishes: its discovery document and its keys (OpenID Connect Discovery 1.0)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.identity.issuers.kinds import may_publish
from clusterra_gateway.settings import IssuerKind, is_loopback

log = structlog.get_logger()

FRESH_SECONDS = 3600.0
"""A document is fetched again when it is older."""
GRACE_SECONDS = 86_400.0
"""While the issuer fails, its last document is used until it is this old."""
FAILURE_SECONDS = 10.0
"""After a failed fetch the issuer is not asked again for this time."""
KEYS_REFETCH_SECONDS = 10.0
"""An unknown key id makes the gateway fetch the issuer's keys again, but no more often than this."""
MAX_ANSWER_BYTES = 256 * 1024
"""The largest answer of an issuer that is read. Known issuers send less than a tenth of it."""
TIMEOUT = aiohttp.ClientTimeout(total=10.0)

_JSON_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class Metadata(BaseModel):
    """The part of an issuer's discovery document that the gateway uses."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False
    """Whether the issuer names itself where it sends the browser back (RFC 9207)."""

    @model_validator(mode="after")
    def _encrypted_unless_local(self) -> Self:
        addresses = (self.authorization_endpoint, self.token_endpoint, self.jwks_uri, self.userinfo_endpoint)
        for address in (self.issuer, *addresses):
            if address is not None and not (_is_encrypted(address) or (_is_local(address) and _is_local(self.issuer))):
                raise ValueError("every address must be https:// (http:// is allowed for this machine's issuer only)")
        return self


class CachedDocument[T]:
    """One document, fetched by `fetch`, which raises Unavailable when the issuer fails or its answer is invalid.

    All who need it share one fetch, and a failed fetch is not repeated at once.
    """

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._document: tuple[T, float] | None = None
        self._failure: tuple[Unavailable, float] | None = None

    async def read(self) -> T:
        """The document; while the issuer fails, the last one within its grace. Raises Unavailable."""
        async with self._lock:
            kept = self._younger_than(FRESH_SECONDS)
            if kept is not None:
                return kept
            try:
                return await self._fetched()
            except Unavailable as error:
                kept = self._younger_than(GRACE_SECONDS)
                if kept is None:
                    raise
                log.warning("issuer_fails", reason=error.detail)
                return kept

    async def read_younger_than(self, seconds: float) -> T:
        """The document, fetched again if it is older. Raises Unavailable."""
        async with self._lock:
            kept = self._younger_than(seconds)
            return await self._fetched() if kept is None else kept

    def _younger_than(self, seconds: float) -> T | None:
        if self._document is not None and time.monotonic() < self._document[1] + seconds:
            return self._document[0]
        return None

    async def _fetched(self) -> T:
        if self._failure is not None:
            error, until = self._failure
            left = until - time.monotonic()
            if left > 0:
                raise Unavailable(error.detail, hint=error.hint, retry_after_seconds=math.ceil(left))
        try:
            document = await self._fetch()
        except Unavailable as error:
            self._failure = (error, time.monotonic() + FAILURE_SECONDS)
            retry_after = math.ceil(FAILURE_SECONDS)
            raise Unavailable(error.detail, hint=error.hint, retry_after_seconds=retry_after) from error
        self._document, self._failure = (document, time.monotonic()), None
        return document


class IssuerDocuments:
    """The discovery document and the keys of one issuer, fetched when first needed and then kept."""

    def __init__(self, http: aiohttp.ClientSession, issuer: str, kind: IssuerKind) -> None:
        self._http = http
        self._issuer = issuer
        self._kind = kind
        self._metadata = CachedDocument(self._fetch_metadata)
        self._keys = CachedDocument(self._fetch_keys)

    async def metadata(self) -> Metadata:
        """The discovery document. Raises Unavailable."""
        return await self._metadata.read()

    async def keys(self) -> KeySet:
        """The keys that verify id_tokens. Raises Unavailable."""
        return await self._keys.read()

    async def newer_keys(self) -> KeySet:
        """The keys, for an id_token whose key is not among those kept. Raises Unavailable."""
        return await self._keys.read_younger_than(KEYS_REFETCH_SECONDS)

    async def _fetch_metadata(self) -> Metadata:
        address = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            metadata = Metadata.model_validate(await fetch_json(self._http, address))
        except ValidationError as error:
            raise Unavailable(
                "the sign-in service's discovery document is invalid", hint="contact the operators"
            ) from error
        if not may_publish(self._kind, self._issuer, metadata.issuer):
            raise Unavailable(
                "the sign-in service's discovery document is another issuer's", hint="contact the operators"
            )
        return metadata

    async def _fetch_keys(self) -> KeySet:
        document: Any = await fetch_json(self._http, (await self.metadata()).jwks_uri)
        try:
            return KeySet.import_key_set(document)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise Unavailable("the sign-in service's keys are invalid", hint="contact the operators") from error


async def fetch_json(
    http: aiohttp.ClientSession, address: str, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at an address of an issuer. No redirect is followed. Raises Unavailable."""
    try:
        async with http.get(address, headers=headers, timeout=TIMEOUT, allow_redirects=False) as answer:
            if answer.status != 200:
                raise Unavailable(
                    f"the sign-in service answered with status {answer.status}", hint="try to sign in again"
                )
            return _JSON_OBJECT.validate_json(await bounded_body(answer))
    except ValidationError as error:
        raise Unavailable("the sign-in service's answer is no JSON object", hint="contact the operators") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable("the sign-in service does not answer", hint="try to sign in again") from error


async def bounded_body(answer: aiohttp.ClientResponse) -> bytes:
    """The body of an issuer's answer. Raises Unavailable if it is too large."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(16 * 1024):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise Unavailable("the sign-in service's answer is too large", hint="contact the operators")
    return bytes(body)


def _is_encrypted(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" and bool(parts.hostname)


def _is_local(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "http" and is_loopback(parts.hostname)
