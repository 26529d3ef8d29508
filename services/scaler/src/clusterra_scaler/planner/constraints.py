"""Slurm's constraint expressions (`sbatch --constraint`), asked of the features of one node."""

import re
from collections.abc import Callable, Collection
from functools import lru_cache

type Constraint = Callable[[Collection[str]], bool]
"""Whether a node with these features may run the job."""

_TOKEN = re.compile(r"\s*([A-Za-z0-9_.=+:/-]+|[&|,()\[\]*])")


class UnreadableConstraint(ValueError):
    """The expression asks for what is no property of a single node, such as counts (`a*2`), or is no expression."""


@lru_cache(maxsize=1024)
def parse(expression: str) -> Constraint:
    """Read an expression of names, `&` (or `,`), `|` and brackets.

    Without brackets it is read from left to right, as Slurm does. `[a|b]` asks that all nodes of a job have the same
    one of them, which holds of every worker bought for a job, since those have one shape.
    Raises UnreadableConstraint.
    """
    if not expression.strip():
        return lambda features: True
    tokens = _tokens(expression)
    constraint = _expression(tokens, expression)
    if tokens:
        raise UnreadableConstraint(f"{expression!r} cannot be read from {tokens[0]!r} on")
    return constraint


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


def _expression(tokens: list[str], expression: str) -> Constraint:
    constraint = _term(tokens, expression)
    while tokens and tokens[0] in "&,|":
        operator = tokens.pop(0)
        combine = _either if operator == "|" else _both
        constraint = combine(constraint, _term(tokens, expression))
    return constraint


def _term(tokens: list[str], expression: str) -> Constraint:
    if not tokens:
        raise UnreadableConstraint(f"{expression!r} ends where a feature is expected")
    word = tokens.pop(0)
    if word in ("(", "["):
        constraint = _expression(tokens, expression)
        closing = ")" if word == "(" else "]"
        if not tokens or tokens.pop(0) != closing:
            raise UnreadableConstraint(f"{expression!r} lacks a {closing!r}")
        return constraint
    if word in "&|,)]*":
        raise UnreadableConstraint(f"{expression!r} has {word!r} where a feature is expected")
    if tokens and tokens[0] == "*":
        raise UnreadableConstraint(f"{expression!r} counts nodes, which is not supported: ask for the feature alone")
    return lambda features: word in features


def _both(left: Constraint, right: Constraint) -> Constraint:
    return lambda features: left(features) and right(features)


def _either(left: Constraint, right: Constraint) -> Constraint:
    return lambda features: left(features) or right(features)
