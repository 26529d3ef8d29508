"""Works of staging on a real S3 server (the lab's emulator), by presigned URLs. Becoming a user needs root."""

import asyncio
import base64
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_folders import LocalUser
from clusterra_contracts.rpc.edge_staging import (
    DigestFiles,
    FetchFiles,
    FileDownload,
    FileParts,
    FileUpload,
    PartRange,
    SendFiles,
    SignedPart,
    Stage,
    Staged,
    StagingWork,
)
from clusterra_edge_agent.folders.staging_runs import StagingRuns
from clusterra_edge_agent.folders.user_process import UserProcesses
from clusterra_lab.parts.aws import Aws

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

ADA = LocalUser(uid=20001, gid=20001)
SUBJECT = subjects.parse(subjects.edge(ClusterRef(tenant="acme", cluster="main"), "stage"))
BUCKET = "staged"


@pytest.fixture(scope="module")
async def s3(emulator: Aws) -> Any:
    client = boto3.client(
        "s3",
        endpoint_url=emulator.endpoint_url,
        region_name=emulator.region,
        aws_access_key_id=emulator.access_key_id,
        aws_secret_access_key=emulator.secret_access_key,
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )
    await asyncio.to_thread(client.create_bucket, Bucket=BUCKET)
    return client


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    tmp_path.chmod(0o1777)
    return tmp_path


@pytest.fixture
async def runs(shared: Path) -> AsyncIterator[StagingRuns]:
    runs = StagingRuns(UserProcesses(shared))
    yield runs
    runs.end_works()
    runs.close()


async def staged(runs: StagingRuns, work: StagingWork, name: str = "") -> Staged:
    request = Stage(id=name or secrets.token_hex(16), user=ADA, work=work, wait_seconds=20)
    return await runs.stage(SUBJECT, request)


def made(path: Path, content: bytes) -> dict[str, Any]:
    """Makes a file of ada's; returns it as it would be found."""
    path.write_bytes(content)
    os.chown(path, ADA.uid, ADA.gid)
    return {"path": path.name, "size": len(content), "modified_ns": path.stat().st_mtime_ns}


def download_of(s3: Any, key: str, content: bytes) -> FileDownload:
    etag = s3.put_object(Bucket=BUCKET, Key=key, Body=content)["ETag"]
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
    return FileDownload(path=f"in/{key}", url=url, size=len(content), etag=etag)


def upload_of(s3: Any, key: str, found: dict[str, Any], sha256: str) -> FileUpload:
    request = {"Bucket": BUCKET, "Key": key, "ContentLength": found["size"], "ChecksumSHA256": sha256}
    part = SignedPart(
        offset=0,
        length=found["size"],
        url=s3.generate_presigned_url("put_object", Params=request),
        headers={"Content-Length": str(found["size"]), "x-amz-checksum-sha256": sha256},
    )
    return FileUpload(**found, parts=(part,))


def sum_of(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


@pytest.mark.parametrize("content", [b"", b"x", b"0123456789" * 300_000], ids=["empty", "small", "several-blocks"])
async def test_a_file_comes_back_as_it_went(s3: Any, runs: StagingRuns, shared: Path, content: bytes) -> None:
    found, key = made(shared / "a", content), secrets.token_hex(4)
    whole = FileParts(**found, parts=(PartRange(offset=0, length=len(content)),))

    digested = await staged(runs, DigestFiles(folder="", files=(whole,)))
    sent = await staged(runs, SendFiles(folder="", files=(upload_of(s3, key, found, sum_of(content)),)))
    fetched = await staged(runs, FetchFiles(folder="run", files=(download_of(s3, key, content),)))

    assert digested.sums[0].sha256 == (sum_of(content),)
    assert (sent.copied, sent.problems) == (("a",), ())
    assert (fetched.copied, fetched.problems) == ((f"in/{key}",), ())
    assert (shared / "run/in" / key).read_bytes() == content


async def test_a_download_goes_on_where_it_was_broken_off(s3: Any, runs: StagingRuns, shared: Path) -> None:
    content = b"b" * 100
    download = download_of(s3, "resumed", content)
    cut = download.model_copy(update={"url": download.url.replace("resumed", "missing")})

    failed = await staged(runs, FetchFiles(folder="", files=(cut,)))
    (temporary,) = (shared / "in").iterdir()
    temporary.write_bytes(b"a" * 40)
    done = await staged(runs, FetchFiles(folder="", files=(download,)))

    assert failed.problems[0].path == "in/resumed"
    assert done.copied == ("in/resumed",)
    assert (shared / "in/resumed").read_bytes() == b"a" * 40 + b"b" * 60
    assert [each.name for each in (shared / "in").iterdir()] == ["resumed"]


async def test_an_object_that_was_replaced_since_is_not_downloaded(s3: Any, runs: StagingRuns, shared: Path) -> None:
    download = download_of(s3, "replaced", b"first")
    s3.put_object(Bucket=BUCKET, Key="replaced", Body=b"after")

    told = await staged(runs, FetchFiles(folder="", files=(download,)))

    assert (told.copied, told.problems[0].path) == ((), "in/replaced")
    assert not (shared / "in/replaced").exists()


async def test_a_file_that_changes_is_not_uploaded_and_no_error_has_a_url(
    s3: Any, runs: StagingRuns, shared: Path
) -> None:
    other, gone, short = made(shared / "other", b"one"), made(shared / "gone", b"two"), made(shared / "short", b"six")
    uploads = tuple(upload_of(s3, each["path"], each, sum_of(b"xxx")) for each in (other, gone, short))
    (shared / "gone").unlink()
    made(shared / "short", b"s")

    told = await staged(runs, SendFiles(folder="", files=uploads))

    assert told.copied == ()
    problems = {each.path: each for each in told.problems}
    assert problems.keys() == {"other", "gone", "short"}
    assert "changed" in problems["short"].detail
    assert not problems["gone"].transient
    assert "http" not in told.model_dump_json()
    assert "http" not in repr(uploads)


async def test_the_same_request_again_is_the_same_work(s3: Any, runs: StagingRuns, shared: Path) -> None:
    found, name = made(shared / "once", b"once"), secrets.token_hex(16)
    work = SendFiles(folder="", files=(upload_of(s3, "once", found, sum_of(b"once")),))

    first = await staged(runs, work, name)
    (shared / "once").unlink()
    again = await staged(runs, work, name)

    assert first == again
    assert again.copied == ("once",)
