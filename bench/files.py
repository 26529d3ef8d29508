"""Measures files through the gateway of a lab: lists of a folder with many objects, and presigned URLs.

`bucket_page` is a page that the bucket's server lists without the gateway, `list_page` the same page through it.
Needs root, as the lab's Slurm does. Prints a table and, last, one JSON line. A whole list reads page after page.
"""

import argparse
import asyncio
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.bucket import BUCKET
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from stopwatch import p99
from yarl import URL

UNLIMITED = {"CLUSTERRA_READS_PER_MINUTE": "100000000", "CLUSTERRA_CHANGES_PER_MINUTE": "100000000"}
"""One person sends all requests of this bench."""
FOLDER = "data/many"
WARM_UP = 3


def owners_client(lab: Stack) -> Any:
    """A client with the bucket owner's own keys."""
    return boto3.client(
        "s3",
        endpoint_url=lab.aws.endpoint_url,
        region_name=lab.aws.region,
        aws_access_key_id=lab.aws.access_key_id,
        aws_secret_access_key=lab.aws.secret_access_key,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, max_pool_connections=16),
    )


def prefix(lab: Stack, member: str) -> str:
    """What the keys of the folder begin with."""
    return f"{lab.cluster.tenant}/{lab.cluster.cluster}/users/{member}/{FOLDER}/"


def bucket_page(lab: Stack, member: str) -> str:
    """A URL that asks the bucket's server itself for a page of the folder: what a list costs without the gateway."""
    request = {"Bucket": BUCKET, "Prefix": prefix(lab, member), "Delimiter": "/", "MaxKeys": 1000}
    return str(owners_client(lab).generate_presigned_url("list_objects_v2", Params=request))


def fill(lab: Stack, member: str, objects: int) -> None:
    """Put empty objects into the person's folder."""
    s3, root = owners_client(lab), prefix(lab, member)
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(lambda n: s3.put_object(Bucket=BUCKET, Key=f"{root}{n:06}", Body=b""), range(objects)):
            pass


async def timed(times: int, act: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """Milliseconds of each of some repetitions, after a warm-up."""
    for _ in range(WARM_UP):
        await act()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await act()
        took.append((time.perf_counter() - began) * 1e3)
    return {"p50_ms": round(statistics.median(took), 2), "p99_ms": round(p99(took), 2), "n": times}


async def measured(lab: Stack, user: User, arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """All figures."""
    cluster = f"/v1/clusters/{lab.cluster.cluster}"

    async def post(body: dict[str, Any]) -> None:
        async with user.session.post(f"{cluster}/storage/presigned-url", json=body) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()

    async def page(cursor: str | None = None) -> dict[str, Any]:
        query = {"path": FOLDER} | ({} if cursor is None else {"cursor": cursor})
        async with user.session.get(f"{cluster}/files", params=query) as answer:
            assert answer.status == 200, await answer.text()
            content: dict[str, Any] = await answer.json()
            return content

    async def one_page() -> None:
        await page()

    async def whole() -> None:
        listed, cursor = 0, None
        while True:
            content = await page(cursor)
            listed, cursor = listed + len(content["files"]), content["next_cursor"]
            if cursor is None:
                break
        assert listed == arguments.objects, f"{listed} of {arguments.objects} objects were listed"

    async with user.session.get("/v1/users/me") as answer:
        member = (await answer.json())["id"]
    progress(f"putting {arguments.objects} objects into the bucket")
    await asyncio.to_thread(fill, lab, member, arguments.objects)
    listing = bucket_page(lab, member)

    async def from_bucket() -> None:
        async with user.session.get(URL(listing, encoded=True)) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()

    upload = {"path": f"{FOLDER}/x", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    progress("measuring")
    return {
        "objects": arguments.objects,
        "presign_put": await timed(arguments.presigns, lambda: post(upload)),
        "presign_get": await timed(arguments.presigns, lambda: post({"path": f"{FOLDER}/x", "method": "GET"})),
        "bucket_page": await timed(arguments.lists, from_bucket),
        "list_page": await timed(arguments.lists, one_page),
        "list_whole": await timed(arguments.lists, whole),
    }


async def run(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Start a lab, and measure it."""
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        async with (
            stack(Path(folder) / "lab", LabOptions(environment=UNLIMITED), progress=progress) as lab,
            lab.user("ada@acme.example") as user,
        ):
            return await measured(lab, user, arguments, progress)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="objects in the folder (default 10000)")
    parser.add_argument("--presigns", type=int, default=500, help="presigned URLs of each kind (default 500)")
    parser.add_argument("--lists", type=int, default=10, help="lists of each kind (default 10)")
    arguments = parser.parse_args()
    with console_progress() as progress:
        figures = asyncio.run(run(arguments, progress))
    for what, value in figures.items():
        print(f"{what:12} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
