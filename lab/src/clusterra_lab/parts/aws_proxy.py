"""A proxy before the emulator of DynamoDB: it counts operations, and can answer as a table without capacity left."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web

from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.aws import Aws

UNIT_BYTES = 1024
"""DynamoDB bills a write per started kibibyte of the item."""
_OK = 200
_REFUSED = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
    b' "message": "The level of configured provisioned throughput for the table was exceeded."}'
)
_NOT_PASSED_ON = frozenset({"transfer-encoding", "content-length", "connection", "host"})
_SESSION = web.AppKey("session", ClientSession)


class WriteUnits:
    """Counts the write units of operations by table, as DynamoDB bills them: by the size of each item.

    Of an update that is the larger one of the sizes before and after it. The answer has the item after it, and the
    sizes before are those that this counter has seen. Indexes are not counted.
    """

    def __init__(self) -> None:
        self.by_table: Counter[str] = Counter()
        self._sizes: dict[tuple[str, str], int] = {}
        """The last known bytes of each item."""

    def count(self, operation: str, request: bytes, answer: bytes) -> None:
        """Count an operation that was carried out."""
        content = json.loads(request)
        match operation:
            case "PutItem":
                self._add(content["TableName"], content["Item"], content["Item"])
            case "UpdateItem":
                after = json.loads(answer).get("Attributes", {})
                self._add(content["TableName"], content["Key"], after)
            case "DeleteItem":
                self._add(content["TableName"], content["Key"], {})
            case "BatchWriteItem":
                for table, entries in content["RequestItems"].items():
                    for entry in entries:
                        self._add(table, entry["PutRequest"]["Item"], entry["PutRequest"]["Item"])
            case "TransactWriteItems":
                for entry in content["TransactItems"]:
                    for write in entry.values():
                        item = write.get("Item", {})
                        self._add(write["TableName"], item or write["Key"], item, units=2)

    def _add(self, table: str, key: Mapping[str, Any], after: Mapping[str, Any], *, units: int = 1) -> None:
        name = (table, json.dumps([key.get("pk"), key.get("sk")]))
        size = sum(len(attribute.encode()) + _value_bytes(value) for attribute, value in after.items())
        largest = max(size, self._sizes.get(name, 0), 1)
        self._sizes[name] = size
        self.by_table[table] += units * -(-largest // UNIT_BYTES)


def _value_bytes(value: Mapping[str, Any]) -> int:
    """The size of a value by DynamoDB's rules."""
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return len(content) // 2 + 2
        case "B":
            return len(content) * 3 // 4
        case "L":
            return 3 + sum(1 + _value_bytes(each) for each in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_bytes(each) for name, each in content.items())
        case _:
            return len(json.dumps(content))


@dataclass
class AwsProxy:
    """Passes requests on to an emulator, except the share of DynamoDB's that it refuses."""

    aws: Aws
    """How services reach the emulator through this proxy."""
    upstream: str
    refused_share: float = 0.0
    """The probability with which an operation of DynamoDB is refused now."""
    refused: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    """The operations of DynamoDB that were passed on, such as `UpdateItem`."""
    units: WriteUnits = field(default_factory=WriteUnits)
    """The write units of these operations."""

    @property
    def write_units(self) -> int:
        """Those of all tables."""
        return self.units.by_table.total()

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = await request.read()
        service, _, operation = request.headers.get("X-Amz-Target", "").partition(".")
        if service.startswith("DynamoDB"):
            if random.random() < self.refused_share:
                self.refused += 1
                return web.Response(status=400, body=_REFUSED, content_type="application/x-amz-json-1.0")
            self.operations[operation] += 1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        url = f"{self.upstream}{request.raw_path}"
        async with request.app[_SESSION].request(request.method, url, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED_ON}
            text = await answer.read()
            if service.startswith("DynamoDB") and answer.status == _OK:
                self.units.count(operation, body, text)
            return web.Response(status=answer.status, body=text, headers=kept)


@asynccontextmanager
async def aws_proxy(aws: Aws) -> AsyncIterator[AwsProxy]:
    """Serve on a free port of this machine until the block ends."""
    port = free_port()
    proxy = AwsProxy(replace(aws, endpoint_url=f"http://127.0.0.1:{port}"), aws.endpoint_url)
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    # Bodies pass as they are, compressed ones too.
    async with ClientSession(timeout=ClientTimeout(total=60), auto_decompress=False) as session:
        app[_SESSION] = session
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield proxy
        finally:
            await runner.cleanup()
