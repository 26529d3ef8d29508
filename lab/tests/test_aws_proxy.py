"""The proxy before the emulator of DynamoDB, with the real emulator and boto3."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from clusterra_lab.parts.aws import aws_emulator
from clusterra_lab.parts.aws_proxy import aws_proxy

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


async def test_operations_are_counted_and_refused(tmp_path: Path) -> None:
    async with aws_emulator(tmp_path) as aws, aws_proxy(aws) as proxy:
        client: DynamoDBClient = boto3.client(
            "dynamodb",
            endpoint_url=proxy.aws.endpoint_url,
            region_name=aws.region,
            aws_access_key_id=aws.access_key_id,
            aws_secret_access_key=aws.secret_access_key,
            config=Config(retries={"total_max_attempts": 1}),
        )
        await asyncio.to_thread(
            client.create_table,
            TableName="jobs",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        item = {"pk": {"S": "one"}, "text": {"S": "x" * 2000}}

        await asyncio.to_thread(client.put_item, TableName="jobs", Item=item)
        proxy.refused_share = 1.0
        with pytest.raises(client.exceptions.ProvisionedThroughputExceededException):
            await asyncio.to_thread(client.put_item, TableName="jobs", Item={"pk": {"S": "two"}})
        proxy.refused_share = 0.0
        found = await asyncio.to_thread(client.get_item, TableName="jobs", Key={"pk": {"S": "one"}})

        assert found["Item"] == item
        assert proxy.operations == {"CreateTable": 1, "PutItem": 1, "GetItem": 1}
        assert (proxy.write_units, proxy.refused) == (3, 1)
        client.close()
