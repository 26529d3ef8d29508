"""Compares JSON schemas: whether everything that one release writes can be read by another.

The contract on both sides is that of the models: readers ignore unknown fields unless they forbid them, and writers
write all their fields.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_ONLY_READ = "x-only-read"
"""Marks a model that a release reads and never writes of its own."""
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


@dataclass(frozen=True)
class Schemas:
    """The schemas of all messages, by address, with the definitions they refer to."""

    messages: dict[str, Schema]
    definitions: dict[str, Schema]

    def resolve(self, schema: Schema) -> Schema:
        """The schema itself, or the definition that it refers to."""
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        return schema


def unreadable(written: Schemas, read: Schemas) -> list[str]:
    """Why messages of one release cannot be read by another; empty if all can. Names the paths of the fields."""
    problems = []
    for address, schema in written.messages.items():
        if address in read.messages:
            problems += _Comparison(written, read).problems(schema, read.messages[address], address)
    return problems


class _Comparison:
    def __init__(self, written: Schemas, read: Schemas) -> None:
        self._written = written
        self._read = read
        self._open: set[tuple[str, str]] = set()

    def problems(self, written: Schema, read: Schema, path: str) -> list[str]:
        pair = (str(written.get("$ref")), str(read.get("$ref")))
        if "None" not in pair:
            if pair in self._open:
                return []
            self._open.add(pair)
        found = self._of_alternatives(self._written.resolve(written), self._read.resolve(read), path)
        self._open.discard(pair)
        return found

    def _of_alternatives(self, written: Schema, read: Schema, path: str) -> list[str]:
        choices = [choice for choice in _alternatives(written) if not self._written.resolve(choice).get(_ONLY_READ)]
        readers = [reader for reader in _alternatives(read) if not self._read.resolve(reader).get(_ONLY_READ)]
        # Facts of kinds that a release does not know have a model that takes them all.
        tolerant = len(readers) < len(_alternatives(read))
        if len(choices) == len(readers) == 1:
            return self._of_one(self._written.resolve(choices[0]), self._read.resolve(readers[0]), path)
        found: list[str] = []
        for choice in choices:
            if tolerant and (known := self._known_kinds(choice, readers)) is not None:
                if not known:
                    continue
                fitting = [reader for reader in readers if known & self._kinds(self._read.resolve(reader))]
                found += [
                    problem
                    for reader in fitting
                    for problem in self.problems(choice, reader, path)
                    if not problem.startswith(f"{path}.kind: ")
                ]
                continue
            tried: list[list[str]] = [self.problems(choice, reader, path) for reader in readers]
            fewest = min(tried, key=len)
            found += fewest
        return found

    def _known_kinds(self, choice: Schema, readers: list[Schema]) -> set[str] | None:
        """Those kinds of a written fact that readers know; None for what has no kind."""
        kinds = self._kinds(self._written.resolve(choice))
        known = set().union(*(self._kinds(self._read.resolve(reader)) for reader in readers))
        return kinds & known if kinds else None

    def _kinds(self, schema: Schema) -> set[str]:
        return set(_values(schema.get("properties", {}).get("kind", {})) or ())

    def _of_one(self, written: Schema, read: Schema, path: str) -> list[str]:
        if (kind := read.get("type")) is not None and written.get("type") not in {
            kind,
            "integer" if kind == "number" else kind,
        }:
            return [f"{path}: {written.get('type', 'anything')} is written, {kind} is read"]
        return [
            *_of_values(written, read, path),
            *_of_bounds(written, read, path),
            *self._of_fields(written, read, path),
            *self._of_entries(written, read, path),
            *self._of_elements(written, read, path),
        ]

    def _of_fields(self, written: Schema, read: Schema, path: str) -> Iterator[str]:
        fields, known = written.get("properties", {}), read.get("properties", {})
        always = set(written.get("required", ()))
        for name in read.get("required", ()):
            if name not in fields:
                yield f"{path}.{name}: it is required and not written"
            elif name not in always:
                yield f"{path}.{name}: it is required and not always written"
        if read.get("additionalProperties") is False:
            for name in fields.keys() - known.keys():
                yield f"{path}.{name}: it is written and forbidden"
        for name in fields.keys() & known.keys():
            yield from self.problems(fields[name], known[name], f"{path}.{name}")

    def _of_entries(self, written: Schema, read: Schema, path: str) -> Iterator[str]:
        ours, theirs = _entries(written), _entries(read)
        if theirs is None or ours is None:
            return
        (pattern, value), (known_pattern, known_value) = ours, theirs
        if known_pattern not in {None, pattern}:
            yield f"{path}: the pattern of its keys differs"
        yield from self.problems(value, known_value, f"{path}[]")

    def _of_elements(self, written: Schema, read: Schema, path: str) -> Iterator[str]:
        if ("prefixItems" in written) != ("prefixItems" in read):
            yield f"{path}: one side has a tuple"
            return
        ours, theirs = written.get("prefixItems", []), read.get("prefixItems", [])
        if len(ours) != len(theirs):
            yield f"{path}: a tuple of {len(ours)} is written, one of {len(theirs)} is read"
        for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            yield from self.problems(one, other, f"{path}[{number}]")
        if isinstance(read.get("items"), dict) and isinstance(written.get("items"), dict):
            yield from self.problems(written["items"], read["items"], f"{path}[]")


def _alternatives(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _of_values(written: Schema, read: Schema, path: str) -> Iterator[str]:
    known = _values(read)
    if known is None:
        return
    values = _values(written)
    if values is None:
        yield f"{path}: any value is written, only {known} are read"
    elif new := [value for value in values if value not in known]:
        yield f"{path}: {new} are written and unknown"


def _of_bounds(written: Schema, read: Schema, path: str) -> Iterator[str]:
    for name in _LOWER:
        if name in read and written.get(name, float("-inf")) < read[name]:
            yield f"{path}: {name} {read[name]} is not kept"
    for name in _UPPER:
        if name in read and written.get(name, float("inf")) > read[name]:
            yield f"{path}: {name} {read[name]} is not kept"
    if "pattern" in read and written.get("pattern") != read["pattern"]:
        yield f"{path}: the pattern {read['pattern']} is not kept"


def _entries(schema: Schema) -> tuple[str | None, Schema] | None:
    """The pattern of a mapping's keys, and the schema of its values; None for what is no mapping."""
    if patterns := schema.get("patternProperties"):
        ((pattern, value),) = patterns.items()
        return pattern, value
    value = schema.get("additionalProperties")
    return (None, value) if isinstance(value, dict) else None
