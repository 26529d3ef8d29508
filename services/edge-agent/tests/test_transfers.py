"""Transfers with a bucket that fails: what of it may go well at another attempt, and what is no fault of the file."""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from clusterra_edge_agent.folders import transfers
from clusterra_edge_agent.folders.transfers import TransferFailed, download, upload

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


@contextmanager
def bucket(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that answers one request as the test says."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        thread.join()


def reset(connection: socket.socket) -> None:
    """Send half of the file, and reset the connection."""
    connection.sendall(HEAD + b"x" * 50)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def silent(connection: socket.socket) -> None:
    """Send half of the file, and nothing until the other side gives up."""
    connection.sendall(HEAD + b"x" * 50)
    connection.recv(1)


def ends(connection: socket.socket) -> None:
    """Send half of the file."""
    connection.sendall(HEAD + b"x" * 50)


def busy(connection: socket.socket) -> None:
    """Refuse the request for now."""
    connection.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")


def gone(connection: socket.socket) -> None:
    """Refuse the request for good."""
    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def failure(file: Path, url: str) -> TransferFailed:
    """How a download of 100 bytes fails."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(TransferFailed) as failed:
            download(descriptor, 0, 100, url, "", lambda _count: None)
    finally:
        os.close(descriptor)
    return failed.value


@pytest.mark.parametrize("answer", [reset, silent, ends], ids=lambda answer: answer.__name__)
def test_a_download_that_breaks_off_may_go_well_the_next_time(
    answer: Callable[[socket.socket], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "TIMEOUT_SECONDS", 0.5)

    with bucket(answer) as url:
        failed = failure(tmp_path / "x", url)

    assert failed.transient
    assert "broke off" in failed.detail


def test_an_upload_whose_answer_breaks_off_may_go_well_the_next_time(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)

    with bucket(reset) as url, pytest.raises(TransferFailed) as failed:
        upload(descriptor, 0, 0, url, {}, lambda _count: None)
    os.close(descriptor)

    assert failed.value.transient


def test_a_bucket_that_is_away_or_overloaded_is_no_fault_of_the_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    away = failure(tmp_path / "x", f"http://127.0.0.1:{port}/x")
    with bucket(busy) as url:
        overloaded = failure(tmp_path / "x", url)
    with bucket(reset) as url:
        broken = failure(tmp_path / "x", url)
    with bucket(gone) as url:
        missing = failure(tmp_path / "x", url)

    assert [each.outage for each in (away, overloaded, broken, missing)] == [True, True, False, False]
    assert [each.transient for each in (away, overloaded, broken, missing)] == [True, True, True, False]
