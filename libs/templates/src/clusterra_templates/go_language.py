"""Reads the part of Go's template language that definitions of version 2 use, so that these render here, too.

Actions: a value, `if`, `else if`, `else`, `range`, `end`, comments, variables, and `{{-` `-}}`, which remove spaces.
A missing key is an error. The functions are in `go_functions`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_templates.problems import TemplateInvalid

MAX_DEPTH = 20
"""How deep blocks and parentheses may be nested."""

_TRIMS_BEFORE, _TRIMS_AFTER = re.compile(r"-\s"), re.compile(r"\s-")
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<variable>\$[A-Za-z_0-9]*)|(?P<field>\.[A-Za-z_][A-Za-z_0-9]*)|(?P<dot>\.)"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>:=|=|[|(),]))"
)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Path:
    """Fields of the present value (`start` is empty), of a variable (`$x`), or of a pipeline."""

    start: "str | Pipeline"
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A function with its arguments; or one value, without a function."""

    function: str | None
    arguments: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which gets the result of the one before as its last argument."""

    commands: tuple[Command, ...]


type Expression = Literal | Path | Pipeline


@dataclass(frozen=True, slots=True)
class Output:
    """Writes a value."""

    pipeline: Pipeline
    line: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """Sets a variable."""

    variable: str
    pipeline: Pipeline
    line: int
    declares: bool


@dataclass(frozen=True, slots=True)
class If:
    """Goes on with the first block whose condition is true."""

    branches: "tuple[tuple[Pipeline, Block], ...]"
    otherwise: "Block"
    line: int


@dataclass(frozen=True, slots=True)
class Range:
    """Repeats a block for each item."""

    variables: tuple[str, ...]
    pipeline: Pipeline
    block: "Block"
    otherwise: "Block"
    line: int


type Node = str | Output | Assignment | If | Range
type Block = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class _Action:
    text: str
    line: int


def parse(source: str, line: int = 1) -> Block:
    """The nodes of a template that starts on this line of the definition. Raises TemplateInvalid."""
    parts = list(_parts(source, line))
    block, rest, ended_by = _block(parts, 0, 0)
    if ended_by is not None:
        raise TemplateInvalid(f"`{ended_by.text}` without an `if` or `range` before it", line=ended_by.line)
    assert rest == len(parts)  # noqa: S101 - without an end, all parts are read
    return block


def _parts(source: str, line: int) -> Iterator[str | _Action]:
    at, trims = 0, False
    # Looked for one after the other: a regular expression would read on to the end for each `{{` without its `}}`.
    while (begin := source.find("{{", at)) >= 0:
        end = source.find("}}", begin + 2)
        if end < 0:
            raise TemplateInvalid("`{{` without `}}`", line=line + source.count("\n", 0, begin))
        text, inner = source[at:begin], source[begin + 2 : end]
        if trims:
            text = text.lstrip()
        if _TRIMS_BEFORE.match(inner):
            text, inner = text.rstrip(), inner[2:]
        if text:
            yield text
        at, trims = end + 2, _TRIMS_AFTER.fullmatch(inner[-2:]) is not None
        inner = (inner[:-2] if trims else inner).strip()
        if not (inner.startswith("/*") and inner.endswith("*/")):
            yield _Action(inner, line + source.count("\n", 0, begin))
    rest = source[at:].lstrip() if trims else source[at:]
    if rest:
        yield rest


def _block(parts: list[str | _Action], at: int, depth: int) -> tuple[Block, int, _Action | None]:
    """The nodes up to an `else` or `end` of this block, the place after it, and that action."""
    nodes: list[Node] = []
    while at < len(parts):
        part = parts[at]
        at += 1
        if isinstance(part, str):
            nodes.append(part)
            continue
        keyword = part.text.split(None, 1)[0] if part.text else ""
        if depth > MAX_DEPTH:
            raise TemplateInvalid("blocks are nested too deep", line=part.line)
        match keyword:
            case "end" | "else":
                return tuple(nodes), at, part
            case "if":
                node, at = _if(parts, at, part, depth)
                nodes.append(node)
            case "range":
                node, at = _range(parts, at, part, depth)
                nodes.append(node)
            case "with" | "template" | "block" | "define" | "break" | "continue":
                raise TemplateInvalid(f"`{keyword}` does not exist here: use if and range", line=part.line)
            case _:
                nodes.append(_simple(part))
    return tuple(nodes), at, None


def _if(parts: list[str | _Action], at: int, start: _Action, depth: int) -> tuple[Node, int]:
    branches: list[tuple[Pipeline, Block]] = []
    condition = start.text.removeprefix("if")
    while True:
        block, at, ended_by = _block(parts, at, depth + 1)
        branches.append((_pipeline(condition, start.line), block))
        if ended_by is None:
            raise TemplateInvalid("an `if` without an `end`", line=start.line)
        if ended_by.text == "end":
            return If(tuple(branches), (), start.line), at
        if ended_by.text == "else":
            otherwise, at, last = _block(parts, at, depth + 1)
            if last is None or last.text != "end":
                raise TemplateInvalid("an `else` without an `end`", line=ended_by.line)
            return If(tuple(branches), otherwise, start.line), at
        condition = ended_by.text.removeprefix("else").strip()
        if not condition.startswith("if"):
            raise TemplateInvalid("after `else` comes `if` or nothing", line=ended_by.line)
        condition = condition.removeprefix("if")


def _range(parts: list[str | _Action], at: int, start: _Action, depth: int) -> tuple[Node, int]:
    wanted = start.text.removeprefix("range")
    names, sign, rest = wanted.partition(":=")
    variables = tuple(name.strip() for name in names.split(",")) if sign else ()
    if len(variables) > 2 or not all(re.fullmatch(r"\$[A-Za-z_]\w*", name) for name in variables):
        raise TemplateInvalid("`range` has at most two variables, such as `$i, $each`", line=start.line)
    block, at, ended_by = _block(parts, at, depth + 1)
    otherwise: Block = ()
    if ended_by is not None and ended_by.text == "else":
        otherwise, at, ended_by = _block(parts, at, depth + 1)
    if ended_by is None or ended_by.text != "end":
        raise TemplateInvalid("a `range` without an `end`", line=start.line)
    return Range(variables, _pipeline(rest if sign else wanted, start.line), block, otherwise, start.line), at


def _simple(action: _Action) -> Node:
    match = re.match(r"(\$[A-Za-z_]\w*)\s*(:?=)", action.text)
    if match is None:
        return Output(_pipeline(action.text, action.line), action.line)
    pipeline = _pipeline(action.text[match.end() :], action.line)
    return Assignment(match.group(1), pipeline, action.line, declares=match.group(2) == ":=")


def _pipeline(text: str, line: int) -> Pipeline:
    tokens: list[tuple[str, str]] = []
    at, text = 0, text.strip()
    spaced: list[bool] = []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise TemplateInvalid(f"{text[at : at + 20]!r} cannot be read", line=line)
        kind = match.lastgroup or ""
        spaced.append(match.start(kind) > at)
        tokens.append((kind, match.group(kind)))
        at = match.end()
    reader = _Reader(tokens, spaced, line)
    found = reader.pipeline(0)
    reader.expect_end()
    return found


class _Reader:
    """Reads the tokens of one action."""

    def __init__(self, tokens: list[tuple[str, str]], spaced: list[bool], line: int) -> None:
        self._tokens = tokens
        self._spaced = spaced
        self._line = line
        self._at = 0

    def pipeline(self, depth: int) -> Pipeline:
        if depth > MAX_DEPTH:
            raise self._wrong("parentheses are nested too deep")
        commands = [self._command(depth)]
        while self._peek() == ("sign", "|"):
            self._at += 1
            commands.append(self._command(depth))
            if commands[-1].function is None:
                raise self._wrong("after `|` comes a function")
        return Pipeline(tuple(commands))

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._tokens[self._at][1]!r} is not expected here")

    def _command(self, depth: int) -> Command:
        kind, text = self._peek()
        function = None
        if kind == "word" and text not in ("true", "false", "nil"):
            function = text
            self._at += 1
        arguments: list[Expression] = []
        while (token := self._peek()) != ("", "") and token not in (("sign", "|"), ("sign", ")")):
            arguments.append(self._operand(depth))
        if function is None and len(arguments) != 1:
            raise self._wrong("an action needs one value, or a function and its arguments")
        return Command(function, tuple(arguments))

    def _operand(self, depth: int) -> Expression:
        kind, text = self._peek()
        self._at += 1
        match kind:
            case "text":
                return Literal(text[1:-1] if text[0] == "`" else self._unescaped(text[1:-1]))
            case "number":
                return Literal(float(text) if "." in text else int(text[:20]))
            case "variable":
                return Path(text, self._fields())
            case "field":
                return Path("", (text[1:], *self._fields()))
            case "dot":
                return Path("", ())
            case "word" if text in ("true", "false", "nil"):
                return Literal({"true": True, "false": False}.get(text))
            case "word":
                return Pipeline((Command(text, ()),))
            case "sign" if text == "(":
                inner = self.pipeline(depth + 1)
                if self._peek() != ("sign", ")"):
                    raise self._wrong("`(` without `)`")
                self._at += 1
                return Path(inner, self._fields())
            case _:
                raise self._wrong(f"{text or 'the end'!r} is not expected here")

    def _fields(self) -> tuple[str, ...]:
        """The fields that follow without a space."""
        found: list[str] = []
        while self._peek()[0] == "field" and not self._spaced[self._at]:
            found.append(self._peek()[1][1:])
            self._at += 1
        return tuple(found)

    def _unescaped(self, text: str) -> str:
        def character(match: re.Match[str]) -> str:
            if match.group(1) not in _ESCAPES:
                raise self._wrong(f"the escape {match.group(0)} cannot be read")
            return _ESCAPES[match.group(1)]

        return re.sub(r"\\(.)", character, text)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _wrong(self, reason: str) -> TemplateInvalid:
        return TemplateInvalid(reason, line=self._line)
