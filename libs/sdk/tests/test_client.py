"""The two clients offer the same, over real HTTP; and nothing is loaded before it is needed."""

import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from clusterra import AsyncClient, AsyncJob, Client, Job, NotClusterra, SignInNeeded, Unreachable
from clusterra.errors import AnswerTooLong
from clusterra.http.waits import MOST_BY_EVENTS, Waits

TOKEN = "clusterra_secret"
CLUSTERS = {"clusters": [{"id": "main", "name": "Main", "state": "active", "connection_state": "x", "degraded": []}]}


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))


class Seen:
    """What a server was sent."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []


@contextmanager
def server(answer: Callable[[str], tuple[int, str, bytes]]) -> Iterator[tuple[str, Seen]]:
    """A server that answers each path with a status, a media type and a body."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.requests.append((self.command, self.path, headers, body))
            status, kind, sent = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(sent)))
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815 - the names of the library

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}", seen
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def clusters(_path: str) -> tuple[int, str, bytes]:
    return 200, "application/json", json.dumps(CLUSTERS | {"total": 1, "newer": True}).encode()


def test_a_request_has_the_token_a_key_and_the_name_of_the_program() -> None:
    with server(clusters) as (url, seen), Client(url, TOKEN) as client:
        assert [each.id for each in client.clusters()] == ["main"]
        assert client.request("POST", "/v1/x", query={"a": ("b", "c d")}, body={"e": 1}).json["total"] == 1

    (_, path, headers, _), (method, posted, more, body) = seen.requests
    assert path == "/v1/clusters"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["user-agent"].startswith("clusterra-sdk/")
    assert (method, json.loads(body)) == ("POST", {"e": 1})
    assert posted == "/v1/x?a=b%2Cc+d"
    assert len(more["idempotency-key"]) == 32


async def test_the_async_client_sends_the_same() -> None:
    with server(clusters) as (url, seen):
        async with AsyncClient(url, TOKEN) as client:
            found = await asyncio.gather(*(client.clusters() for _ in range(3)))

    assert {each.id for all_found in found for each in all_found} == {"main"}
    assert {headers["authorization"] for _, _, headers, _ in seen.requests} == {f"Bearer {TOKEN}"}


def test_a_redirect_does_not_get_the_token() -> None:
    with (
        server(lambda _: (302, "text/html", b"<h1>Sign in</h1>")) as (url, seen),
        Client(url, TOKEN) as client,
        pytest.raises(NotClusterra),
    ):
        client.me()

    assert [path for _, path, _, _ in seen.requests] == ["/v1/users/me"]


def test_a_page_with_200_is_no_answer() -> None:
    page = server(lambda _: (200, "text/html", b"<html>captive portal"))
    with page as (url, _), Client(url, TOKEN) as client, pytest.raises(NotClusterra, match="captive portal"):
        client.me()


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra.http.endpoint.MAX_BODY_BYTES", 1000)
    long = server(lambda _: (200, "text/plain", b"x" * 1001))
    with long as (url, _), Client(url, TOKEN) as client, pytest.raises(AnswerTooLong, match="follow"):
        client.job("7", cluster="main").output()


def test_a_refused_token_is_replaced_by_the_one_that_is_stored_now() -> None:
    class Renewing:
        def __init__(self) -> None:
            self.tokens = ["new", "old"]

        def token(self) -> str | None:
            return self.tokens[-1]

        def renewed(self, refused: str | None) -> str | None:
            if len(self.tokens) > 1 and refused == self.tokens[-1]:
                self.tokens.pop()
                return self.tokens[-1]
            return None

    statuses = iter([401, 200, 401])

    def answer(path: str) -> tuple[int, str, bytes]:
        status = next(statuses)
        problem = b'{"type": "/v1/problems/unauthenticated", "status": 401, "detail": "no"}'
        return clusters(path) if status == 200 else (401, "application/problem+json", problem)

    with server(answer) as (url, seen), Client(url, Renewing()) as client:
        assert client.clusters()
        with pytest.raises(SignInNeeded):
            client.clusters()

    assert [headers["authorization"] for _, _, headers, _ in seen.requests] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


