"""What an issuer publishes: one fetch for all, bounds, and what holds while the issuer fails."""

import asyncio

import aiohttp
import pytest
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.identity.issuers import issuer_documents
from clusterra_gateway.identity.issuers.issuer_documents import IssuerDocuments, Metadata
from gateway_world import World, authorized
from issuer_stand_in import IssuerStandIn
from pydantic import ValidationError
from test_login import get

LOGIN = "/v1/auth/login"


async def test_a_failing_issuer_is_asked_once_and_logins_are_told_when_to_retry(world: World) -> None:
    world.issuer.fails = True
    browser = await world.browser()

    async def begun() -> tuple[int, str]:
        async with browser.get(LOGIN, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("Retry-After", "")

    answers = [await begun() for _ in range(5)] + await asyncio.gather(*(begun() for _ in range(15)))

    assert {status for status, _ in answers} == {503}
    assert all(1 <= int(retry_after) <= issuer_documents.FAILURE_SECONDS for _, retry_after in answers)
    assert world.issuer.calls == ["discovery"]


async def test_an_issuer_that_works_again_is_used_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.issuer.fails = True
    browser = await world.browser()
    monkeypatch.setattr(issuer_documents, "FAILURE_SECONDS", 0.0)
    assert (await get(browser, LOGIN))[0] == 503

    world.issuer.fails = False

    assert (await get(browser, await authorized(browser)))[0] == 303


async def test_parallel_first_logins_share_one_fetch(issuer: IssuerStandIn) -> None:
    async with aiohttp.ClientSession() as http:
        documents = IssuerDocuments(http, issuer.address, "oidc")

        await asyncio.gather(*(documents.keys() for _ in range(20)))

    assert issuer.calls == ["discovery", "keys"]


async def test_kept_documents_serve_while_the_issuer_fails(
    issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aiohttp.ClientSession() as http:
        documents = IssuerDocuments(http, issuer.address, "oidc")
        keys = await documents.keys()
        issuer.fails = True
        monkeypatch.setattr(issuer_documents, "FRESH_SECONDS", 0.0)

        assert await documents.keys() is keys
        assert (await documents.metadata()).issuer == issuer.address

        monkeypatch.setattr(issuer_documents, "GRACE_SECONDS", 0.0)
        with pytest.raises(Unavailable) as refused:
            await documents.keys()
        assert refused.value.retry_after_seconds is not None


async def test_a_new_key_that_cannot_be_fetched_is_no_forgery(
    issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aiohttp.ClientSession() as http:
        documents = IssuerDocuments(http, issuer.address, "oidc")
        keys = await documents.keys()
        assert await documents.newer_keys() is keys  # fetched a moment ago
        issuer.fails = True
        monkeypatch.setattr(issuer_documents, "KEYS_REFETCH_SECONDS", 0.0)

        with pytest.raises(Unavailable):
            await documents.newer_keys()

        assert await documents.keys() is keys


async def test_a_document_that_is_too_large_is_not_read(issuer: IssuerStandIn) -> None:
    issuer.discovered = {"service_documentation": "x" * issuer_documents.MAX_ANSWER_BYTES}
    async with aiohttp.ClientSession() as http:
        with pytest.raises(Unavailable, match="too large"):
            await IssuerDocuments(http, issuer.address, "oidc").metadata()


async def test_a_document_of_another_issuer_is_refused(issuer: IssuerStandIn) -> None:
    issuer.discovered = {"issuer": "http://evil.localhost"}
    async with aiohttp.ClientSession() as http:
        with pytest.raises(Unavailable, match="another issuer"):
            await IssuerDocuments(http, issuer.address, "oidc").metadata()


@pytest.mark.parametrize("field", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
@pytest.mark.parametrize(
    ("issuer_address", "endpoint", "allowed"),
    [
        ("https://id.example", "https://keys.example/x", True),
        ("https://id.example", "http://id.example/x", False),
        ("https://id.example", "http://127.0.0.1/x", False),
        ("http://127.0.0.1:8", "http://127.0.0.1:8/x", True),
        ("http://127.0.0.1:8", "http://id.example/x", False),
        ("https://id.example", "javascript:alert(1)", False),
        ("https://id.example", "https://[::1", False),
    ],
)
def test_an_endpoint_is_encrypted_unless_the_issuer_is_this_machine(
    field: str, issuer_address: str, endpoint: str, allowed: bool
) -> None:
    own = dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), f"{issuer_address}/own")
    document = {"issuer": issuer_address, **own, field: endpoint}

    if allowed:
        assert Metadata.model_validate(document).issuer == issuer_address
    else:
        with pytest.raises(ValidationError):
            Metadata.model_validate(document)
