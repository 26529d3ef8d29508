"""A table that two services use is made once, and each has its own rights on it."""

from clusterra_admin.tables import declared
from clusterra_admin.tables.policy import policy
from clusterra_lab.parts.aws_rights import allows
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.webhook_records import WEBHOOKS

PLACE = "arn:aws:dynamodb:eu-central-1:1:table/p-webhooks"


def test_each_table_is_declared_once_and_alike() -> None:
    names = [table.name for table in declared.TABLES]
    used = {(use.table.name, use.table) for uses in declared.USES.values() for use in uses}

    assert len(names) == len(set(names)) == len(used)
    assert WEBHOOKS in declared.TABLES


def test_the_events_service_only_reads_webhooks() -> None:
    found = policy("events", prefix="p-", region="eu-central-1", account="1")

    assert allows(found, "dynamodb:Query", PLACE)
    assert not allows(found, "dynamodb:Query", f"{PLACE}/index/{OUTBOX.name}")
    for never in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"):
        assert not allows(found, f"dynamodb:{never}", PLACE)
    assert all(statement["Action"] for statement in found["Statement"])
