"""Reserved and free TCP ports."""

import socket
from contextlib import ExitStack, suppress
from itertools import cycle
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


@pytest.fixture
def few_ports(monkeypatch: pytest.MonkeyPatch) -> range:
    """The only ports for blocks; neither other tests nor the kernel use them."""
    monkeypatch.setattr(ports, "_FIRST", 1100)
    monkeypatch.setattr(ports, "_LAST", 1220)
    return range(1100, 1220)


def test_reserved_blocks_of_any_size_never_overlap_and_are_freed(few_ports: range) -> None:
    with ExitStack() as blocks:
        taken: list[int] = []
        with suppress(NoPortsLeft):
            for count in cycle((7, 4, 19, 1)):
                block = blocks.enter_context(reserved_ports(count))
                assert len(block) == count
                taken += block
        assert len(taken) == len(set(taken))
        assert set(taken) <= set(few_ports)
        with pytest.raises(NoPortsLeft, match="no block of 100 ports"), reserved_ports(100):
            raise AssertionError
    with reserved_ports(len(few_ports)) as all_of_them:
        assert all_of_them == few_ports


def test_a_block_has_no_port_on_which_a_process_listens(few_ports: range) -> None:
    with socket.create_server(("127.0.0.1", few_ports[60])):
        for _ in range(20):
            with reserved_ports(40) as block:
                assert few_ports[60] not in block
        with pytest.raises(NoPortsLeft), reserved_ports(100):
            raise AssertionError
