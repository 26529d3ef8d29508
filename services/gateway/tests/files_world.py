"""A gateway whose clusters have a bucket on a real S3 server (the lab's emulator), and a client of its file routes."""

import base64
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import boto3
from botocore.config import Config
from clusterra_lab.parts.aws import Aws
from gateway_world import World
from yarl import URL

BUCKET = "acme-files"
CLUSTER = "/v1/clusters/main"
FILES = f"{CLUSTER}/files"
PRESIGN = f"{CLUSTER}/storage/presigned-url"
UPLOADS = f"{FILES}/uploads"


def storage_of(aws: Aws, secrets: Path, **fields: object) -> dict[str, object]:
    """The storage of a provision file: the bucket of the emulator, with its keys in files."""
    for name, value in (("id", aws.access_key_id), ("secret", aws.secret_access_key)):
        (secrets / f"s3-{name}").write_text(value)
    keys = {"access_key_id": f"file:{secrets}/s3-id", "secret_access_key": f"file:{secrets}/s3-secret"}
    storage = {
        "bucket": BUCKET,
        "region": aws.region,
        "endpoint": aws.endpoint_url,
        "credentials": {"kind": "keys", **keys},
    }
    return storage | fields


def s3_client(aws: Aws) -> Any:
    """A client with the bucket owner's own keys."""
    return boto3.client(
        "s3",
        endpoint_url=aws.endpoint_url,
        region_name=aws.region,
        aws_access_key_id=aws.access_key_id,
        aws_secret_access_key=aws.secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )


def sha256(content: bytes) -> str:
    """The SHA-256 of some content, as sha256sum prints it."""
    return hashlib.sha256(content).hexdigest()


def sha256_base64(content: bytes) -> str:
    """The same, as S3 writes it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


@dataclass
class Answer:
    """A response: its status, and its JSON if it has any."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass
class FilesClient:
    """A person at the routes for files, and a plain HTTP client that follows presigned URLs."""

    browser: aiohttp.ClientSession
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, **request: Any) -> Answer:
        """One request to the gateway."""
        async with self.browser.request(method, path, **request) as answer:
            text = await answer.text()
            return Answer(answer.status, await answer.json(content_type=None) if text else None, dict(answer.headers))

    async def presign(self, path: str, content: bytes | None = None, **fields: Any) -> Answer:
        """Ask for a URL: with content to upload it, else to download."""
        wanted: dict[str, Any] = {"path": path, "method": "GET" if content is None else "PUT"}
        if content is not None:
            wanted |= {"size": len(content), "sha256": sha256(content)}
        return await self.call("POST", PRESIGN, json=wanted | fields)

    async def put(self, path: str, content: bytes) -> int:
        """Upload content by a presigned URL; the status of the bucket's answer."""
        signed = await self.presign(path, content)
        assert signed.status == 200, signed.body
        return await self.send(signed.body, content)

    async def send(self, signed: Mapping[str, Any], content: bytes) -> int:
        """Send content to a signed URL with its headers; the status of the bucket's answer."""
        async with self.http.put(
            URL(signed["url"], encoded=True), data=io.BytesIO(content), headers=signed["headers"]
        ) as answer:
            await answer.read()
            return answer.status

    async def get(self, path: str) -> bytes | None:
        """Download a file by a presigned URL; None for one that does not exist."""
        signed = await self.presign(path)
        assert signed.status == 200, signed.body
        async with self.http.get(URL(signed.body["url"], encoded=True)) as answer:
            content = await answer.read()
            return content if answer.status == 200 else None

    async def list(self, path: str, **query: Any) -> dict[str, Any]:
        """One page of a folder."""
        answer = await self.call("GET", FILES, params={"path": path, **query})
        assert answer.status == 200, answer.body
        page: dict[str, Any] = answer.body
        return page


@dataclass
class FilesWorld:
    """The gateway, the server of the bucket, and its owner's client."""

    world: World
    aws: Aws
    s3: Any
    http: aiohttp.ClientSession

    async def person(self, email: str) -> FilesClient:
        """A person who has signed in."""
        return FilesClient(await self.world.login(email), self.http)

    def stored(self) -> set[str]:
        """All keys of the bucket."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {each["Key"] for page in pages for each in page.get("Contents", ())}
