"""Compares two OpenAPI documents of the gateway: whether clients of the first go on to work with the second.

The contract is that of HTTP clients: they ignore fields that they do not know, send what was allowed, and read what was
promised.
"""

from collections.abc import Iterator
from typing import Any

from schema_compatibility import Schema, Schemas, unreadable

type Document = dict[str, Any]
type Operation = dict[str, Any]

_OF_NAMES = ("properties", "patternProperties")
"""Keywords of a schema whose value has the names of fields."""


def operations(document: Document) -> dict[str, Operation]:
    """All operations, by names such as `GET /v1/clusters`."""
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def incompatible(before: Document, after: Document) -> dict[str, list[str]]:
    """What clients of `before` miss in `after`, by operation; empty if nothing."""
    found: dict[str, list[str]] = {}
    now, comparison = operations(after), _Comparison(before, after)
    for name, operation in operations(before).items():
        if problems := [*comparison.of_operation(operation, now[name])] if name in now else ["it is gone"]:
            found[name] = problems
    return found


class _Comparison:
    def __init__(self, before: Document, after: Document) -> None:
        self._sent, self._taken = before["components"]["schemas"], after["components"]["schemas"]
        self._read, self._written = _whole(self._sent, names=True), _whole(self._taken, names=True)

    def of_operation(self, old: Operation, new: Operation) -> Iterator[str]:
        yield from self._of_parameters(old, new)
        yield from self._of_body(old, new)
        yield from self._of_answers(old, new)
        if new["operationId"] != old["operationId"]:
            yield f"generated clients call it {old['operationId']}, and now {new['operationId']}"
        for right in ("x-role", "x-scope"):
            if new.get(right) != old.get(right):
                yield f"{right} is {new.get(right)}, and was {old.get(right)}"

    def _of_parameters(self, old: Operation, new: Operation) -> Iterator[str]:
        known = {(each["in"], each["name"]): each for each in old["parameters"]}
        taken = {(each["in"], each["name"]): each for each in new["parameters"]}
        for where, name in known.keys() - taken.keys():
            yield f"the {where} parameter {name} is gone"
        for (where, name), parameter in taken.items():
            earlier = known.get((where, name))
            if parameter.get("required") and not (earlier or {}).get("required"):
                yield f"the {where} parameter {name} is required now"
            if earlier is not None:
                yield from self._of_request(earlier["schema"], parameter["schema"], name)

    def _of_body(self, old: Operation, new: Operation) -> Iterator[str]:
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
                yield from self._of_request(told["schema"], taken["content"][kind]["schema"], "body")

    def _of_request(self, sent: Schema, taken: Schema, name: str) -> list[str]:
        return unreadable(Schemas({name: sent}, self._sent), Schemas({name: taken}, self._taken))

    def _of_answers(self, old: Operation, new: Operation) -> Iterator[str]:
        for status, response in old["responses"].items():
            # A refusal that is not listed is any other error.
            now = new["responses"].get("default" if status[0] == "4" and status not in new["responses"] else status)
            if now is None:
                yield f"{status} is no longer answered"
                continue
            content = now.get("content", {})
            for kind, told in response.get("content", {}).items():
                if kind not in content:
                    yield f"{kind} is no longer answered"
                elif "schema" in told and "schema" in content[kind]:
                    written = Schemas({status: _whole(content[kind]["schema"])}, self._written)
                    yield from unreadable(written, Schemas({status: _whole(told["schema"])}, self._read))


def _whole(schema: Any, *, names: bool = False) -> Any:
    """A copy in which every field is required: the gateway writes all fields of an answer, also those with defaults.

    `names`: the keys of this level are names of fields, no keywords.
    """
    if isinstance(schema, list):
        return [_whole(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {key: _whole(value, names=not names and key in _OF_NAMES) for key, value in schema.items()}
    required = {"required": sorted(copied["properties"])} if not names and "properties" in copied else {}
    return copied | required
