"""Which addresses the gateway accepts: plain HTTP only for those that browsers reach without leaving their machine."""

import pytest
from clusterra_gateway.settings import Settings
from pydantic import ValidationError

LOCAL = [
    "http://127.0.0.1:8080",
    "http://localhost:8080",
    "http://[::1]:8080",
    "http://clusterra.localhost:8080",
    "http://OIDC.Localhost:9000",
    "http://a.b.localhost",
]
REMOTE = [
    "http://gateway.example.org",
    "http://localhost.example.org",
    "http://clusterra.localhost.example.org",
    "http://evillocalhost",
    "http://.localhost",
    "http://127.0.0.1.example.org",
    "http://clusterra.localhost@example.org",
    "ftp://clusterra.localhost",
]


def settings(*, public_url: str = "https://a.example.org", oidc_issuer: str = "https://b.example.org") -> Settings:
    return Settings(public_url=public_url, oidc_issuer=oidc_issuer, oidc_client_id="clusterra")


@pytest.mark.parametrize("url", [*LOCAL, "https://gateway.example.org"])
def test_http_is_accepted_for_this_machine_and_https_for_any(url: str) -> None:
    assert settings(public_url=url).public_url == url
    assert settings(oidc_issuer=url).oidc_issuer == url


@pytest.mark.parametrize("url", REMOTE)
def test_http_to_another_machine_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="public_url must be an https:// address"):
        settings(public_url=url)

    with pytest.raises(ValidationError, match="oidc_issuer must be an https:// address"):
        settings(oidc_issuer=url)


def test_an_issuer_with_a_fragment_is_refused() -> None:
    with pytest.raises(ValidationError, match="oidc_issuer must have no fragment"):
        settings(oidc_issuer="https://b.example.org#acme")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Gateway.Example.org", "https://gateway.example.org"),
        ("https://gateway.example.org:443/", "https://gateway.example.org"),
        ("HTTPS://gateway.example.org:8443/api", "https://gateway.example.org:8443"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_our_origin_is_as_browsers_write_it(url: str, origin: str) -> None:
    assert settings(public_url=url).origin == origin
    assert settings(public_url=url).secure == origin.startswith("https:")


def test_console_origins_are_as_browsers_write_them() -> None:
    consoles = ("https://console.example.org:443", "https://other.example.org:8443")

    given = Settings(oidc_issuer="https://b.example.org", oidc_client_id="clusterra", console_origins=consoles)

    assert given.consoles == {"https://console.example.org", "https://other.example.org:8443"}
    assert given.consoles < given.origins


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="Port"):
        settings(public_url="https://gateway.example.org:99999")
