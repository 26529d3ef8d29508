"""What no service could work with is refused before a binding is written, and no password is repeated."""

import asyncio

import aiohttp
import pytest
from clusterra_contracts.registry import StorageBinding
from clusterra_runtime.nats.binding import InvalidBinding, check_slurmrestd_url, check_storage
from hypothesis import given
from hypothesis import strategies as st

GOOD = (
    "http://127.0.0.1:6820",
    "https://slurm.example.org/",
    "http://slurmrestd.tenant-a.svc.cluster.local:6820/prefix",
    "http://slurm_restd",
    "http://[::1]:6820",
    "http://localhost.",
)
BAD = (
    "",
    "127.0.0.1:6820",
    "localhost:6820",
    "//localhost:6820",
    "HTTP:localhost",
    "ftp://localhost",
    "http://",
    "http://:6820",
    "http:///path",
    "http://[::1",
    "http://[fe80::1%eth0]:6820",
    "http://localhost:0",
    "http://localhost:65536",
    "http://localhost:port",
    "http://root:hunter2@localhost",
    "http://hunter2@localhost",
    "http://localhost?key=hunter2",
    "http://localhost#hunter2",
    "http://localhost/a b",
    "http://local host",
    "http://localhost\n",
    "http://loc\talhost",
    " http://localhost",
    "http://a..b",
    "http://-a",
    "http://" + "a" * 64,
    "http://" + ".".join(["a" * 60] * 5),
    "http://b\u00fccher.example",
)


@pytest.mark.parametrize("url", GOOD)
def test_an_address_that_a_client_can_use_is_taken(url: str) -> None:
    assert check_slurmrestd_url(url) == url


@pytest.mark.parametrize("url", BAD)
def test_any_other_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidBinding) as refused:
        check_slurmrestd_url(url)

    assert "hunter2" not in str(refused.value)


near_urls = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "http:", ""]),
    st.text("ab1.-_[]:@%\u00fc ", max_size=12),
    st.sampled_from(["", ":1", ":65535", ":65536"]),
    st.text("/a.?#%\\ ", max_size=6),
)


@given(st.one_of(near_urls, st.text(max_size=20)))
def test_a_client_can_be_made_for_every_address_that_is_taken(url: str) -> None:
    try:
        check_slurmrestd_url(url)
    except InvalidBinding:
        return

    async def make() -> None:
        async with aiohttp.ClientSession(url.rstrip("/") + "/") as session:
            session._build_url("slurm/v0.0.44/ping/")

    asyncio.run(make())


KEYS = {"kind": "keys", "access_key_id": "file:/etc/id", "secret_access_key": "kubernetes:clusterra/s3/secret"}
ROLE = {"kind": "role", "role_arn": "arn:aws:iam::123456789012:role/clusterra/files", "external_id": "acme/main"}
STORAGE = {"bucket": "acme-files", "region": "eu-central-1", "credentials": KEYS}
MINIO = {"endpoint": "http://minio:9000", "public_endpoint": "https://files.acme.example", "addressing": "path"}


@pytest.mark.parametrize("storage", [STORAGE, STORAGE | MINIO, STORAGE | {"credentials": ROLE}])
def test_a_bucket_that_s3_could_have_is_taken(storage: dict[str, object]) -> None:
    binding = StorageBinding.model_validate(storage)

    assert check_storage(binding) == binding


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bucket", "a"),
        ("bucket", "Acme"),
        ("bucket", "acme..files"),
        ("bucket", "acme/files"),
        ("bucket", "acme files"),
        ("region", ""),
        ("region", "us-east-1.evil.example/"),
        ("endpoint", "minio:9000"),
        ("endpoint", "http://user:hunter2@minio:9000"),
        ("endpoint", "http://minio:9000/"),
        ("endpoint", "http://minio:9000/bucket"),
        ("public_endpoint", "https://files.acme.example"),
        ("credentials", KEYS | {"access_key_id": "file:relative"}),
        ("credentials", KEYS | {"secret_access_key": "kubernetes:hunter2"}),
        ("credentials", ROLE | {"role_arn": "arn:aws:iam::1:user/ada"}),
        ("credentials", ROLE | {"external_id": "a b"}),
    ],
)
def test_any_other_storage_is_refused_and_the_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidBinding, match=rf"storage\.{field}") as refused:
        check_storage(StorageBinding.model_validate(STORAGE | {field: value}))

    assert field == "credentials" or "hunter2" not in str(refused.value)
