"""`clusterra-admin tables` on an emulator of DynamoDB, and services that wait for their tables."""

import json
import secrets
import sys
from pathlib import Path

import aiohttp
import pytest
from admin_command import admin, admin_process
from clusterra_admin.tables.declared import TABLES, USES
from clusterra_gateway.templates.table import DUE, TEMPLATES
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.aws_rights import allows
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import Put, Store, Table
from clusterra_runtime.store.table_use import ACTIONS


async def dynamodb(environment: dict[str, str], operation: str, **request: object) -> dict[str, object]:
    """A request to the emulator, past the store."""
    headers = {
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request",
    }
    async with (
        aiohttp.ClientSession() as http,
        http.post(environment["AWS_ENDPOINT_URL"], data=json.dumps(request), headers=headers) as answer,
    ):
        content: dict[str, object] = await answer.json(content_type=None)
        assert answer.status == 200, content
        return content


async def test_apply_makes_every_table_and_a_second_run_changes_nothing(environment: dict[str, str]) -> None:
    before = await admin("tables", "check", "--json", environment=environment, code=2)

    assert [table["differences"] for table in before.json["tables"]] == [["does not exist"]] * len(TABLES)

    applied = await admin_process("tables", "apply", environment=environment)

    for table in TABLES:
        name = environment["CLUSTERRA_TABLE_PREFIX"] + table.name
        assert f"{name}: does not exist: creating what is missing\n" in applied.out
        assert f"{name}: created, and active\n" in applied.out

    again = await admin("tables", "apply", "--json", environment=environment)

    assert {table["outcome"] for table in again.json["tables"]} == {"as declared"}

    checked = await admin("tables", "check", environment=environment)

    assert checked.out.count(": as declared\n") == len(TABLES)


