"""Compares two OpenAPI documents of the gateway: whether clients of the first go on to work with the second.

The contract is that of HTTP clients: they ignore fields that they do not know, send what was allowed, and read what was
promised.
"""

from collections.abc import Iterator
from typing import Any

from schema_compatibility import Schema, Schemas, unreadable

type Document = dict[str, Any]


def operations(document: Document) -> dict[str, dict[str, Any]]:
    """All operations, by names such as `GET /v1/clusters`."""
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def incompatible(before: Document, after: Document) -> dict[str, list[str]]:
    """What clients of `before` miss in `after`, by operation; empty if nothing."""
    found: dict[str, list[str]] = {}
    now = operations(after)
    for name, operation in operations(before).items():
        if problems := [*_of_operation(before, operation, after, now[name])] if name in now else ["it is gone"]:
            found[name] = problems
    return found


def _of_operation(before: Document, old: dict[str, Any], after: Document, new: dict[str, Any]) -> Iterator[str]:
    yield from _of_parameters(before, old, after, new)
    yield from _of_body(before, old, after, new)
    for status, response in old["responses"].items():
        if status == "default":
            continue
        if status not in new["responses"]:
            yield f"{status} is no longer answered"
            continue
        content = new["responses"][status].get("content", {})
        for kind, told in response.get("content", {}).items():
            if kind not in content:
                yield f"{kind} is no longer answered"
            elif "schema" in told and "schema" in content[kind]:
                # What the gateway writes now, clients read as before.
                yield from _differences((after, content[kind]["schema"]), (before, told["schema"]), "answer")
    if new.get("x-scope") != old.get("x-scope") and new.get("x-scope") is not None:
        yield f"it needs the scope {new['x-scope']}, and no longer {old.get('x-scope')}"
    if old.get("x-role") != new.get("x-role"):
        yield f"it needs the role {new.get('x-role')}, and no longer {old.get('x-role')}"


def _of_parameters(before: Document, old: dict[str, Any], after: Document, new: dict[str, Any]) -> Iterator[str]:
    known = {(each["in"], each["name"]): each for each in old["parameters"]}
    taken = {(each["in"], each["name"]): each for each in new["parameters"]}
    for where, name in known.keys() - taken.keys():
        yield f"the {where} parameter {name} is gone"
    for (where, name), parameter in taken.items():
        earlier = known.get((where, name))
        if parameter.get("required") and not (earlier or {}).get("required"):
            yield f"the {where} parameter {name} is required now"
        if earlier is not None:
            yield from _differences((before, earlier["schema"]), (after, parameter["schema"]), name)


def _of_body(before: Document, old: dict[str, Any], after: Document, new: dict[str, Any]) -> Iterator[str]:
    sent, taken = old.get("requestBody"), new.get("requestBody")
    if taken is not None and taken.get("required") and not (sent or {}).get("required"):
        yield "a body is required now"
    if sent is None:
        return
    if taken is None:
        yield "it takes no body any more"
        return
    for kind, told in sent["content"].items():
        if kind not in taken["content"]:
            yield f"it takes no {kind} any more"
        else:
            yield from _differences((before, told["schema"]), (after, taken["content"][kind]["schema"]), "body")


def _differences(written: tuple[Document, Schema], read: tuple[Document, Schema], name: str) -> list[str]:
    """Why what one side writes cannot be read by the other."""
    writer, reader = (
        Schemas({name: schema}, document["components"]["schemas"]) for document, schema in (written, read)
    )
    return unreadable(writer, reader)
