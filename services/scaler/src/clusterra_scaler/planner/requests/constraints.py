"""Slurm's constraint expressions (`sbatch --constraint`): of the features of one node, and of all nodes of a job."""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

type Constraint = Callable[[Collection[str]], bool]
"""Whether a node with these features may run the job."""
type Layout = tuple[tuple[str, int], ...]
"""How many nodes with which constraint a job needs, such as `(("general", 2), ("compute", 1))`."""

_TOKEN = re.compile(r"\s*([A-Za-z0-9_.=+:/-]+|[&|,()\[\]*])")


class UnreadableConstraint(ValueError):
    """The expression is none, or asks for what cannot be asked of a node."""


@dataclass(frozen=True, slots=True)
class _Feature:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Joined:
    """Two expressions with a `&` or `|` between them."""

    left: "_Expression"
    operator: Literal["&", "|"]
    right: "_Expression"

    def __str__(self) -> str:
        return f"({self.left}{self.operator}{self.right})"


@dataclass(frozen=True, slots=True)
class _Bracket:
    """`[...]`: alternatives of which all nodes of a job have the same, or counts."""

    inner: "_Expression"

    def __str__(self) -> str:
        return f"[{self.inner}]"


@dataclass(frozen=True, slots=True)
class _Counted:
    """So many nodes of a job: `general*2`."""

    inner: "_Expression"
    nodes: int

    def __str__(self) -> str:
        return f"{self.inner}*{self.nodes}"


type _Expression = _Feature | _Joined | _Bracket | _Counted


@lru_cache(maxsize=1024)
def parse(expression: str) -> Constraint:
    """Read what is asked of one node: names, `&` (or `,`), `|`, parentheses and brackets.

    Raises UnreadableConstraint, also for counts of nodes: `layouts` tells what they ask of each.
    """
    if not expression.strip():
        return lambda features: True
    return _predicate(_read(expression))


@lru_cache(maxsize=1024)
def layouts(expression: str, nodes: int) -> tuple[Layout, ...]:
    """What is asked of the nodes of a job that needs this many, at least one alternative. Raises UnreadableConstraint.

    `[a*2&b*1]` are two nodes with `a` and one with `b`, also where the job did not ask for three. Nodes beyond the
    counted ones need what is asked without a count, and within brackets what is asked of any counted one.
    `[a|b]` are nodes that all have `a`, or all `b`.
    """
    if not expression.strip():
        return ((("", nodes),),)
    whole = _read(expression)
    if nodes > 1 and isinstance(whole, _Bracket) and not _counts(whole):
        return tuple(((_text(each), nodes),) for each in _operands(whole.inner, "|"))
    asked = list(_operands(whole.inner if isinstance(whole, _Bracket) else whole, "&"))
    counted = [each for each in asked if isinstance(each, _Counted)]
    plain = [each for each in asked if not isinstance(each, _Counted)]
    if not counted:
        parse(expression)
        return (((expression.strip(), nodes),),)
    layout = [("&".join(_text(each) for each in (count.inner, *plain)), count.nodes) for count in counted]
    rest = nodes - sum(count.nodes for count in counted)
    if rest > 0:
        any_counted = (
            ["(" + "|".join(str(count.inner) for count in counted) + ")"] if isinstance(whole, _Bracket) else []
        )
        layout.append(("&".join([*any_counted, *map(_text, plain)]), rest))
    for text, _ in layout:
        parse(text)
    return (tuple(layout),)


def _text(expression: _Expression) -> str:
    text = str(expression)
    return text[1:-1] if isinstance(expression, _Joined) and expression.operator == "&" else text


def _operands(expression: _Expression, operator: str) -> Iterator[_Expression]:
    if isinstance(expression, _Joined) and expression.operator == operator:
        yield from chain(_operands(expression.left, operator), _operands(expression.right, operator))
    else:
        yield expression


def _counts(expression: _Expression) -> bool:
    match expression:
        case _Counted():
            return True
        case _Bracket(inner):
            return _counts(inner)
        case _Joined(left, _, right):
            return _counts(left) or _counts(right)
        case _Feature():
            return False


def _predicate(expression: _Expression) -> Constraint:
    match expression:
        case _Feature(name):
            return lambda features: name in features
        case _Bracket(inner):
            return _predicate(inner)
        case _Joined(left, operator, right):
            first, second = _predicate(left), _predicate(right)
            if operator == "&":
                return lambda features: first(features) and second(features)
            return lambda features: first(features) or second(features)
        case _Counted():
            raise UnreadableConstraint(f"{str(expression)!r} counts nodes where only features can stand")


def _read(expression: str) -> _Expression:
    tokens = _tokens(expression)
    whole = _sequence(tokens, expression)
    if tokens:
        raise UnreadableConstraint(f"{expression!r} cannot be read from {tokens[0]!r} on")
    return whole


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableConstraint(f"{expression!r} holds {text[position]!r}, which is no part of a constraint")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _sequence(tokens: list[str], expression: str) -> _Expression:
    """From left to right, as Slurm reads `a|b&c`."""
    whole = _term(tokens, expression)
    while tokens and tokens[0] in "&,|":
        operator: Literal["&", "|"] = "|" if tokens.pop(0) == "|" else "&"
        whole = _Joined(whole, operator, _term(tokens, expression))
    return whole


def _term(tokens: list[str], expression: str) -> _Expression:
    if not tokens:
        raise UnreadableConstraint(f"{expression!r} ends where a feature is expected")
    word = tokens.pop(0)
    term: _Expression
    if word in ("(", "["):
        inner = _sequence(tokens, expression)
        closing = ")" if word == "(" else "]"
        if not tokens or tokens.pop(0) != closing:
            raise UnreadableConstraint(f"{expression!r} lacks a {closing!r}")
        term = inner if word == "(" else _Bracket(inner)
    elif word in "&|,)]*":
        raise UnreadableConstraint(f"{expression!r} has {word!r} where a feature is expected")
    else:
        term = _Feature(word)
    if tokens and tokens[0] == "*":
        tokens.pop(0)
        count = tokens.pop(0) if tokens else ""
        if not (count.isascii() and count.isdigit() and int(count)):
            raise UnreadableConstraint(f"{expression!r} lacks the number of nodes after a '*'")
        return _Counted(term, int(count))
    return term
