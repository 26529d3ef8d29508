"""Ports of labs."""

import socket
from pathlib import Path

import pytest
from clusterra_lab.machine import ports
from clusterra_lab.machine.ports import NoPortsLeft, free_port, kept_port, reserved_ports


def test_free_ports_can_be_listened_on_and_are_never_given_to_outgoing_connections() -> None:
    lowest_of_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = free_port()
        assert 1024 <= port < lowest_of_outgoing
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_stays_the_same_as_long_as_nobody_else_has_it(tmp_path: Path) -> None:
    file = tmp_path / "state" / "port"
    port = kept_port(file)
    assert kept_port(file) == port
    with socket.create_server(("127.0.0.1", port)):
        other = kept_port(file)
    assert other != port
    assert kept_port(file) == other


def test_blocks_never_overlap_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where neither other tests nor the kernel take ports.
    first = 1100
    monkeypatch.setattr(ports, "_FIRST", first)
    monkeypatch.setattr(ports, "_LAST", first + 300)
    with reserved_ports(100) as one, reserved_ports(100) as two:
        assert len(one) == len(two) == 100
        assert not set(one) & set(two)
        with pytest.raises(NoPortsLeft, match="no 100 adjoining ports"), reserved_ports(100):
            raise AssertionError
    with reserved_ports(100) as again:
        assert again in (one, two)
