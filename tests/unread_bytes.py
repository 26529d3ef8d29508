"""The bytes that a process has not read yet from its TCP connections, as Linux counts them (proc_net_tcp, `rx_queue`).

A stopped process still has its kernel accept connections and take bytes: so tests see that a request has arrived.
"""

from pathlib import Path

ESTABLISHED = "01"


def unread_bytes(pid: int, port: int) -> int:
    """The unread bytes of the fullest connection to `port` in the process' network namespace; 0 if there is none."""
    tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    connections = [row.split() for table in tables for row in table]
    return max((_received(row) for row in connections if _is_to(row, port)), default=0)


def _is_to(row: list[str], port: int) -> bool:
    """Columns: number, local address, remote address, state, `tx_queue:rx_queue`, all in hexadecimal."""
    return row[3] == ESTABLISHED and int(row[1].rpartition(":")[2], 16) == port


def _received(row: list[str]) -> int:
    return int(row[4].partition(":")[2], 16)
