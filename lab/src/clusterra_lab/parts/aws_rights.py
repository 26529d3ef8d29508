"""DynamoDB with the rights of an IAM policy. The emulator allows everything, so a proxy in front of it decides."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import aiohttp
from aiohttp import web

from clusterra_lab.parts.aws import Aws

_WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_NOT_FORWARDED = frozenset({"host", "content-length", "transfer-encoding", "content-encoding", "connection"})


@asynccontextmanager
async def with_rights(aws: Aws, policy: Mapping[str, Any]) -> AsyncIterator[Aws]:
    """Provide the same DynamoDB to a service that may do only what an IAM policy document allows.

    A request that the policy does not allow is rejected as AWS rejects it, by AccessDeniedException.
    """
    async with aiohttp.ClientSession(auto_decompress=False) as http:

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            if denied := [need for need in _needs(request.headers["X-Amz-Target"], body) if not allows(policy, *need)]:
                return _denial(*denied[0])
            async with http.post(aws.endpoint_url, data=body, headers=_kept(request.headers)) as answer:
                return web.Response(status=answer.status, body=await answer.read(), headers=_kept(answer.headers))

        application = web.Application(client_max_size=32 * 1024**2)
        application.router.add_post("/", forward)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield replace(aws, endpoint_url=f"http://{host}:{port}")
        finally:
            await runner.cleanup()


def allows(policy: Mapping[str, Any], action: str, resource: str) -> bool:
    """Whether a policy document allows an action on a resource; only statements with the effect `Allow` are known."""
    return any(
        statement["Effect"] == "Allow"
        and any(fnmatchcase(action, pattern) for pattern in statement["Action"])
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        for statement in policy["Statement"]
    )


def _needs(target: str, body: bytes) -> Iterator[tuple[str, str]]:
    """The actions and resources of a request."""
    operation = target.rpartition(".")[2]
    content = json.loads(body)
    if operation == "TransactWriteItems":
        for entry in content["TransactItems"]:
            for kind, write in entry.items():
                yield f"dynamodb:{_WRITES[kind]}", _resource(write)
    elif operation == "BatchWriteItem":
        for table in content["RequestItems"]:
            yield f"dynamodb:{operation}", _resource({"TableName": table})
    else:
        yield f"dynamodb:{operation}", _resource(content)


def _resource(content: Mapping[str, Any]) -> str:
    table = f"arn:aws:dynamodb:us-east-1:000000000000:table/{content['TableName']}"
    return f"{table}/index/{content['IndexName']}" if "IndexName" in content else table


def _denial(action: str, resource: str) -> web.Response:
    problem = {
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "message": f"User is not authorized to perform: {action} on resource: {resource}",
    }
    return web.Response(status=400, text=json.dumps(problem), content_type="application/x-amz-json-1.0")


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_FORWARDED}
