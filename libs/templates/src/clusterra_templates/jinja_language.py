"""The language of our own definitions: a small part of Jinja, in its sandbox.

There are `{{ expression }}`, `{% if %}`, `{% for %}`, `{% set name = expression %}`, fields, `range`, and the filters
below, and comments `{## ##}`. There are no macros, no includes, no calls of methods. A name or a field that does not
exist is an error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, override

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clusterra_templates.jinja_bounds import bounding, size_of
from clusterra_templates.pieces import Authored, Piece, Placed, RenderBounds, Text, Value, bounded, replaced, shown
from clusterra_templates.problems import RenderRefused, TemplateInvalid
from clusterra_templates.references import jinja_references

MAX_DEPTH = 12
"""How deep blocks and expressions may be nested."""
MAX_NODES = 20_000
MAX_NUMBER = 10**15
MAX_RANGE = 10_000

_BEGIN, _END = "\ue000", "\ue001"
_MARK = re.compile(f"{_BEGIN}([0-9]+){_END}")

_STATEMENTS = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign)
_EXPRESSIONS = (
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test),
    *(nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Call, nodes.Keyword),
)
_TESTS = frozenset({"defined", "undefined", "none", "number", "string", "mapping", "sequence", "even", "odd", "in"})


class _Json(str):
    """A value as JSON."""

    __slots__ = ()


class _Words(tuple[str, ...]):
    """Several words, each a value of its own."""

    __slots__ = ()


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RenderRefused("a filter needs a number")
    try:
        return int(value) if isinstance(value, int) or re.fullmatch(r"-?\d{1,15}", str(value)) else float(value)
    except ValueError:
        raise RenderRefused(f"{value!r} is no number") from None


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise RenderRefused("a filter needs text or a number: name one field of the value")
    return shown(value)


def _words(value: Any) -> _Words:
    return _Words(_text(each) for each in value) if isinstance(value, list | tuple) else _Words(_text(value).split())


def _joined(value: Any, separator: str = " ") -> str:
    if not isinstance(value, list | tuple):
        raise RenderRefused("`join` needs a list")
    texts, between = list(map(_text, value)), str(separator)
    bounded(sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _replaced(value: Any, old: str, new: str) -> str:
    if not old or len(new) > 1000:
        raise RenderRefused("`replace` needs some text to replace, and at most 1000 characters in its place")
    return replaced(_text(value), str(old), str(new))


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "int": lambda value: int(_number(value)),
    "float": lambda value: float(_number(value)),
    "round": lambda value, digits=0: round(float(_number(value)), int(digits)) if digits else round(_number(value)),
    "length": lambda value: len(value) if isinstance(value, str | list | tuple | dict) else len(_text(value)),
    "min": lambda value: min(map(_number, value)),
    "max": lambda value: max(map(_number, value)),
    "lower": lambda value: _text(value).lower(),
    "upper": lambda value: _text(value).upper(),
    "trim": lambda value: _text(value).strip(),
    "basename": lambda value: _text(value).rstrip("/").rpartition("/")[2],
    "stem": lambda value: _text(value).rstrip("/").rpartition("/")[2].partition(".")[0],
    "lines": lambda value: [line for line in _text(value).split("\n") if line.strip()],
    "replace": _replaced,
    "join": _joined,
    "words": _words,
    "json": lambda value: _Json(shown([value])[1:-1]),
    "items": lambda value: sorted(value.items()),
}
"""All filters. `words` makes several words of a text or a list; each is quoted."""


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    @override
    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for each in (left, right):
            if isinstance(each, bool) or not isinstance(each, int | float) or abs(each) > MAX_NUMBER:
                raise RenderRefused(f"`{operator}` takes two numbers of at most {MAX_NUMBER}: place texts side by side")
        try:
            return super().call_binop(context, operator, left, right)
        except ZeroDivisionError:
            raise RenderRefused(f"`{operator}` divides by zero") from None


class JinjaTemplate:
    """A parsed template. It can be rendered any number of times, by several threads at once."""

    def __init__(self, source: str, *, line: int = 1) -> None:
        """`line` is the line of the definition on which the template starts. Raises TemplateInvalid."""
        if _BEGIN in source or _END in source:
            raise TemplateInvalid("the template has a character of a private area: remove it", line=line)
        self._source = source
        environment = _environment(RenderBounds(), [])
        try:
            tree = environment.parse(source)
        except TemplateError as error:
            raise TemplateInvalid(
                f"it is no valid Jinja: {error.message}", line=line + getattr(error, "lineno", 1) - 1
            ) from None
        except RecursionError:
            raise TemplateInvalid("the template is nested too deep", line=line) from None
        except ValueError:
            raise TemplateInvalid("the template has a number that is too long", line=line) from None
        _check(tree, line)
        self.references = tuple(jinja_references(tree, line))
        """The values that it names."""
        try:
            environment.compile(bounding(tree))
        except (TemplateError, SyntaxError, RecursionError, MemoryError) as error:
            raise TemplateInvalid(f"it is no valid Jinja: {error}", line=line) from None

    def pieces(self, names: Mapping[str, Value], bounds: RenderBounds) -> list[Piece]:
        """Renders it. Raises RenderRefused."""
        values: list[Placed] = []
        environment = _environment(bounds, values)
        tree = bounding(environment.parse(self._source))
        template = environment.template_class.from_code(environment, environment.compile(tree), environment.globals)
        written: list[str] = []
        try:
            written.extend(bounds.write(part) for part in template.generate(dict(names)))
        except (TemplateError, SecurityError) as error:
            raise RenderRefused(f"the template cannot be rendered: {error.message}") from None
        except (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError) as error:
            if isinstance(error, RenderRefused):
                raise
            raise RenderRefused(f"the template cannot be rendered: {error}") from None
        pieces: list[Piece] = []
        for index, part in enumerate(_MARK.split("".join(written))):
            pieces.append(values[int(part)] if index % 2 else Text(part))
        return pieces


def _environment(bounds: RenderBounds, values: list[Placed]) -> _Environment:
    def finalize(value: Any) -> str:
        if isinstance(value, _Words):
            return " ".join(_marked(values, Placed(bounds.write(word))) for word in value)
        if isinstance(value, StrictUndefined):
            value._fail_with_undefined_error()
        if isinstance(value, tuple):
            value = list(value)
        text, own = bounds.write(shown(value)), isinstance(value, Authored)
        return _marked(values, Placed(text, is_json=isinstance(value, _Json), authored=own))

    environment = _Environment(
        undefined=StrictUndefined,
        finalize=finalize,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Not `{#`, with which `${#name}` would begin a comment.
        comment_start_string="{##",
        comment_end_string="##}",
        cache_size=0,
        optimized=False,
    )

    def counted(items: Any) -> Iterator[Any]:
        if not isinstance(items, Iterable) or isinstance(items, str):
            raise RenderRefused("a `for` needs a list")
        for item in items:
            bounds.step()
            yield item

    def listed[L: (list[Any], tuple[Any, ...])](items: L) -> L:
        bounds.in_time()
        bounded(size_of(items))
        return items

    def in_time(filter_: Callable[..., Any]) -> Callable[..., Any]:
        def filtered(*arguments: Any, **named: Any) -> Any:
            bounds.in_time()
            return filter_(*arguments, **named)

        return filtered

    filters = {name: in_time(each) for name, each in _FILTERS.items()}
    environment.filters = {**filters, "counted": counted, "listed": listed}
    environment.tests = {name: test for name, test in environment.tests.items() if name in _TESTS}
    environment.globals = {"range": _range}
    return environment


def _marked(values: list[Placed], value: Placed) -> str:
    values.append(value)
    return f"{_BEGIN}{len(values) - 1}{_END}"


def _range(*limits: int) -> range:
    found = range(*limits)
    if len(found) > MAX_RANGE:
        raise RenderRefused(f"`range` gives at most {MAX_RANGE} numbers")
    return found


def _check(tree: nodes.Template, line: int) -> None:
    """Raises TemplateInvalid for what does not belong to the language, and for what is too large."""
    left = MAX_NODES
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        at = line + max(node.lineno or 1, 1) - 1
        left -= 1
        if left < 0 or depth > 4 * MAX_DEPTH:
            raise TemplateInvalid("the template is too large, or nested too deep", line=at)
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
            raise TemplateInvalid(
                f"Jinja's {type(node).__name__} does not exist in templates of jobs: use if, for, set and filters",
                line=at,
            )
        match node:
            case nodes.Name() if node.ctx != "load" and node.name == "range":
                raise TemplateInvalid("`range` is a function: give the name to nothing else", line=at)
            case nodes.Call() if not (isinstance(node.node, nodes.Name) and node.node.name == "range"):
                raise TemplateInvalid("a template calls nothing but `range`", line=at)
            case nodes.Filter() if node.name not in _FILTERS:
                raise TemplateInvalid(f"there is no filter `{node.name}`: use {', '.join(_FILTERS)}", line=at)
            case nodes.Test() if node.name not in _TESTS:
                raise TemplateInvalid(f"there is no test `{node.name}`: use {', '.join(sorted(_TESTS))}", line=at)
            case nodes.For() if node.recursive:
                raise TemplateInvalid("a `for` cannot be recursive", line=at)
            case nodes.Name() | nodes.Getattr() if str(getattr(node, "attr", getattr(node, "name", ""))).startswith(
                "_"
            ):
                raise TemplateInvalid("no name begins with `_`", line=at)
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())
