"""Checks the tables: that they exist as declared, and that these credentials may read and write them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from clusterra_contracts.identity import now
from clusterra_runtime.store.dynamodb_client import Client, WriteRejected
from clusterra_runtime.store.record_level import RecordForms, read_level
from clusterra_runtime.store.store import Store, StoreError, StoreUnavailable, Table, TableMissing
from pydantic import ValidationError

from clusterra_admin.doctor.clocks import ahead_by_date, clock_finding
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped

CONNECTION = "record.connection"
APPLY = "run `clusterra-admin tables apply`"
REACH = "check AWS_ENDPOINT_URL, AWS_REGION and the network"


def _absent_key() -> dict[str, dict[str, str]]:
    """The key of an item that never exists: a write that requires it to exist is refused and changes nothing."""
    return {"pk": {"S": "clusterra-doctor"}, "sk": {"S": uuid4().hex}}


async def check_table(client: Client, table: Table, name: str) -> list[Finding]:
    """Everything about one table."""
    try:
        description: dict[str, Any] = (await client.call("describe_table", TableName=name))["Table"]
        expiry: dict[str, Any] = await client.call("describe_time_to_live", TableName=name)
    except TableMissing:
        return [failure("record.table", "it does not exist", APPLY, about=name)]
    except StoreUnavailable as error:
        return [failure("record.table", str(error), REACH, about=name)]
    except StoreError as error:
        return [
            failure("record.table", str(error), "compare the role with `clusterra-admin tables policy`", about=name)
        ]
    definition = _definition(table, name, description, expiry)
    if description["TableStatus"] not in {"ACTIVE", "UPDATING"}:
        return [*definition, skipped("record.rights", "the table cannot be used yet", about=name)]
    return [*definition, await _rights(client, table, name, _indexes(description))]


def _indexes(description: dict[str, Any]) -> dict[str, str]:
    return {index["IndexName"]: index["IndexStatus"] for index in description.get("GlobalSecondaryIndexes") or []}


def _definition(table: Table, name: str, description: dict[str, Any], expiry: dict[str, Any]) -> list[Finding]:
    status = description["TableStatus"]
    if status not in {"ACTIVE", "UPDATING"}:
        return [failure("record.table", f"its status is {status}", "wait until DynamoDB has made it", about=name)]
    problems = []
    indexes = _indexes(description)
    for index in table.indexes:
        if index.name not in indexes:
            problems.append(f"the index {index.name} is missing")
        elif indexes[index.name] not in {"ACTIVE", "UPDATING"}:
            problems.append(f"the index {index.name} is {indexes[index.name]}")
    expires = expiry.get("TimeToLiveDescription", {})
    if expires.get("TimeToLiveStatus") not in {"ENABLED", "ENABLING"}:
        problems.append("expiry is off")
    elif expires.get("AttributeName", "expires_at") != "expires_at":
        problems.append(f"expiry is by {expires.get('AttributeName')}, not by expires_at")
    if problems:
        return [failure("record.table", "; ".join(problems), APPLY, about=name)]
    count = f"about {description.get('ItemCount', 0)} items"
    return [ok("record.table", f"active, {count}, indexes: {len(indexes)}, expiry on", about=name)]


async def check_level(store: Store, forms: RecordForms, name: str) -> list[Finding]:
    """Whether this release reads the records as the migrations have left them."""
    check = "record.level"
    try:
        level = await read_level(store, forms.table)
    except (StoreError, ValidationError) as error:
        return [skipped(check, f"the level cannot be read: {error}", about=name)]
    if problem := forms.problem(level):
        return [failure(check, problem, "see `clusterra-admin migrate plan`", about=name)]
    return [ok(check, f"level {level.level}, which this release reads", about=name)]


async def _rights(client: Client, table: Table, name: str, indexes: dict[str, str]) -> Finding:
    denied = []
    for operation, request in _attempts(table, name, indexes):
        try:
            await client.call(operation, **request)
        except WriteRejected:
            continue  # The write was allowed; only its condition did not hold, as intended.
        except StoreUnavailable as error:
            return failure("record.rights", str(error), REACH, about=name)
        except StoreError as error:
            denied.append(f"{operation}: {error}")
    if denied:
        advice = "compare the role with `clusterra-admin tables policy`"
        return failure("record.rights", "; ".join(denied), advice, about=name)
    return ok("record.rights", "reads and conditional writes are allowed", about=name)


def _attempts(table: Table, name: str, indexes: dict[str, str]) -> Sequence[tuple[str, dict[str, Any]]]:
    key = _absent_key()
    condition = {"TableName": name, "ConditionExpression": "attribute_exists(pk)"}
    values = {":v": {"S": "clusterra-doctor"}}
    query = {"TableName": name, "KeyConditionExpression": "#k = :v", "ExpressionAttributeValues": values, "Limit": 1}
    return [
        ("get_item", {"TableName": name, "Key": key, "ConsistentRead": True}),
        ("query", query | {"ExpressionAttributeNames": {"#k": "pk"}}),
        *(
            ("query", query | {"IndexName": index.name, "ExpressionAttributeNames": {"#k": index.partition}})
            for index in table.indexes
            if indexes.get(index.name) == "ACTIVE"
        ),
        ("put_item", condition | {"Item": key}),
        ("delete_item", condition | {"Key": key}),
        (
            "update_item",
            condition
            | {"Key": key, "UpdateExpression": "SET #k = :v", "ExpressionAttributeNames": {"#k": "seen"}}
            | {"ExpressionAttributeValues": values},
        ),
    ]


async def check_store(client: Client, table: str) -> list[Finding]:
    """Whether DynamoDB answers, and its clock: it refuses requests whose signature is 5 minutes apart from it."""
    before = now()
    try:
        answer = await client.call("describe_table", TableName=table)
    except TableMissing:
        return [ok(CONNECTION, "answers"), skipped("clocks.skew", "no answer with a date", about="DynamoDB")]
    except StoreUnavailable as error:
        return [failure(CONNECTION, str(error), REACH)]
    except StoreError as error:
        if "AccessDenied" not in str(error):
            return [failure(CONNECTION, str(error), "check the AWS credentials and region; a wrong clock refuses all")]
        return [ok(CONNECTION, "answers"), skipped("clocks.skew", "no answer with a date", about="DynamoDB")]
    after = now()
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    ahead = ahead_by_date(headers.get("date"), before, after)
    if ahead is None:
        return [ok(CONNECTION, "answers"), skipped("clocks.skew", "the answer has no Date header", about="DynamoDB")]
    return [ok(CONNECTION, "answers"), clock_finding("DynamoDB", ahead)]
