"""The storage of a cluster: other credentials and addresses, a bucket that fails, and secrets that stay secret."""

import socket
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from clusterra_contracts.identity import now
from clusterra_contracts.registry import AssumedRole, StorageBinding
from clusterra_gateway.files import objects, s3_client
from clusterra_gateway.files.paths import file_path
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.aws_proxy import aws_proxy
from clusterra_runtime import logs
from clusterra_runtime.nats.registry import Registry, put_binding
from clusterra_runtime.outbound import Outbound
from files_world import BUCKET, FILES, UPLOADS, Answer, FilesClient, FilesWorld
from people_world import me

CONTENT = b"a,b\n1,2\n"
ROLE = AssumedRole(role_arn="arn:aws:iam::000000000000:role/clusterra-files", external_id="acme-main")


async def rebound(files: FilesWorld, **fields: Any) -> None:
    """Change the storage of the cluster, as `provision` does; without fields the cluster has none."""
    registry = Registry()
    await registry.start(files.world.client)
    try:
        binding = registry.get(files.world.acme.ref)
        assert binding is not None
        assert binding.storage is not None
        storage = binding.storage.model_copy(update=fields) if fields else None
        changed = binding.model_copy(update={"storage": storage, "version": binding.version + 1})
        await put_binding(files.world.client, files.world.acme.ref, changed)
    finally:
        await registry.stop()


async def until_answered(person: FilesClient, status: int, path: str = "data") -> Answer:
    """Lists a folder until the answer has this status."""
    last: list[Answer] = []

    async def answered() -> bool:
        last[:] = [await person.call("GET", FILES, params={"path": path})]
        return last[0].status == status

    await until(answered, seconds=60, what=f"a list that is answered {status}")
    return last[0]


