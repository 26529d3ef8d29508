"""No operation of the running API fails because of odd ids, names and times."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from clusterra_lab.parts.user import User

LONG, LONGER = 180, 3000
ODD_IDS = ("7" * LONG, "a" * LONG, f"1_{'7' * LONG}", "é" * LONG, "a.b.*", ">", "%", "\0", "..")
ODD_VALUES = (
    *ODD_IDS,
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"),
    *("0000-01-01T00:00:00Z", "99999999999999999999", "-1", "1e400", "NaN", "true", "", "é" * LONGER),
)
OTHER_TYPES: tuple[Any, ...] = (10**30, -1, [], {}, ["a" * LONG])
FEW_ODD_VALUES: tuple[Any, ...] = (
    *("a" * LONG, "7" * LONG, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"),
    *(10**30, -1, []),
)
type Operation = tuple[str, str, dict[str, Any]]


async def test_odd_ids_and_times_are_errors_of_the_caller(ada: User) -> None:
    async with ada.session.get("/v1/openapi.json") as answer:
        document = await answer.json()
    failures = []
    accepted: list[str] = []

    for method, path, operation in operations(document):
        for url, headers, body in odd_requests(document, path, operation, ada.cluster):
            async with ada.session.request(method, url, headers=headers, json=body, allow_redirects=False) as answer:
                if answer.status == 201 and path.endswith("/jobs/submit"):
                    accepted.append((await answer.json())["job_id"])
                if answer.status >= 500:
                    failures.append((method, url, headers, body, answer.status, await answer.text()))

    assert failures == []

    for job_id in accepted:
        await ada.cancel(job_id)


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def odd_requests(
    document: dict[str, Any], path: str, operation: dict[str, Any], cluster: str
) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Requests in which one part is odd: URL, headers, body."""
    usual = {"cluster_id": cluster, "job_id": "1"}
    parameters = {(p["in"], p["name"]) for p in operation["parameters"]}
    ids = {name: usual.get(name, "x") for place, name in parameters if place == "path"}
    plain = path.format(**ids)
    body: dict[str, Any] | None = None
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        schema = resolved(document, operation["requestBody"]["content"]["application/json"]["schema"])
        yield from ((plain, {}, odd) for odd in odd_bodies(document, schema))
        body = {}
    for name in ids:
        yield from ((path.format(**ids | {name: quote(odd, safe="")}), {}, body) for odd in ODD_IDS)
    for place, name in parameters:
        for odd in ODD_VALUES:
            if place == "query":
                yield f"{plain}?{name}={quote(odd, safe='')}", {}, body
            elif place == "header" and odd.isprintable():
                yield plain, {name: odd}, body


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def odd_bodies(document: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    base = {"script": "#!/bin/sh\nexit\n"} if "script" in schema.get("properties", {}) else {}
    for name, described in schema.get("properties", {}).items():
        inner = resolved(document, described)
        if "properties" in inner:
            for field in inner["properties"]:
                for odd in FEW_ODD_VALUES:
                    yield base | {name: {field: odd}}
        for odd in (*ODD_VALUES, *OTHER_TYPES):
            yield base | {name: odd}
