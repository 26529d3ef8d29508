"""Reserved and free TCP ports."""

import socket
from pathlib import Path

import pytest
from clusterra_lab.machine import ports
from clusterra_lab.machine.ports import NoPortsLeft, free_port, kept_port, reserved_ports


def test_free_ports_can_be_bound_and_lie_below_the_range_of_outgoing_connections() -> None:
    lowest_of_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = free_port()
        assert 1024 <= port < lowest_of_outgoing
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_kept_port_changes_only_when_it_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "state" / "port"
    port = kept_port(file)

    assert kept_port(file) == port

    with socket.create_server(("127.0.0.1", port)):
        other = kept_port(file)

    assert other != port
    assert kept_port(file) == other


def test_reserved_blocks_never_overlap_and_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A range in which neither other tests nor the kernel use ports.
    first = 1100
    monkeypatch.setattr(ports, "_FIRST", first)
    monkeypatch.setattr(ports, "_LAST", first + 300)
    with reserved_ports(100) as one, reserved_ports(100) as two:
        assert len(one) == len(two) == 100
        assert not set(one) & set(two)
        with pytest.raises(NoPortsLeft, match="no block of 100 ports"), reserved_ports(100):
            raise AssertionError
    with reserved_ports(100) as again:
        assert again in (one, two)
