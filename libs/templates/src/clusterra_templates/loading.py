"""Reads definitions from YAML. Every error names the line.

The YAML is that of YAML 1.2: `no` is a text, `00:30:00` is one, and `007`, too. Aliases do not exist, so that a small
file cannot be a huge definition.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml
from clusterra_contracts.wrong_values import wrong_values
from pydantic import ValidationError

from clusterra_templates.definitions import DEFINITION, Definition, Runnable
from clusterra_templates.problems import TemplateInvalid
from clusterra_templates.sources import check_sources

MAX_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_ERRORS = 10

type Location = tuple[int | str, ...]


class _Loader(yaml.SafeLoader):
    """Only what YAML 1.2 takes for numbers, truth values and null."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as PyYAML has it


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"null|~|", ["n", "~", ""]),
    ("int", r"-?(0|[1-9][0-9]{0,18})", "-0123456789"),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", "-0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), list(_first))


@dataclass(frozen=True)
class Loaded:
    """A definition, and the lines of its parts."""

    definition: Definition
    lines: dict[Location, int]


def load(text: str) -> Definition:
    """Read a definition. Raises TemplateInvalid."""
    return load_with_lines(text).definition


def load_with_lines(text: str) -> Loaded:
    """Read a definition, and on which line each part begins. Raises TemplateInvalid."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise TemplateInvalid(f"a definition has at most {MAX_BYTES // 1024} KiB: keep large data in files")
    lines: dict[Location, int] = {}
    try:
        _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            content = _value(loader, node, (), lines) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise TemplateInvalid(f"it is no valid YAML: {error.problem}", line=mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, TemplateInvalid):
            raise
        raise TemplateInvalid(f"it is no valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise TemplateInvalid("a definition is an object with `id`, `name`, `kind` and more", line=1)
    return Loaded(checked(content, lines), lines)


def checked(content: dict[str, Any], lines: dict[Location, int] | None = None) -> Definition:
    """The definition of these values. Raises TemplateInvalid."""
    known = lines or {}
    try:
        definition: Definition = DEFINITION.validate_python(content)
    except ValidationError as error:
        raise _invalid(error, content, known) from None
    if isinstance(definition, Runnable):
        check_sources(definition, lambda *location: known.get(location, 1))
    return definition


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        at = event.start_mark.line + 1 if event.start_mark is not None else None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise TemplateInvalid("YAML's anchors and aliases do not exist here: write the value again", line=at)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise TemplateInvalid("it is nested too deep", line=at)


def _value(loader: _Loader, node: yaml.Node, location: Location, lines: dict[Location, int]) -> Any:
    at = node.start_mark.line + 1
    lines.setdefault(location, at)
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key: Hashable = loader.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise TemplateInvalid(f"the key {key!r} is no text: put it into quotes", line=line)
            if key in found:
                raise TemplateInvalid(f"there are two keys `{key}`", line=line)
            lines[*location, key] = line
            found[key] = _value(loader, value_node, (*location, key), lines)
            if isinstance(value_node, yaml.ScalarNode) and value_node.style in ("|", ">"):
                lines[*location, key] = value_node.start_mark.line + 2
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, each, (*location, index), lines) for index, each in enumerate(node.value)]
    if node.tag.startswith("!"):
        raise TemplateInvalid("YAML's tags do not exist here", line=at)
    return loader.construct_object(node)


def _invalid(error: ValidationError, content: dict[str, Any], lines: dict[Location, int]) -> TemplateInvalid:
    problems: list[tuple[int, str]] = []
    for each in wrong_values(error, content, most=MAX_ERRORS):
        known = each.place
        while known and known not in lines:
            known = known[:-1]
        reason = "is no key of this kind of definition" if each.kind == "extra_forbidden" else each.text
        problems.append((lines.get(known, 1), f"{each.path}: {reason}" if each.place else reason))
    problems.sort()
    first, *rest = problems
    return TemplateInvalid("; ".join([first[1], *(f"line {line}: {text}" for line, text in rest)]), line=first[0])
