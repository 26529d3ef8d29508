"""Renders templates in Go's language."""

from collections.abc import Iterator, Mapping

from clusterra_templates.go_functions import FUNCTIONS, Quoted, is_true
from clusterra_templates.go_language import (
    Assignment,
    Block,
    Command,
    Expression,
    If,
    Literal,
    Node,
    Output,
    Path,
    Pipeline,
    Range,
    parse,
)
from clusterra_templates.pieces import Authored, Piece, Placed, RenderBounds, Text, Value, shown
from clusterra_templates.problems import RenderRefused, TemplateInvalid
from clusterra_templates.references import Reference, go_references


class GoTemplate:
    """A parsed template. It can be rendered any number of times."""

    def __init__(self, source: str, *, line: int = 1) -> None:
        """`line` is the line of the definition on which the template starts. Raises TemplateInvalid."""
        self._block = parse(source, line)
        for function, at in _functions(self._block):
            if function not in FUNCTIONS:
                raise TemplateInvalid(f"there is no function `{function}`: use {', '.join(FUNCTIONS)}", line=at)

    @property
    def references(self) -> tuple[Reference, ...]:
        """The values that it names."""
        return tuple(go_references(self._block))

    def pieces(self, names: Mapping[str, Value], bounds: RenderBounds) -> list[Piece]:
        """Renders it. Raises RenderRefused."""
        rendering = _Rendering(dict(names), bounds)
        rendering.block(self._block, dict(names), {"$": dict(names)})
        return rendering.pieces


class _Rendering:
    def __init__(self, names: dict[str, Value], bounds: RenderBounds) -> None:
        self._names = names
        self._bounds = bounds
        self.pieces: list[Piece] = []

    def block(self, block: Block, dot: Value, variables: dict[str, Value]) -> None:
        """Renders a block. Variables that it declares end with it; those that it sets do not."""
        inner = dict(variables)
        declared: set[str] = set()
        for node in block:
            self._bounds.step()
            self._node(node, dot, inner, declared)
        variables.update({name: inner[name] for name in variables if name not in declared})

    def _node(self, node: Node, dot: Value, variables: dict[str, Value], declared: set[str]) -> None:
        match node:
            case str():
                self.pieces.append(Text(self._bounds.write(node)))
            case Output():
                self._output(_evaluated(node.pipeline, dot, variables, node.line))
            case Assignment():
                value = _evaluated(node.pipeline, dot, variables, node.line)
                if not node.declares and node.variable not in variables:
                    raise RenderRefused(f"line {node.line}: there is no variable {node.variable}")
                if node.declares:
                    declared.add(node.variable)
                variables[node.variable] = value
            case If():
                for condition, block in node.branches:
                    if is_true(_evaluated(condition, dot, variables, node.line)):
                        self.block(block, dot, variables)
                        return
                self.block(node.otherwise, dot, variables)
            case Range():
                self._range(node, dot, variables)

    def _range(self, node: Range, dot: Value, variables: dict[str, Value]) -> None:
        over = _evaluated(node.pipeline, dot, variables, node.line)
        items: list[tuple[Value, Value]]
        match over:
            case list():
                items = list(enumerate(over))
            case dict():
                items = sorted(over.items())
            case None:
                items = []
            case _:
                raise RenderRefused(f"line {node.line}: range needs a list or an object")
        if not items:
            self.block(node.otherwise, dot, variables)
        for key, item in items:
            self._bounds.step()
            inner = dict(variables)
            own: dict[str, Value] = dict(zip(node.variables[-1:], (item,), strict=False))
            if len(node.variables) == 2:
                own[node.variables[0]] = key
            inner.update(own)
            self.block(node.block, item, inner)
            variables.update({name: inner[name] for name in variables if name not in own})

    def _output(self, value: Value) -> None:
        if isinstance(value, Quoted):
            self.pieces += [Text('"'), Placed(self._bounds.write(str(value)), escaped=True), Text('"')]
        else:
            text, own = self._bounds.write(shown(value)), isinstance(value, Authored)
            self.pieces.append(Placed(text, vanishes=True, authored=own))


def _evaluated(pipeline: Pipeline, dot: Value, variables: Mapping[str, Value], line: int) -> Value:
    try:
        return _pipeline(pipeline, dot, variables)
    except RenderRefused as error:
        raise RenderRefused(f"line {line}: {error}") from None


def _pipeline(pipeline: Pipeline, dot: Value, variables: Mapping[str, Value]) -> Value:
    piped: tuple[Value, ...] = ()
    for command in pipeline.commands:
        arguments = (*(_operand(each, dot, variables) for each in command.arguments), *piped)
        piped = (_called(command, arguments),)
    return piped[0]


def _called(command: Command, arguments: tuple[Value, ...]) -> Value:
    if command.function is None:
        return arguments[0]
    try:
        return FUNCTIONS[command.function](*arguments)
    except (TypeError, IndexError):
        raise RenderRefused(f"{command.function}: these are not its arguments") from None


def _operand(expression: Expression, dot: Value, variables: Mapping[str, Value]) -> Value:
    match expression:
        case Literal():
            return expression.value
        case Pipeline():
            return _pipeline(expression, dot, variables)
        case Path(start=str(start)):
            if start and start not in variables:
                raise RenderRefused(f"there is no variable {start}")
            value = variables[start] if start else dot
        case Path(start=Pipeline() as inner):
            value = _pipeline(inner, dot, variables)
    shown_path = expression.start if isinstance(expression.start, str) else "(...)"
    for name in expression.fields:
        shown_path += f".{name}"
        if not isinstance(value, dict) or name not in value:
            raise RenderRefused(f"{shown_path} does not exist")
        value = value[name]
    return value


def _functions(block: Block) -> Iterator[tuple[str, int]]:
    """Every function that a block calls, with its line."""
    for node in block:
        match node:
            case Output() | Assignment():
                yield from ((name, node.line) for name in _called_by(node.pipeline))
            case If():
                for condition, inner in node.branches:
                    yield from ((name, node.line) for name in _called_by(condition))
                    yield from _functions(inner)
                yield from _functions(node.otherwise)
            case Range():
                yield from ((name, node.line) for name in _called_by(node.pipeline))
                yield from _functions(node.block)
                yield from _functions(node.otherwise)


def _called_by(pipeline: Pipeline) -> Iterator[str]:
    for command in pipeline.commands:
        if command.function is not None:
            yield command.function
        for each in command.arguments:
            if isinstance(each, Pipeline):
                yield from _called_by(each)
            elif isinstance(each, Path) and isinstance(each.start, Pipeline):
                yield from _called_by(each.start)
