"""Slurm's constraint expressions (`sbatch --constraint`): their meaning for one node, and for all nodes of a job."""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

type Constraint = Callable[[Collection[str]], bool]
"""Tells whether a node with these features may run the job."""
type Layout = tuple[tuple[str, int], ...]
"""A constraint and its number of nodes, for all nodes of a job, such as `(("general", 2), ("compute", 1))`."""

_TOKEN = re.compile(r"\s*([A-Za-z0-9_.=+:/-]+|[&|,()\[\]*])")


class UnreadableConstraint(ValueError):
    """The expression has a syntax error, or counts nodes where only the features of one node can stand."""


@dataclass(frozen=True, slots=True)
class _Feature:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _Joined:
    """Two expressions joined by `&` or `|`."""

    left: "_Expression"
    operator: Literal["&", "|"]
    right: "_Expression"

    def __str__(self) -> str:
        return f"({self.left}{self.operator}{self.right})"


@dataclass(frozen=True, slots=True)
class _Bracket:
    """`[...]`: alternatives of which one holds for all nodes of the job, or expressions with node counts."""

    inner: "_Expression"

    def __str__(self) -> str:
        return f"[{self.inner}]"


@dataclass(frozen=True, slots=True)
class _Counted:
    """An expression for a number of the job's nodes: `general*2`."""

    inner: "_Expression"
    nodes: int

    def __str__(self) -> str:
        return f"{self.inner}*{self.nodes}"


type _Expression = _Feature | _Joined | _Bracket | _Counted


@lru_cache(maxsize=1024)
def parse(expression: str) -> Constraint:
    """Parse a constraint on one node: names, `&` (or `,`), `|`, parentheses and brackets.

    Raises UnreadableConstraint, also for node counts: `layouts` splits these into constraints on single nodes.
    """
    if not expression.strip():
        return lambda features: True
    return _predicate(_read(expression))


@lru_cache(maxsize=1024)
def layouts(expression: str, nodes: int) -> tuple[Layout, ...]:
    """Return the alternative layouts for a job of this many nodes: at least one. Raises UnreadableConstraint.

    `[a*2&b*1]` means two nodes with `a` and one with `b`, even if the job asks for fewer than three nodes. Nodes beyond
    the counted ones must meet the terms without a count and, within brackets, also one of the counted terms. `[a|b]`
    means that all nodes have `a`, or all have `b`.
    """
    if not expression.strip():
        return ((("", nodes),),)
    root = _read(expression)
    if nodes > 1 and isinstance(root, _Bracket) and not _has_counts(root):
        return tuple(((_text(each), nodes),) for each in _operands(root.inner, "|"))
    terms = list(_operands(root.inner if isinstance(root, _Bracket) else root, "&"))
    counted = [each for each in terms if isinstance(each, _Counted)]
    plain = [each for each in terms if not isinstance(each, _Counted)]
    if not counted:
        parse(expression)
        return (((expression.strip(), nodes),),)
    layout = [("&".join(_text(each) for each in (count.inner, *plain)), count.nodes) for count in counted]
    remaining = nodes - sum(count.nodes for count in counted)
    if remaining > 0:
        any_counted = (
            ["(" + "|".join(str(count.inner) for count in counted) + ")"] if isinstance(root, _Bracket) else []
        )
        layout.append(("&".join([*any_counted, *map(_text, plain)]), remaining))
    for text, _ in layout:
        parse(text)
    return (tuple(layout),)


def _text(expression: _Expression) -> str:
    """The expression without outer parentheses where they are redundant."""
    text = str(expression)
    return text[1:-1] if isinstance(expression, _Joined) and expression.operator == "&" else text


def _operands(expression: _Expression, operator: str) -> Iterator[_Expression]:
    """Flatten a chain of one operator into its operands."""
    if isinstance(expression, _Joined) and expression.operator == operator:
        yield from chain(_operands(expression.left, operator), _operands(expression.right, operator))
    else:
        yield expression


def _has_counts(expression: _Expression) -> bool:
    match expression:
        case _Counted():
            return True
        case _Bracket(inner):
            return _has_counts(inner)
        case _Joined(left, _, right):
            return _has_counts(left) or _has_counts(right)
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
            raise UnreadableConstraint(f"{str(expression)!r} counts nodes where only features are allowed")


def _read(expression: str) -> _Expression:
    tokens = _tokens(expression)
    root = _sequence(tokens, expression)
    if tokens:
        raise UnreadableConstraint(f"{expression!r} cannot be parsed from {tokens[0]!r} on")
    return root


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableConstraint(f"{expression!r} contains {text[position]!r}, which no constraint may")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _sequence(tokens: list[str], expression: str) -> _Expression:
    """Parse terms from left to right without precedence, as Slurm reads `a|b&c`."""
    joined = _term(tokens, expression)
    while tokens and tokens[0] in "&,|":
        operator: Literal["&", "|"] = "|" if tokens.pop(0) == "|" else "&"
        joined = _Joined(joined, operator, _term(tokens, expression))
    return joined


def _term(tokens: list[str], expression: str) -> _Expression:
    if not tokens:
        raise UnreadableConstraint(f"{expression!r} ends where a feature is expected")
    word = tokens.pop(0)
    term: _Expression
    if word in ("(", "["):
        inner = _sequence(tokens, expression)
        closing = ")" if word == "(" else "]"
        if not tokens or tokens.pop(0) != closing:
            raise UnreadableConstraint(f"{expression!r} is missing a {closing!r}")
        term = inner if word == "(" else _Bracket(inner)
    elif word in "&|,)]*":
        raise UnreadableConstraint(f"{expression!r} has {word!r} where a feature is expected")
    else:
        term = _Feature(word)
    if tokens and tokens[0] == "*":
        tokens.pop(0)
        count = tokens.pop(0) if tokens else ""
        if not (count.isascii() and count.isdigit() and int(count)):
            raise UnreadableConstraint(f"{expression!r} is missing the number of nodes after a '*'")
        return _Counted(term, int(count))
    return term
