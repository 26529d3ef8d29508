"""Reads what an issuer publishes: its discovery document and its keys (OpenID Connect Discovery 1.0)."""

from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.identity.issuers.cached_document import CachedDocument
from clusterra_gateway.identity.issuers.kinds import may_publish
from clusterra_gateway.settings import IssuerKind, is_loopback

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
