"""Which values a template names, such as `params.size`, so that a misspelt one is found when its author adds it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from jinja2 import nodes

from clusterra_templates.go_language import Assignment, Block, Expression, If, Output, Path, Pipeline, Range
from clusterra_templates.problems import TemplateInvalid, nearest


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that a template names: `group` is `params`, `inputs` or another object, `key` the value in it."""

    group: str
    key: str
    line: int


def check_references(references: Collection[Reference], known: Mapping[str, Collection[str]]) -> None:
    """Raises TemplateInvalid for a key that its group does not have. A group that is not `known` may have any."""
    for each in references:
        keys = known.get(each.group)
        if keys is not None and each.key not in keys:
            raise TemplateInvalid(
                f"there is no {each.group}.{each.key[:100]}: {nearest(each.key, keys)}", line=each.line
            )


def go_references(block: Block, *, dot_is_all: bool = True) -> Iterator[Reference]:
    """The values that a block in Go's language names. Within `range`, the dot is an item: `dot_is_all` is false."""
    for node in block:
        match node:
            case Output() | Assignment():
                yield from _of_go(node.pipeline, dot_is_all, node.line)
            case If():
                for condition, inner in node.branches:
                    yield from _of_go(condition, dot_is_all, node.line)
                    yield from go_references(inner, dot_is_all=dot_is_all)
                yield from go_references(node.otherwise, dot_is_all=dot_is_all)
            case Range():
                yield from _of_go(node.pipeline, dot_is_all, node.line)
                yield from go_references(node.block, dot_is_all=False)
                yield from go_references(node.otherwise, dot_is_all=dot_is_all)


def _of_go(expression: Expression, dot_is_all: bool, line: int) -> Iterator[Reference]:
    match expression:
        case Pipeline():
            for command in expression.commands:
                for each in command.arguments:
                    yield from _of_go(each, dot_is_all, line)
        case Path(start=Pipeline() as inner):
            yield from _of_go(inner, dot_is_all, line)
        case Path(start=start, fields=(group, key, *_)) if start == "$" or (start == "" and dot_is_all):
            yield Reference(group, key, line)


def jinja_references(tree: nodes.Template, line: int) -> Iterator[Reference]:
    """The values that a template in Jinja names. One that it asks for with `is defined` may be missing."""
    own = {each.name for each in tree.find_all(nodes.Name) if each.ctx != "load"}
    asked = {
        id(inner)
        for test in tree.find_all(nodes.Test)
        if test.name in ("defined", "undefined")
        for inner in (test.node, *test.node.find_all(nodes.Getattr))
    }
    fields: tuple[nodes.Getattr | nodes.Getitem, ...] = (
        *tree.find_all(nodes.Getattr),
        *tree.find_all(nodes.Getitem),
    )
    for each in fields:
        group, key = each.node, each.attr if isinstance(each, nodes.Getattr) else _constant(each.arg)
        if id(each) in asked or key is None or not isinstance(group, nodes.Name) or group.name in own:
            continue
        yield Reference(group.name, key, line + max(each.lineno or 1, 1) - 1)


def _constant(argument: nodes.Node) -> str | None:
    return argument.value if isinstance(argument, nodes.Const) and isinstance(argument.value, str) else None
