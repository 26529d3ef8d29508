"""The sessions' origin: what reaches a session's server, what its answers may do, and for whom a cookie is good."""

import time
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from clusterra_contracts.identity import now
from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.sessions.entrance import ServerToken
from clusterra_gateway.sessions.forwarding import headers_of, own_cookie
from clusterra_gateway.sessions.page_credentials import PageClaims, PageCookies, Ticket, Tickets
from clusterra_gateway.settings import Settings
from clusterra_gateway.tables import TABLES
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.table_use import tables_of
from joserfc.jwk import KeySet, OctKey

KEYS = SigningKeys(KeySet([OctKey.generate_key(256)]))
OTHER_KEYS = SigningKeys(KeySet([OctKey.generate_key(256)]))


def ticket(**changes: Any) -> Ticket:
    fields = {"tenant": "acme", "cluster": "main", "job_id": "42", "member": "m1", "sign_in": "s1"}
    times = {"until": now() + timedelta(hours=1), "valid_until": now() + timedelta(seconds=60)}
    return Ticket.model_validate({**fields, **times, **changes})


def cookie_of(cookies: PageCookies, made: Ticket) -> tuple[str, str]:
    """The name and the value of the cookie that a ticket leads to."""
    response = web.Response()
    cookies.set(response, made)
    morsel = next(iter(response.cookies.values()))
    return morsel.key, morsel.value


def asking(headers: dict[str, str]) -> web.Request:
    return make_mocked_request("GET", "/sessions/main/42/", headers=headers)


def test_no_credential_of_the_gateway_reaches_a_session() -> None:
    request = asking(
        {
            "Authorization": "Bearer clusterra_secret",
            "Cookie": "clusterra_session=a; __Host-clusterra_session=b; clusterra_page_main_42=c;"
            " __Host-clusterra_page_main_42=d; clusterra_login=e; __Host-clusterra_login=f; _xsrf=kept",
            "Connection": "keep-alive, X-Secret-Hop",
            "X-Secret-Hop": "hop",
            "Accept": "text/html",
        }
    )

    headers = headers_of(request, ServerToken("0" * 64))

    assert headers["Authorization"] == f"token {'0' * 64}"
    assert headers["Cookie"] == "_xsrf=kept"
    assert headers["Accept"] == "text/html"
    assert "X-Secret-Hop" not in headers
    assert "secret" not in str(headers)


def test_a_session_gets_its_token_in_the_cookie_that_it_asks_for_whatever_the_browser_sends() -> None:
    request = asking({"Cookie": "theme=dark; code-server-session-42=planted"})

    headers = headers_of(request, ServerToken("0" * 64, "code-server-session-42"))

    assert headers["Cookie"] == f"theme=dark; code-server-session-42={'0' * 64}"


@pytest.mark.parametrize(
    "line",
    [
        *("clusterra_session=x", "__Host-clusterra_session=x; Path=/", "clusterra_page_main_7=x", "clusterra_login=x"),
        *(
            "__Host-clusterra_login=x; Path=/",
            "=clusterra_page_main_7=x",
            " = clusterra_session=x; Path=/",
            "clusterra_session",
            "",
        ),
    ],
)
def test_a_session_sets_no_cookie_of_the_gateway(line: str) -> None:
    assert own_cookie(line) is None


def test_a_session_sets_cookies_for_its_own_host_only() -> None:
    kept = own_cookie("_xsrf=x; Domain=example.com; expires=Wed, 25 Nov 2026 10:00:00 GMT; Path=/sessions/main/42/")

    assert kept == "_xsrf=x; expires=Wed, 25 Nov 2026 10:00:00 GMT; Path=/sessions/main/42/"


def test_a_cookie_is_good_for_one_session() -> None:
    cookies = PageCookies(KEYS, secure=True)
    name, value = cookie_of(cookies, ticket())

    own = cookies.claims(asking({"Cookie": f"{name}={value}"}), "main", "42")
    moved = cookies.claims(asking({"Cookie": f"{name.replace('42', '43')}={value}"}), "main", "43")

    assert name.startswith("__Host-")
    assert own is not None
    assert (own.tenant, own.member, own.sign_in) == ("acme", "m1", "s1")
    assert moved is None


