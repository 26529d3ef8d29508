"""Secrets of AWS Secrets Manager, on the emulator."""

import asyncio
import json
import secrets as random
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import override

import boto3
import pytest
from clusterra_lab.parts.aws import Aws
from clusterra_runtime.secrets import aws
from clusterra_runtime.secrets.aws import SecretsManager
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable, SourceUnavailable, parse

pytestmark = pytest.mark.usefixtures("aws")

KEY = "hunter2-the-value"


@pytest.fixture
async def reader() -> AsyncIterator[Secrets]:
    async with Secrets(refresh_seconds=0, retry_seconds=0) as opened:
        yield opened


def stored(name: str, **value: object) -> str:
    """Stores a secret under a new name. Returns its ARN."""
    return str(boto3.client("secretsmanager").create_secret(Name=name, **value)["ARN"])


def new_name() -> str:
    return f"clusterra/test-{random.token_hex(4)}"


async def test_a_secret_is_read_by_name_and_by_arn(reader: Secrets) -> None:
    name = new_name()
    arn = await asyncio.to_thread(stored, name, SecretString=f"{KEY}\n")

    assert await reader.read(f"aws-secretsmanager:{name}") == KEY.encode()
    assert await reader.read(f"aws-secretsmanager:{arn}") == KEY.encode()
    assert await reader.read_binary(f"aws-secretsmanager:{arn}") == f"{KEY}\n".encode()


async def test_one_value_of_a_json_object_is_read(reader: Secrets) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretString=json.dumps({"jwt": KEY, "number": 7}))

    assert await reader.read(f"aws-secretsmanager:{name}#jwt") == KEY.encode()
    for key in ("missing", "number"):
        with pytest.raises(SecretUnavailable, match="no text under this key") as caught:
            await reader.read(f"aws-secretsmanager:{name}#{key}")
        assert KEY not in str(caught.value)


async def test_bytes_are_read_as_they_are(reader: Secrets) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretBinary=b" \x00\xff\n")

    assert await reader.read_binary(f"aws-secretsmanager:{name}") == b" \x00\xff\n"


async def test_a_text_is_no_json_object_and_the_error_does_not_show_it(reader: Secrets) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretString=KEY)

    with pytest.raises(SecretUnavailable, match="not a JSON object") as caught:
        await reader.read(f"aws-secretsmanager:{name}#jwt")

    assert KEY not in str(caught.value)


async def test_a_rotated_secret_is_seen_and_a_missing_one_is_named(reader: Secrets) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretString="old")
    assert await reader.read(f"aws-secretsmanager:{name}") == b"old"

    await asyncio.to_thread(boto3.client("secretsmanager").put_secret_value, SecretId=name, SecretString="new")

    assert await reader.read(f"aws-secretsmanager:{name}") == b"new"
    with pytest.raises(SecretUnavailable, match=f"{name}-none: there is no such secret"):
        await reader.read(f"aws-secretsmanager:{name}-none")


async def test_the_last_value_stays_while_aws_does_not_answer_and_the_loop_is_not_blocked(
    reader: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretString="kept")
    assert await reader.read(f"aws-secretsmanager:{name}") == b"kept"
    monkeypatch.setattr(aws, "_READ_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        # The clients of a process keep their address: a new one asks the server that never answers.
        reader._aws = SecretsManager()
        began = time.monotonic()
        reading = asyncio.create_task(reader.read(f"aws-secretsmanager:{name}"))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0.01)
            turns += 1

        assert await reading == b"kept"
        assert time.monotonic() - began > 0.5
        assert turns > 15


async def test_an_outage_is_told_apart_from_an_answer(emulator: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    manager = SecretsManager()
    source = parse("aws-secretsmanager:any")
    with pytest.raises(SourceUnavailable, match="does not answer"):
        await manager.read(source)  # type: ignore[arg-type]  # it is an AwsSecret
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.delenv("AWS_REGION", raising=False)
    without_region = SecretsManager()
    with pytest.raises(SecretUnavailable, match="set AWS_REGION"):
        await without_region.read(source)  # type: ignore[arg-type]
    for each in (manager, without_region):
        await each.close()


@pytest.mark.parametrize("content", ["[" * 60_000, '{"jwt": ' * 60_000, '{"jwt": "\\ud800"}'])
async def test_a_secret_that_no_parser_accepts_is_not_a_json_object(reader: Secrets, content: str) -> None:
    name = new_name()
    await asyncio.to_thread(stored, name, SecretString=content)

    with pytest.raises(SecretUnavailable, match="not a JSON object"):
        await reader.read(f"aws-secretsmanager:{name}#jwt")


class Hanging(BaseHTTPRequestHandler):
    """Answers for `healthy`, and for no other secret before the test ends."""

    protocol_version = "HTTP/1.1"
    ended = threading.Event()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not request["SecretId"].startswith("healthy"):
            self.ended.wait(60)
        body = json.dumps({"Name": request["SecretId"], "SecretString": KEY}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output short."""


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server at which all secrets hang but the healthy ones."""
    Hanging.ended.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hanging) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield
        Hanging.ended.set()
        server.shutdown()
        serving.join()


@pytest.mark.usefixtures("hanging")
async def test_secrets_that_hang_do_not_delay_a_healthy_one(reader: Secrets) -> None:
    await reader.read("aws-secretsmanager:healthy")
    following = [asyncio.create_task(reader.follow(f"aws-secretsmanager:hung-{number}")) for number in range(12)]
    longest = 0.0
    ends = time.monotonic() + 9

    # Long enough that they hang a second time, which is when they wait for each other.
    while time.monotonic() < ends:
        began = time.monotonic()
        await reader.read("aws-secretsmanager:healthy")
        longest = max(longest, time.monotonic() - began)
        await asyncio.sleep(0.05)

    assert longest < 1.5
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


@pytest.mark.usefixtures("hanging")
async def test_secrets_that_hung_before_leave_the_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "_READ_SECONDS", 0.3)
    manager = SecretsManager()
    hung = [parse(f"aws-secretsmanager:hung-{number}") for number in range(3 * aws._THREADS)]
    again = [asyncio.create_task(manager.read(source, failed_before=True)) for source in hung]  # type: ignore[arg-type]
    await asyncio.sleep(0.2)
    began = time.monotonic()

    assert await manager.read(parse("aws-secretsmanager:healthy")) == KEY.encode()  # type: ignore[arg-type]

    assert time.monotonic() - began < 1.5
    outcomes = await asyncio.gather(*again, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {SourceUnavailable}
    assert any("other requests to it hang" in str(outcome) for outcome in outcomes)
    await manager.close()
