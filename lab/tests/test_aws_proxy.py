"""The proxy before the emulator of DynamoDB, with the real emulator and boto3."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from clusterra_lab.parts.aws import aws_emulator
from clusterra_lab.parts.aws_proxy import WriteUnits, aws_proxy

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
        assert (proxy.write_units, proxy.refused) == (2, 1)
        client.close()


def counted(*operations: tuple[str, dict[str, Any], dict[str, Any]]) -> int:
    units = WriteUnits()
    for operation, request, answer in operations:
        units.count(operation, json.dumps(request).encode(), json.dumps(answer).encode())
    return units.by_table["jobs"]


def item(size: int) -> dict[str, Any]:
    return {"pk": {"S": "one"}, "sk": {"S": "x"}, "text": {"S": "x" * size}}


KEY = {"pk": {"S": "one"}, "sk": {"S": "x"}}
PUT = {"TableName": "jobs", "Item": item(1500)}
UPDATE = {"TableName": "jobs", "Key": KEY, "UpdateExpression": "REMOVE #t"}


def test_an_item_costs_a_unit_for_each_started_kibibyte_however_long_its_request() -> None:
    long_condition = {"TableName": "jobs", "Item": item(900), "ConditionExpression": "y" * 2000}

    assert counted(("PutItem", long_condition, {})) == 1
    assert counted(("PutItem", PUT, {})) == 2


def test_an_update_costs_the_larger_one_of_the_sizes_before_and_after() -> None:
    before: tuple[str, dict[str, Any], dict[str, Any]] = ("PutItem", PUT, {})

    assert counted(before, ("UpdateItem", UPDATE, {"Attributes": item(10)})) == 4
    assert counted(before, ("UpdateItem", UPDATE, {"Attributes": item(10)}), ("DeleteItem", UPDATE, {})) == 5
    assert counted(("UpdateItem", UPDATE, {"Attributes": item(3000)})) == 3


def test_a_batch_costs_as_much_as_its_items_and_a_transaction_twice() -> None:
    puts = [{"PutRequest": {"Item": item(10) | {"sk": {"S": f"{n}"}}}} for n in range(3)]
    transacted = [{"Put": PUT}, {"Update": UPDATE}]

    assert counted(("BatchWriteItem", {"RequestItems": {"jobs": puts}}, {})) == 3
    assert counted(("TransactWriteItems", {"TransactItems": transacted[:1]}, {})) == 4
