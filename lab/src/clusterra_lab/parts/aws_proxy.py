"""A proxy before the emulator of DynamoDB: it counts operations, and can answer as a table without capacity left."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import ClientSession, ClientTimeout, web

from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.aws import Aws

UNIT_BYTES = 1024
"""DynamoDB bills a write per started kibibyte of the item."""
_WRITES = {"PutItem": 1, "UpdateItem": 1, "DeleteItem": 1, "BatchWriteItem": 1, "TransactWriteItems": 2}
"""Units per kibibyte."""
_REFUSED = (
    b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",'
    b' "message": "The level of configured provisioned throughput for the table was exceeded."}'
)
_NOT_PASSED_ON = frozenset({"transfer-encoding", "content-length", "connection", "host"})
_SESSION = web.AppKey("session", ClientSession)


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
    units: Counter[str] = field(default_factory=Counter)
    """At most the write units of these operations by table: of each item the size in its request counts."""

    @property
    def write_units(self) -> int:
        """Those of all tables."""
        return self.units.total()

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = await request.read()
        service, _, operation = request.headers.get("X-Amz-Target", "").partition(".")
        if service.startswith("DynamoDB"):
            if random.random() < self.refused_share:
                self.refused += 1
                return web.Response(status=400, body=_REFUSED, content_type="application/x-amz-json-1.0")
            self.operations[operation] += 1
            if operation in _WRITES:
                self.units.update(_units(operation, body))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        url = f"{self.upstream}{request.raw_path}"
        async with request.app[_SESSION].request(request.method, url, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED_ON}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)


def _units(operation: str, body: bytes) -> Counter[str]:
    """The write units of an operation by table. An operation on several items costs as much as each of them."""
    content = json.loads(body)
    match operation:
        case "BatchWriteItem":
            items = [(table, entry) for table, entries in content["RequestItems"].items() for entry in entries]
        case "TransactWriteItems":
            items = [(write["TableName"], write) for entry in content["TransactItems"] for write in entry.values()]
        case _:
            items = [(content["TableName"], content)]
    units: Counter[str] = Counter()
    for table, item in items:
        units[table] += _WRITES[operation] * -(-len(json.dumps(item, separators=(",", ":"))) // UNIT_BYTES)
    return units


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
