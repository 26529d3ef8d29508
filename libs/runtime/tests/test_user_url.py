"""URLs that users choose: which are allowed. `services/events/tests/test_webhook_urls.py` has the hostile ones."""

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from clusterra_runtime.outbound import NOT_PUBLIC, AddressRefused
from clusterra_runtime.user_url import UrlRefused, outbound_of, user_url
from hypothesis import given
from hypothesis import strategies as st

PRIVATE = (ip_network("10.20.0.0/16"), ip_network("::1/128"))


@pytest.mark.parametrize(
    ("given_url", "text", "host", "port"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/", "hooks.example.com", 443),
        ("HTTPS://HOOKS.example.com:8443/A?b=C", "https://hooks.example.com:8443/A?b=C", "hooks.example.com", 8443),
        ("http://10.20.0.7?x", "http://10.20.0.7/?x", "10.20.0.7", 80),
        ("https://[2606:4700:0::1111]/", "https://[2606:4700:0::1111]/", "2606:4700::1111", 443),
    ],
)
def test_a_url_is_read_in_one_way(given_url: str, text: str, host: str, port: int) -> None:
    url = user_url(given_url, plain_http=True)

    assert (url.text, url.host, url.port) == (text, host, port)
    assert host not in repr(url)


@given(st.text(max_size=60))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://hooks.example.com/{text}"):
        with suppress(UrlRefused):
            found = user_url(url, plain_http=True)
            assert found.text.isascii()
            assert user_url(found.text, plain_http=True) == found


@given(st.one_of(st.ip_addresses(), *(st.ip_addresses(network=each) for each in NOT_PUBLIC)))
def test_only_public_addresses_are_called(address: IPv4Address | IPv6Address) -> None:
    if address.is_global and not address.is_multicast and not any(address in each for each in NOT_PUBLIC):
        outbound_of("https", ()).check(str(address))
    else:
        with pytest.raises(AddressRefused, match="not a public one"):
            outbound_of("https", ()).check(str(address))


def test_a_network_can_be_allowed_also_for_plain_http() -> None:
    for scheme in ("https", "http"):
        outbound = outbound_of("https" if scheme == "https" else "http", PRIVATE)
        outbound.check("10.20.0.7")
        outbound.check("::1")
        with pytest.raises(AddressRefused):
            outbound.check("10.21.0.7")
        with pytest.raises(AddressRefused):
            outbound.check("::ffff:10.21.0.7")
    outbound_of("https", PRIVATE).check("8.8.8.8")
    with pytest.raises(AddressRefused, match="by https"):
        outbound_of("http", PRIVATE).check("8.8.8.8")


async def test_one_closed_address_among_several_is_enough() -> None:
    async def resolver(_: str) -> Sequence[str]:
        return "8.8.8.8", "10.0.0.1"

    with pytest.raises(AddressRefused, match="not a public one"):
        await outbound_of("https", (), resolver).check_url("https://hooks.example.com/")


async def test_a_host_that_is_not_known_yet_is_let_through() -> None:
    async def resolver(_: str) -> Sequence[str]:
        raise OSError

    await outbound_of("https", (), resolver).check_url("https://hooks.example.com/")
    assert user_url("https://hooks.example.com/").host == "hooks.example.com"


def test_plain_http_is_for_installations_that_allow_it() -> None:
    with pytest.raises(UrlRefused, match="https://"):
        user_url("http://hooks.example.com/")
    assert user_url("http://hooks.example.com/", plain_http=True).port == 80
