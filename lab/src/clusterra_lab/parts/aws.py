"""Provides DynamoDB, S3 and Secrets Manager: from AWS_ENDPOINT_URL, else MiniStack as a process or in a container."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from clusterra_lab.machine.container import Image, container
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.parts.tools import tools_or_container

IMAGE = "ministackorg/ministack:latest"
REGION = "us-east-1"
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Aws:
    """Endpoint and credentials of AWS."""

    endpoint_url: str
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The variables that lead every AWS SDK to this endpoint with these credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@asynccontextmanager
async def aws_emulator(directory: Path, *, host: str = "127.0.0.1", progress: Progress = silent) -> AsyncIterator[Aws]:
    """Provide DynamoDB and S3 until the block ends; an emulator that runs as a process listens on `host`.

    The emulator keeps tables and buckets in memory. On an orderly stop it writes them to `directory`, from which the
    next start loads them; when it is killed they are lost.
    """
    if url := os.environ.get("AWS_ENDPOINT_URL"):
        yield _given(url)
        return
    python = await tools_or_container(progress)
    if python is None:
        async with aws_container(directory) as aws:
            yield aws
        return
    progress("starting DynamoDB and S3")
    port = kept_port(directory / "port")
    (directory / "tmp").mkdir(parents=True, exist_ok=True)
    process = await start(
        "aws",
        [str(python), "-m", "ministack"],
        log=directory / "aws.log",
        env=_settings(host, port, directory) | {"TMPDIR": str(directory / "tmp")},
    )
    try:
        aws = _emulator(port, host)
        await _ready(aws, process)
        yield aws
    finally:
        await process.stop(_STOP_SECONDS)


@asynccontextmanager
async def aws_container(directory: Path) -> AsyncIterator[Aws]:
    """Run the emulator in a container; its tables and buckets are lost when it ends."""
    port = kept_port(directory / "port")
    image = Image(IMAGE, ports={4566: port}, environment=_settings("0.0.0.0", 4566, Path("/tmp/state")))
    async with container(image):
        aws = _emulator(port)
        await _ready(aws)
        yield aws


def _settings(host: str, port: int, directory: Path) -> dict[str, str]:
    return {
        "BIND_HOST": host,
        "GATEWAY_PORT": str(port),
        "SERVICES": "dynamodb,s3,secretsmanager,sts",
        "MINISTACK_REGION": REGION,
        "PERSIST_STATE": "1",
        "STATE_DIR": str(directory / "state"),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(directory / "s3"),
        # Otherwise MiniStack listens for MQTT on every interface.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }


def _emulator(port: int, host: str = "127.0.0.1") -> Aws:
    return Aws(f"http://{host}:{port}", REGION, "test", "test")


def _given(url: str) -> Aws:
    return Aws(
        url,
        os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION,
        os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
    )


async def _ready(aws: Aws, process: Process | None = None) -> None:
    async with aiohttp.ClientSession() as http:

        async def healthy() -> bool:
            try:
                async with http.get(f"{aws.endpoint_url}/_ministack/health") as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await until(healthy, seconds=_START_SECONDS, what="DynamoDB and S3", process=process)