def test_a_stream_is_opened_with_the_token_that_is_stored_now_and_an_error_is_read_whole() -> None:
    class Renewing:
        def __init__(self) -> None:
            self.tokens = ["new", "old"]

        def token(self) -> str | None:
            return self.tokens[-1]

        def renewed(self, refused: str | None) -> str | None:
            return self.tokens.pop() and self.tokens[-1] if len(self.tokens) > 1 else None

    problem = b'{"type": "/v1/problems/x", "status": 503, "detail": "no"}'
    end = b'id: 1\ndata: hello\n\nevent: end\nid: 1\ndata: {"state": "COMPLETED"}\n\n'
    replies = iter(
        [
            (401, "application/problem+json", problem),
            (503, "application/problem+json", problem),
            (200, "text/event-stream", end),
        ]
    )

    with server(lambda _: next(replies)) as (url, seen), Client(url, Renewing(), cluster="main") as client:
        assert list(client.job("7").follow()) == ["hello"]

    assert [headers["authorization"] for _, _, headers, _ in seen.requests] == ["Bearer old", *["Bearer new"] * 2]


def test_a_page_in_place_of_an_output_is_no_output() -> None:
    page = server(lambda _: (200, "text/html", b"<html>captive portal"))
    with page as (url, _), Client(url, TOKEN, cluster="main") as client, pytest.raises(NotClusterra, match="captive"):
        client.job("7").output()


def test_nobody_at_the_address_is_told_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra.http.retrying.FIRST_PAUSE_SECONDS", 100.0)
    monkeypatch.setattr("clusterra.http.retrying.LONGEST_PAUSE_SECONDS", 100.0)
    with server(clusters) as (url, _):
        pass

    with Client(url, TOKEN) as client, pytest.raises(Unreachable) as told:
        client.me()

    assert url in str(told.value)
    assert TOKEN not in str(told.value)


@pytest.mark.parametrize("path", ["v1/x", "//evil.example/x", "/v1/x?y", "/v1/ x", "/v1/x#y"])
def test_a_request_of_ones_own_stays_at_the_gateway(path: str) -> None:
    with Client("http://127.0.0.1:1", TOKEN) as client, pytest.raises(ValueError, match="a path begins"):
        client.request("GET", path)


@pytest.mark.parametrize("job_id", ["", "x", "0", "7/../8", "7_", "7\n"])
def test_what_is_no_id_of_a_job_is_refused(job_id: str) -> None:
    with (
        Client("http://127.0.0.1:1", TOKEN, cluster="main") as client,
        pytest.raises(ValueError, match="looks like 42"),
    ):
        client.job(job_id)


def test_waits_at_a_time_do_not_take_all_streams() -> None:
    waits = Waits()
    with ExitStack() as all_waits:
        by_events = [all_waits.enter_context(waits) for _ in range(20)]

    assert by_events == [True] * MOST_BY_EVENTS + [False] * (20 - MOST_BY_EVENTS)
    with waits as again:
        assert again


def test_jobs_of_several_clusters_are_not_awaited_together() -> None:
    with Client("http://127.0.0.1:1", TOKEN) as client, pytest.raises(ValueError, match="several clusters"):
        list(client.as_completed([client.job("7", cluster="a"), client.job("8", cluster="b")]))


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Job, AsyncJob)])
def test_both_clients_offer_the_same(one: type, other: type) -> None:
    def offered(client: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(each).parameters)
            for name, each in vars(client).items()
            if inspect.isfunction(each) and not name.startswith("_")
        }

    assert offered(one) == offered(other)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, clusterra, clusterra.errors, clusterra.context, clusterra.credentials\n"
        "heavy = {'httpx2', 'pydantic', 'keyring', 'asyncio', 'platformdirs'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "clusterra.Client\n"
        "print('httpx2' in sys.modules, sorted(set(clusterra.__all__) - set(dir(clusterra))))"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.split("\n")[:2] == ["[]", "True []"]