def test_a_cookie_ends_with_the_sign_in() -> None:
    cookies = PageCookies(KEYS, secure=False)
    _, value = cookie_of(cookies, ticket(until=now() + timedelta(seconds=90)))
    name, ended = cookie_of(cookies, ticket(until=now() - timedelta(seconds=90)))

    still = cookies.claims(asking({"Cookie": f"{name}={value}"}), "main", "42")

    assert still is not None
    assert still.exp <= time.time() + 90
    assert cookies.claims(asking({"Cookie": f"{name}={ended}"}), "main", "42") is None


def test_a_cookie_of_another_key_or_purpose_is_none() -> None:
    cookies = PageCookies(KEYS, secure=False)
    name, forged = cookie_of(PageCookies(OTHER_KEYS, secure=False), ticket())
    end = int(time.time()) + 60
    claims = PageClaims(tenant="acme", cluster="main", job_id="42", member="m1", sign_in="s1", exp=end)
    of_the_api = KEYS.sign("clusterra-session", claims, seconds=60)

    for value in (forged, of_the_api, "x"):
        assert cookies.claims(asking({"Cookie": f"{name}={value}"}), "main", "42") is None


async def test_a_ticket_is_redeemed_once() -> None:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        tickets = Tickets(store)
        made = await tickets.make(ticket())

        first, second = await tickets.redeem(made), await tickets.redeem(made)

    assert first is not None
    assert (first.member, first.job_id) == ("m1", "42")
    assert second is None


async def test_a_ticket_that_has_expired_is_none() -> None:
    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        tickets = Tickets(store)
        made = await tickets.make(ticket(valid_until=now() - timedelta(seconds=1)))

        assert await tickets.redeem(made) is None


def test_a_sessions_token_follows_from_the_key_that_made_it() -> None:
    first = OctKey.generate_key(256)
    token, kid = SigningKeys(KeySet([first])).derive("session", "acme.main#r1")
    rotated = SigningKeys(KeySet([OctKey.generate_key(256), first]))

    assert rotated.derive("session", "acme.main#r1", kid) == (token, kid)
    assert rotated.derive("session", "acme.main#r1")[0] != token
    assert rotated.derive("session", "acme.main#r2", kid)[0] != token
    with pytest.raises(Unauthenticated):
        OTHER_KEYS.derive("session", "acme.main#r1", kid)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://sessions.example.com", "https://host"),
        ("https://sessions.example.com/path", "https://host"),
        ("https://gateway.example.com", "an origin of its own"),
        ("https://gateway.example.com:8443", "another host"),
        ("https://console.example.com", "an origin of its own"),
        ("https://sessions.example.com", "another site"),
        ("https://gateway.example.com.", "another site"),
        ("https://sessions.gateway.example.com", "another site"),
        ("https://example.com", "another site"),
    ],
)
def test_user_content_has_an_origin_of_its_own(url: str, problem: str) -> None:
    own: dict[str, Any] = {"public_url": "https://gateway.example.com", "oidc_issuer": "https://issuer.example"}

    with pytest.raises(ValueError, match=problem):
        Settings(**own, oidc_client_id="clusterra", console_origins=("https://console.example.com",), sessions_url=url)


@pytest.mark.parametrize(
    ("public_url", "sessions_url"),
    [
        ("https://gateway.example.com", "https://sessions.example.net"),
        ("https://gateway.example.com", "https://sessions-example.com"),
        ("https://gateway.example.co.uk", "https://sessions.example-notebooks.co.uk"),
        ("https://10.0.0.1", "https://11.0.0.1"),
        ("https://[2001:db8::1]", "https://[2001:db8::2]"),
        ("https://localhost:8443", "https://sessions.localhost:8443"),
        ("http://localhost:8080", "http://sessions.localhost:8080"),
        ("http://127.0.0.1:8080", "http://localhost:8082"),
    ],
)
def test_user_content_may_be_on_another_site_or_on_this_machine(public_url: str, sessions_url: str) -> None:
    settings = Settings(
        public_url=public_url,
        oidc_issuer="https://issuer.example",
        oidc_client_id="clusterra",
        sessions_url=sessions_url,
    )

    assert settings.sessions_url == sessions_url


def test_user_content_may_be_on_the_gateways_site_where_that_is_meant() -> None:
    own: dict[str, Any] = {
        "public_url": "https://gateway.example.co.uk",
        "oidc_issuer": "https://issuer.example",
        "oidc_client_id": "clusterra",
        "sessions_url": "https://sessions.example.co.uk",
    }

    with pytest.raises(ValueError, match="CLUSTERRA_SESSIONS_SAME_SITE=true allows it"):
        Settings(**own)

    assert Settings(**own, sessions_same_site=True).sessions_url == "https://sessions.example.co.uk"
