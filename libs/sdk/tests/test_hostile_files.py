"""A hostile gateway or bucket: nothing is written outside of the chosen folder, and no URL is in an error."""

import io
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from clusterra import Client, ClusterraError
from clusterra.errors import BucketRefused, Unreachable, UnsafeName
from clusterra.files.local import check_name, names_below
from hypothesis import given
from hypothesis import strategies as st

NAMES = (
    "../evil",
    "../../evil",
    "a/../../evil",
    "/evil",
    "a//evil",
    "./evil",
    "..",
    "",
    "a\0b",
    "new\nline",
    "\x1b[2J",
    ".clusterra-0123.part",
)
SECRET = "X-Amz-Signature=5ecret"


class Hostile(BaseHTTPRequestHandler):
    """Answers as a gateway and as a bucket, with what no real one has."""

    names: tuple[str, ...] = NAMES
    broken = False
    bucket = ""
    """The address of the bucket that a signed URL has, in place of this server's."""
    body = b"evil"
    size: int | str = 4

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, body: Any, status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @property
    def port(self) -> int:
        assert isinstance(self.server, ThreadingHTTPServer)
        return self.server.server_port

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        url = f"{self.bucket or f'http://127.0.0.1:{self.port}'}/bucket?{SECRET}"
        self._answer({"url": url} if self.broken else {"url": url, "headers": {}})

    def do_GET(self) -> None:
        if self.path.startswith("/bucket"):
            assert "authorization" not in self.headers, "the token is for the gateway alone"
            if self.broken:
                return self._answer(f"<Error><Code>AccessDenied</Code>{SECRET}</Error>".encode(), 403)
            return self._answer(self.body, 206, Content_Range=f"bytes 0-3/{self.size}", ETag='"x"')
        files = [
            {"path": f"data/t/{name}", "size": self.size, "modified_at": "2026-01-01T00:00:00Z", "etag": '"x"'}
            for name in self.names
        ]
        elsewhere = {**files[0], "path": "outputs/evil"}
        page: dict[str, Any] = {"path": "data/t", "owner": None, "folders": [], "unreadable": 0, "next_cursor": None}
        return self._answer(page | {"files": [*files, elsewhere, {**files[0], "path": "data/t/fine"}]})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Client]:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with Client(f"http://127.0.0.1:{server.server_port}", "clusterra_token", cluster="main") as client:
        yield client
    server.shutdown()
    thread.join()
    server.server_close()


def test_names_of_the_server_lead_nowhere_else(client: Client, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"

    report = client.files.download_folder("data/t", target)

    assert report.copied == ["data/t/fine"]
    assert len(report.problems) == len(NAMES) + 1
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [target / "fine"]


@pytest.mark.parametrize("action", ["download", "upload"])
def test_neither_the_url_nor_what_a_bucket_repeats_of_it_is_told(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(Hostile, "broken", True)

    copy = partial(client.files.download, "data/x", tmp_path / "x") if action == "download" else None
    with pytest.raises(ClusterraError) as raised:
        (copy or partial(client.files.upload, b"x", "data/x"))()

    assert "5ecret" not in repr(raised.value) + str(raised.value)


@given(st.text(max_size=12), st.lists(st.sampled_from(["..", ".", "", "a", "b\0", "ü", "a b"]), min_size=1, max_size=5))
def test_names_that_pass_stay_below(name: str, names: list[str]) -> None:
    for path in (f"data/t/{name}", f"data/t/{'/'.join(names)}", name):
        try:
            found = names_below(path, "data/t")
        except UnsafeName:
            continue
        assert PurePosixPath("data/t", *found).as_posix() == path
        assert ".." not in found
        for each in found:
            check_name(each)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1:1", "http://[::1", "http://b\u00fccket.example", "https://a b"]
)
def test_an_address_that_is_none_is_an_error(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(Hostile, "bucket", address)
    monkeypatch.setattr("clusterra.files.bucket_files.TRYING_SECONDS", 0.0)
    monkeypatch.setattr("clusterra.files.bucket_files.MIN_ATTEMPTS", 1)

    with pytest.raises(ClusterraError):
        client.files.download("data/x", tmp_path / "x")


def test_no_content_is_sent_without_tls_where_the_gateway_has_it(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hostile, "bucket", "http://bucket.example")

    with pytest.raises(Unreachable, match="not HTTPS"):
        client.files.upload(b"x", "data/x")


def test_more_bytes_than_were_asked_for_end_the_download(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hostile, "body", b"evil" * 1024)

    with pytest.raises(BucketRefused, match="more bytes"):
        client.files.download("data/x", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("size", [10**18, -1, "9" * 5000])
def test_a_size_that_no_file_has_is_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int | str
) -> None:
    monkeypatch.setattr(Hostile, "size", size)

    with pytest.raises(ClusterraError):
        client.files.download("data/x", tmp_path / "x")
    if isinstance(size, int):
        report = client.files.download_folder("data/t", tmp_path / "t")
        assert report.copied == []


@pytest.fixture
def bucket_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same server behind TLS, with a certificate that this process trusts."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *files, *names], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bucket_with_tls_behind_a_gateway_without_it_is_trusted_as_usual(
    client: Client, bucket_with_tls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hostile, "bucket", bucket_with_tls)
    written = io.BytesIO()

    client.files.download("data/x", written)

    assert written.getvalue() == b"evil"