async def test_apply_adds_an_index_that_a_table_lacks(environment: dict[str, str]) -> None:
    name = environment["CLUSTERRA_TABLE_PREFIX"] + "fleets"
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    attributes = [{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk")]
    await dynamodb(
        environment,
        "CreateTable",
        TableName=name,
        KeySchema=keys,
        AttributeDefinitions=attributes,
        BillingMode="PAY_PER_REQUEST",
    )

    checked = await admin("tables", "check", environment=environment, code=2)

    assert f"{name}: lacks the index {OUTBOX.name}, does not expire items by expires_at\n" in checked.out

    await admin("tables", "apply", environment=environment)
    await admin("tables", "check", environment=environment)


async def test_apply_adds_the_index_of_due_schedules_to_the_table_of_the_release_before(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with DynamoDBStore(table_prefix=environment["CLUSTERRA_TABLE_PREFIX"]) as store:
        await store.create_tables(Table("templates", (OUTBOX,)))
        schedule = {DUE.partition: "0", DUE.sort: "2026-11-24T12:05:00Z"}
        await store.write(Put(TEMPLATES, Key("schedules", "acme#1"), schedule, Absent()))

        await admin("tables", "apply", environment=environment)
        found = await store.query_index(TEMPLATES, DUE, "0", sort=Between("0", "2026-11-24T12:05:00~"))
        earlier = await store.query_index(TEMPLATES, DUE, "0", sort=Between("0", "2026-11-24T12:04:59~"))

    assert (found, earlier) == ([Key("schedules", "acme#1")], [])


async def test_apply_rejects_a_table_with_other_keys(environment: dict[str, str]) -> None:
    await dynamodb(
        environment,
        "CreateTable",
        TableName=environment["CLUSTERRA_TABLE_PREFIX"] + "events",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    answer = await admin("tables", "apply", environment=environment, code=1)

    assert "events has other keys than pk and sk: drop it" in answer.err


async def test_without_dynamodb_the_command_says_what_to_check(environment: dict[str, str]) -> None:
    answer = await admin(
        "tables", "check", environment=environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, code=1
    )

    assert "check AWS_ENDPOINT_URL and the network" in answer.err


async def test_list_names_every_table_with_its_service(environment: dict[str, str]) -> None:
    listed = await admin("tables", "list", "--json", environment=environment)

    prefix = environment["CLUSTERRA_TABLE_PREFIX"]
    assert {(table["service"], table["name"]) for table in listed.json["tables"]} == {
        (service, prefix + use.table.name) for service, uses in USES.items() for use in uses
    }
    assert len({table.name for table in TABLES}) == len(TABLES)


@pytest.mark.parametrize("service", USES)
async def test_a_policy_allows_a_service_its_own_tables_only(service: str, environment: dict[str, str]) -> None:
    arguments = ("policy", "--service", service, "--region", "eu-central-1", "--account", "123456789012")
    policy = (await admin("tables", *arguments, environment=environment)).json
    place = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{environment['CLUSTERRA_TABLE_PREFIX']}"

    own = {use.table.name: use for use in USES[service]}
    for table in TABLES:
        for operation, action in ACTIONS.items():
            resource = f"{place}{table.name}" + (f"/index/{OUTBOX.name}" if operation == "query_index" else "")
            if table.name not in own:
                assert not allows(policy, action, resource)
            elif operation in own[table.name].operations:
                assert allows(policy, action, resource)
            elif operation == "scan":
                assert not allows(policy, action, resource)
        for never in ("dynamodb:CreateTable", "dynamodb:DeleteTable", "dynamodb:UpdateTable"):
            assert not allows(policy, never, f"{place}{table.name}")
        assert not allows(policy, "dynamodb:GetItem", f"arn:aws:dynamodb:eu-central-1:123456789012:table/{table.name}")


async def test_an_unknown_service_has_no_policy() -> None:
    answer = await admin("tables", "policy", "--service", "proxy", code=1)

    assert "choose one of: gateway, scaler, events, admin" in answer.err


def test_each_operation_of_the_store_is_in_the_rights() -> None:
    operations = {name for name in vars(Store) if not name.startswith("_")}

    assert operations == {
        "create_tables",
        "missing_tables",
        "get",
        "write",
        "delete",
        "put_all",
        "query",
        "query_index",
        "scan",
        "transact",
    }


@pytest.mark.parametrize("service", USES)
async def test_a_service_without_its_tables_waits_and_turns_ready_when_they_are_made(
    service: str, environment: dict[str, str], tmp_path: Path
) -> None:
    async with declared_nats(tmp_path / "nats") as nats:
        port = free_port()
        own = {
            **environment,
            **nats.environment(),
            "CLUSTERRA_HEALTH_PORT": str(port),
            "CLUSTERRA_HTTP_PORT": "0",
            "CLUSTERRA_OIDC_ISSUER": "http://127.0.0.1:1",
            "CLUSTERRA_OIDC_CLIENT_ID": "none",
            "CLUSTERRA_SESSION_KEY_FILE": str(tmp_path / "session-key"),
        }
        (tmp_path / "session-key").write_bytes(secrets.token_bytes(32))
        process = await start(
            service, [sys.executable, "-m", f"clusterra_{service}"], log=tmp_path / "service.log", env=own
        )
        try:
            missing = "tables exist (else run `clusterra-admin tables apply`)"
            await until(
                lambda: _failing(port, missing), seconds=60, what="the readiness to name the command", process=process
            )

            assert process.alive

            await admin("tables", "apply", environment=environment)

            await until(lambda: _ready(port), seconds=60, what="the service to be ready", process=process)
            assert '"event":"tables_missing"' in process.log.read_text()
        finally:
            await process.stop()


async def _readiness(port: int) -> tuple[int, list[str]]:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status, (await answer.json())["failing"]
    except aiohttp.ClientConnectionError:
        return 0, []


async def _failing(port: int, condition: str) -> bool:
    status, failing = await _readiness(port)
    return status == 503 and condition in failing


async def _ready(port: int) -> bool:
    return (await _readiness(port))[0] == 200
