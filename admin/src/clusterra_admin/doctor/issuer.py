"""Checks the OpenID Connect issuers: their discovery documents, their keys, and their clocks."""

import asyncio
from typing import Any

import aiohttp
from clusterra_gateway.identity.issuers.kinds import may_publish
from clusterra_gateway.identity.sign_in.login import ServedIssuer, ServedIssuerList
from clusterra_gateway.settings import IssuerKind
from pydantic import BaseModel, ConfigDict, ValidationError

from clusterra_admin.doctor.finding import Finding, failure, ok, skipped
from clusterra_admin.doctor.http import Answer, CertificateRejected, NoAnswer, get

ALGORITHMS = frozenset({"RSA", "EC", "OKP"})
"""Types of keys (RFC 7517) whose signatures the gateway accepts: all are asymmetric."""
ADVICE = "check CLUSTERRA_OIDC_ISSUER, that the issuer runs, and that this network reaches it"


class _Discovery(BaseModel):
    """The part of a discovery document that is checked."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


async def further_issuers(http: aiohttp.ClientSession, gateway: str, seconds: float) -> tuple[ServedIssuer, ...]:
    """The issuers besides the default one that a gateway serves; none where it does not tell: that is another check."""
    try:
        async with asyncio.timeout(seconds):
            answer = await get(http, gateway.rstrip("/") + "/v1/auth/issuers")
        served = ServedIssuerList.model_validate(answer.json).issuers
    except (NoAnswer, CertificateRejected, TimeoutError, ValidationError):
        return ()
    return tuple(each for each in served if not each.default)


async def check_issuer(http: aiohttp.ClientSession, issuer: str, kind: IssuerKind = "oidc") -> list[Finding]:
    """Read what a gateway reads when somebody signs in."""
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        answer = await get(http, address)
        found = _Discovery.model_validate(answer.json)
    except CertificateRejected:
        return [skipped("issuer.discovery", "its certificate is not valid", about=issuer)]
    except NoAnswer as error:
        return [failure("issuer.discovery", str(error), ADVICE, about=issuer)]
    except ValidationError as error:
        missing = ", ".join(sorted({str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}))
        seen = f"the discovery document lacks {missing or 'everything'}"
        return [failure("issuer.discovery", seen, ADVICE, about=issuer)]
    return [
        ok("issuer.discovery", "readable", about=issuer),
        _name(issuer, kind, found),
        answer.clock("issuer"),
        await _keys(http, issuer, found.jwks_uri),
    ]


def _name(issuer: str, kind: IssuerKind, found: _Discovery) -> Finding:
    if not may_publish(kind, issuer, found.issuer):
        seen = f"the document is about {found.issuer}"
        advice = f"name the issuer {found.issuer} in the gateway's settings or file, exactly as it writes it itself"
        return failure("issuer.name", seen, advice, about=issuer)
    return ok("issuer.name", "the document names the configured issuer", about=issuer)


async def _keys(http: aiohttp.ClientSession, issuer: str, address: str) -> Finding:
    try:
        usable = _usable_keys(await get(http, address))
    except CertificateRejected:
        return skipped("issuer.keys", f"the certificate of {address} is not valid", about=issuer)
    except NoAnswer as error:
        return failure("issuer.keys", str(error), ADVICE, about=issuer)
    if not usable:
        seen = f"{address} has no key that the gateway can use"
        return failure("issuer.keys", seen, "let the issuer sign with RS256, PS256, ES256 or EdDSA", about=issuer)
    return ok("issuer.keys", f"{usable} usable keys", about=issuer)


def _usable_keys(answer: Answer) -> int:
    document: Any = answer.json
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise NoAnswer("the keys' document is not a JWK set")
    return sum(isinstance(key, dict) and key.get("kty") in ALGORITHMS for key in keys)