async def test_a_cluster_without_storage_has_no_files(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    await rebound(files)

    answer = await until_answered(ada, 404)

    assert answer.body["detail"] == "this cluster has no storage for files"
    assert (await ada.list(""))["folders"] == []


async def test_a_server_that_does_not_answer_is_unavailable_for_now(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    await rebound(files, endpoint=f"http://127.0.0.1:{free_port()}")

    answer = await until_answered(ada, 503)
    begin = time.monotonic()
    signed = await ada.presign("data/x", CONTENT)

    assert answer.headers["Retry-After"] == "2"
    assert answer.body["type"] == "/v1/problems/unavailable"
    assert signed.status == 200, "signing asks no server"
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("wrong", ["bucket", "keys", "files of keys"])
async def test_a_wrong_binding_is_a_bad_upstream_that_names_no_secret(
    files: FilesWorld, tmp_path: Path, wrong: str
) -> None:
    ada = await files.person("ada@acme.example")
    match wrong:
        case "bucket":
            await rebound(files, bucket="no-such-bucket")
        case "keys":
            (tmp_path / "s3-id").write_text("AKIAWRONGWRONGWRONGX")
            signed = await ada.presign("data/x", CONTENT)
            assert await ada.send(signed.body, CONTENT) == 403
            return
        case _:
            (tmp_path / "s3-secret").unlink()

    answer = await until_answered(ada, 502)

    assert answer.headers["Retry-After"] == "60"
    assert "operators" in answer.body["hint"]
    assert not {files.aws.secret_access_key, str(tmp_path), "no-such-bucket"} & set(str(answer.body).split())
    assert str(tmp_path) not in str(answer.body)


async def test_replaced_keys_are_used_soon(files: FilesWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.files.buckets._KEYS_SECONDS", 0.1)
    ada = await files.person("ada@acme.example")
    assert await ada.put("data/x", CONTENT) == 200

    async def answered(status: int) -> bool:
        return await ada.put("data/x", CONTENT) == status

    (tmp_path / "s3-secret").write_text("wrong")
    await until(lambda: answered(403), seconds=90, what="the other secret in URLs")
    (tmp_path / "s3-secret").write_text(files.aws.secret_access_key)
    await until(lambda: answered(200), seconds=90, what="the right secret again")


async def test_urls_name_the_public_address_and_requests_go_to_the_other_one(files: FilesWorld) -> None:
    ada = await files.person("ada@acme.example")
    async with aws_proxy(files.aws) as public:
        await rebound(files, public_endpoint=public.aws.endpoint_url)

        async def named() -> bool:
            return str((await ada.presign("data/x")).body["url"]).startswith(f"{public.aws.endpoint_url}/")

        await until(named, seconds=90, what="the other address in URLs")

    # The other address is gone, and the gateway does not need it.
    assert (await ada.list("data"))["files"] == []


async def test_a_role_is_assumed_and_its_urls_end_with_it(
    files: FilesWorld, emulator: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    ada = await files.person("ada@acme.example")
    await rebound(files, credentials=ROLE)

    async def by_role() -> bool:
        return "X-Amz-Security-Token" in (await ada.presign("data/x")).body["url"]

    await until(by_role, seconds=90, what="URLs that the role signs")

    assert await ada.put("data/x", CONTENT) == 200
    assert await ada.get("data/x") == CONTENT
    assert [each["path"] for each in (await ada.list("data"))["files"]] == ["data/x"]


async def test_a_role_is_kept_until_half_of_its_time_and_then_assumed_again(
    emulator: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)

    made = s3_client.assume(ROLE, emulator.region, "clusterra-acme-main")

    assert made.expires_at is not None
    assert 3500 < (made.expires_at - now()).total_seconds() <= 3600
    assert not made.renewable(now())
    assert made.renewable(made.expires_at - timedelta(seconds=1799))
    assert made.secret_access_key not in repr(made)


async def test_a_large_file_is_copied_in_parts(files: FilesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "COPY_PART_BYTES", 5 * 1024**2)
    ada = await files.person("ada@acme.example")
    content = b"0123456789abcdef" * (12 * 65536)
    assert await ada.put("data/large", content) == 200

    renamed = await ada.call("POST", f"{FILES}/rename", json={"source": "data/large", "destination": "outputs/large"})

    assert (renamed.status, renamed.body["size"]) == (200, len(content))
    assert await ada.get("outputs/large") == content
    assert await ada.get("data/large") is None
    key = f"acme/main/users/{(await me(ada.browser))['id']}/outputs/large"
    assert files.s3.head_object(Bucket=BUCKET, Key=key)["ETag"].endswith('-3"')


async def test_no_secret_and_no_signature_is_logged_even_when_everything_is(
    files: FilesWorld, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.configure("gateway", "DEBUG")
    ada = await files.person("ada@acme.example")

    signed = [await ada.presign("data/x", CONTENT), await ada.presign("data/x")]
    assert await ada.send(signed[0].body, CONTENT) == 200
    await ada.list("data")
    await ada.call("POST", f"{FILES}/rename", json={"source": "data/x", "destination": "data/y"})
    await ada.call("DELETE", FILES, params={"path": "data/y"})
    await ada.call("POST", UPLOADS, json={"path": "data/z", "size": 10})
    await ada.call("GET", f"{UPLOADS}/none/parts", params={"path": "data/z"})

    logged = capfd.readouterr().out
    assert "files_changed" in logged
    for each in signed:
        signature = each.body["url"].partition("X-Amz-Signature=")[2][:64]
        assert len(signature) == 64
        assert signature not in logged
    assert "X-Amz-Signature" not in logged
    assert "Signature=" not in logged
    assert "StringToSign" not in logged


@pytest.mark.parametrize("text", ["2026-11-24T23:45:33.000Z", "2026-11-24T23:45:33Z", "Tue, 24 Nov 2026 23:45:33 GMT"])
def test_the_times_of_lists_and_of_headers_are_read(text: str) -> None:
    assert s3_client._timestamp(text) == datetime(2026, 11, 24, 23, 45, 33, tzinfo=UTC)


def test_the_address_of_aws_is_not_that_of_our_own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    storage = StorageBinding(bucket="acme-files", region="eu-central-1", credentials=ROLE)

    s3 = s3_client.connect(s3_client.new_session(), storage, s3_client.Credentials("AKIA", "secret"))
    url = s3.signer.generate_presigned_url("get_object", Params={"Bucket": s3.bucket, "Key": file_path("data/x").shown})

    assert url.startswith("https://acme-files.s3.eu-central-1.amazonaws.com/data/x?")


def test_a_bucket_behind_a_closed_address_is_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        storage = StorageBinding(
            bucket="acme-files", region="us-east-1", endpoint=f"http://127.0.0.1:{port}", credentials=ROLE
        )
        outbound = Outbound(closed=(ip_network("127.0.0.0/8"),))
        s3 = s3_client.connect(s3_client.new_session(), storage, s3_client.Credentials("AKIA", "secret"), outbound)

        with pytest.raises(EndpointConnectionError):
            s3.client.list_objects_v2(Bucket=s3.bucket)

        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            assert connection.recv(1) == b""
