"""Slurm's hostlist expressions: `w[01-03,7],login` names four hosts."""

import re
from collections.abc import Iterator
from itertools import product
from math import prod

MAX_HOSTS = 10_000
"""Maximum number of hosts of one expression: twice the nodes of the largest cluster that is measured."""
MAX_NAME = 64
"""Maximum length of a name with ranges: Linux has no longer host names. A few bytes name many long ones."""
MAX_BRACKETS = 8
"""The number of bracketed ranges in one name: one for each dimension of a network."""
_NONE = frozenset({"", "None assigned", "(null)"})
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*(?:,|$)")
_HOST_NUMBER = re.compile("[0-9]{1,18}")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def expand(expression: str) -> tuple[str, ...]:
    """Return the hosts of an expression, in its order; no hosts for Slurm's placeholders for "none".

    Raises ValueError for a malformed expression, or one that names more than `MAX_HOSTS`.
    """
    if not count(expression):
        return ()
    return tuple(host for part in _parts(expression) for host in _hosts(part))


def count(expression: str) -> int:
    """Return the number of hosts of an expression, without expanding it. Raises ValueError as `expand` does."""
    if expression in _NONE:
        return 0
    if "[" in expression or "]" in expression:
        hosts = sum(map(_count_hosts, _parts(expression)))
    else:
        hosts = expression.removesuffix(",").count(",") + 1
    if hosts > MAX_HOSTS:
        raise ValueError(f"a hostlist names more than {MAX_HOSTS} hosts")
    return hosts


def _parts(expression: str) -> Iterator[str]:
    end = 0
    while end < len(expression):
        match = _PART.match(expression, end)
        if match is None or match.end() == end:
            raise ValueError(f"{expression!r} is not a hostlist expression")
        yield match.group().removesuffix(",")
        end = match.end()


def _count_hosts(part: str) -> int:
    if "[" not in part:
        return 1
    texts = _BRACKETS.split(part)
    if len(texts) > 2 * MAX_BRACKETS + 1:
        raise ValueError(f"a host name has more than {MAX_BRACKETS} ranges")
    choices = [tuple(_ranges(text)) for text in texts[1::2]]
    longest = sum(map(len, texts[::2])) + sum(max(map(_longest, ranges)) for ranges in choices)
    if longest > MAX_NAME:
        raise ValueError(f"a host name has more than {MAX_NAME} characters")
    return prod(sum(len(numbers) for numbers, _ in ranges) for ranges in choices)


def _longest(numbers_and_width: tuple[range, int]) -> int:
    numbers, width = numbers_and_width
    return max(width, len(str(numbers[-1])))


def _hosts(part: str) -> Iterator[str]:
    texts = _BRACKETS.split(part)
    return map("".join, product(*((text,) if index % 2 == 0 else _numbers(text) for index, text in enumerate(texts))))


def _numbers(ranges: str) -> Iterator[str]:
    for numbers, width in _ranges(ranges):
        for number in numbers:
            yield str(number).zfill(width)


def _ranges(ranges: str) -> Iterator[tuple[range, int]]:
    """Return the numbers of each range, and the width to which they are padded with zeros."""
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        last = last if dash else first
        if not (_HOST_NUMBER.fullmatch(first) and _HOST_NUMBER.fullmatch(last)) or int(last) < int(first):
            raise ValueError(f"{item!r} is not a range of host numbers")
        yield range(int(first), int(last) + 1), len(first)
