"""Whose request it is behind a load balancer: only the headers of trusted proxies tell it."""

from ipaddress import IPv4Address, ip_network

import pytest
from clusterra_gateway.http.requests.client_address import MAX_HOPS, ClientAddresses
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
