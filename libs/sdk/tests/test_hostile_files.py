"""A gateway, or a bucket, that means harm: nothing is written outside of the chosen folder, and no URL is told."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from clusterra import Client, ClusterraError
from clusterra.errors import UnsafeName
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
        url = f"http://127.0.0.1:{self.port}/bucket?{SECRET}"
        self._answer({"url": url} if self.broken else {"url": url, "headers": {}})

    def do_GET(self) -> None:
        if self.path.startswith("/bucket"):
            assert "authorization" not in self.headers, "the token is for the gateway alone"
            if self.broken:
                return self._answer(f"<Error><Code>AccessDenied</Code>{SECRET}</Error>".encode(), 403)
            return self._answer(b"evil", 206, Content_Range="bytes 0-3/4", ETag='"x"')
        files = [
            {"path": f"data/t/{name}", "size": 4, "modified_at": "2026-01-01T00:00:00Z", "etag": '"x"'}
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
