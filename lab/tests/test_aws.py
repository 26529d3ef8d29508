"""The AWS provider, with the real emulator."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import psutil
import pytest
from clusterra_lab.parts.aws import Aws, aws_emulator

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_s3 import S3Client


def dynamodb(aws: Aws) -> "DynamoDBClient":
    client: DynamoDBClient = boto3.client("dynamodb", **location(aws))
    return client


def s3(aws: Aws) -> "S3Client":
    client: S3Client = boto3.client("s3", **location(aws))
    return client


def location(aws: Aws) -> dict[str, Any]:
    return {
        "endpoint_url": aws.endpoint_url,
        "region_name": aws.region,
        "aws_access_key_id": aws.access_key_id,
        "aws_secret_access_key": aws.secret_access_key,
    }


def create_table(aws: Aws, name: str) -> "DynamoDBClient":
    client = dynamodb(aws)
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@pytest.fixture(scope="module")
async def aws(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Aws]:
    """An emulator that was started twice, the second time with the state of the first."""
    directory = tmp_path_factory.mktemp("aws")
    async with aws_emulator(directory) as first:
        table, bucket = create_table(first, "kept"), s3(first)
        table.put_item(TableName="kept", Item={"pk": {"S": "one"}})
        bucket.create_bucket(Bucket="kept")
        bucket.put_object(Bucket="kept", Key="k", Body=b"safe")
        table.close()
        bucket.close()
    async with aws_emulator(directory) as second:
        yield second


async def test_tables_and_buckets_survive_an_orderly_restart(aws: Aws) -> None:
    table, bucket = dynamodb(aws), s3(aws)
    assert table.get_item(TableName="kept", Key={"pk": {"S": "one"}})["Item"] == {"pk": {"S": "one"}}
    assert bucket.get_object(Bucket="kept", Key="k")["Body"].read() == b"safe"
    table.close()
    bucket.close()


async def test_one_of_many_conditional_puts_wins(aws: Aws) -> None:
    client = create_table(aws, "race")

    def put(writer: int) -> bool:
        try:
            client.put_item(
                TableName="race",
                Item={"pk": {"S": "one"}, "writer": {"N": str(writer)}},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        won = await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(pool, put, n) for n in range(8)))

    assert won.count(True) == 1

    item = client.get_item(TableName="race", Key={"pk": {"S": "one"}})["Item"]

    assert item["writer"]["N"] == str(won.index(True))
    client.close()


async def test_objects_can_be_read_back_from_s3(aws: Aws) -> None:
    client = s3(aws)
    client.create_bucket(Bucket="archive")
    client.put_object(Bucket="archive", Key="a/b", Body=b"\x00\xff")
    assert client.get_object(Bucket="archive", Key="a/b")["Body"].read() == b"\x00\xff"
    client.close()


async def test_an_sdk_needs_only_the_environment(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    client = boto3.session.Session().client("dynamodb")
    assert client.meta.endpoint_url == aws.endpoint_url
    assert "TableNames" in client.list_tables()
    client.close()


async def test_the_emulator_listens_only_on_loopback(aws: Aws) -> None:
    port = int(aws.endpoint_url.rpartition(":")[2])
    listening = [
        (owner.pid, *owner.laddr) for owner in psutil.net_connections("inet") if owner.status == psutil.CONN_LISTEN
    ]
    (emulator,) = [pid for pid, _, its_port in listening if its_port == port]
    assert {address for pid, address, _ in listening if pid == emulator} == {"127.0.0.1"}


async def test_an_aws_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://aws.example:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")

    async with aws_emulator(tmp_path) as aws:
        assert aws == Aws("http://aws.example:1", "eu-west-1", "me", "mine")
        assert "mine" not in repr(aws)

    assert list(tmp_path.iterdir()) == []
