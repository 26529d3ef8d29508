"""Whose request it is behind a load balancer: only the headers of trusted proxies tell it."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from aiohttp.test_utils import make_mocked_request
from clusterra_gateway.http.requests.client_address import FORWARDED_FOR, MAX_HOPS, ClientAddresses
from hypothesis import given
from hypothesis import strategies as st

PROXIES = ClientAddresses([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])
CLIENTS = st.ip_addresses().filter(
    lambda each: (
        each not in ip_network("10.0.0.0/8" if isinstance(each, IPv4Address) else "fd00::/8")
        and getattr(each, "ipv4_mapped", None) is None
    )
)


@given(CLIENTS, st.text(max_size=40), st.integers(min_value=0, max_value=3))
def test_the_right_most_address_that_is_no_proxy_s_is_the_client_s(client: object, forged: str, hops: int) -> None:
    chain = [forged, str(client), *["10.0.0.7"] * hops]

    assert PROXIES.client("10.0.0.8", [", ".join(chain)]) == str(client)
    assert PROXIES.client("10.0.0.8", chain) == str(client)


@given(CLIENTS, st.lists(st.text(max_size=40), max_size=5))
def test_the_header_of_a_stranger_counts_for_nothing(stranger: object, forwarded_for: list[str]) -> None:
    assert PROXIES.client(str(stranger), forwarded_for) == str(stranger)


@given(st.lists(st.text(max_size=60), max_size=5))
def test_no_header_raises(forwarded_for: list[str]) -> None:
    assert PROXIES.client("10.0.0.8", forwarded_for)


@pytest.mark.parametrize(
    "forwarded_for",
    [
        [],
        [""],
        ["unknown"],
        ["198.51.100.9,"],
        ["198.51.100.9, 300.1.1.1"],
        ["198.51.100.9, fe80::1%eth0"],
        ["198.51.100.9", *["10.0.0.7"] * MAX_HOPS],
        ["10.0.0.9, 10.0.0.7"],
    ],
)
def test_a_missing_or_malformed_header_leaves_the_connection_s_address(forwarded_for: list[str]) -> None:
    assert PROXIES.client("10.0.0.8", forwarded_for) == "10.0.0.8"


def test_an_ipv4_address_in_ipv6_form_is_the_same_address() -> None:
    assert PROXIES.client("::ffff:10.0.0.8", ["::ffff:198.51.100.9"]) == "198.51.100.9"


@given(CLIENTS, st.integers(0, 2**64 - 1))
def test_all_addresses_of_a_64_are_counted_together(client: IPv4Address | IPv6Address, other: int) -> None:
    def counted(address: object) -> str:
        headers = {FORWARDED_FOR: str(address)}
        request = make_mocked_request("GET", "/", headers, transport=_Transport("10.0.0.8"))
        return PROXIES.network_of(request)

    if isinstance(client, IPv4Address):
        assert counted(client) == str(client)
    else:
        neighbour = IPv6Address(int(client) >> 64 << 64 | other)
        stranger = IPv6Address(int(client) ^ 1 << 64)
        assert counted(client) == counted(neighbour) != counted(stranger)


class _Transport:
    """A connection from an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str) -> object:
        return (self._address, 1) if name == "peername" else None
