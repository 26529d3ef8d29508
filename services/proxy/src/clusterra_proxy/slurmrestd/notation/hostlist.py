"""Slurm's hostlist expressions: `w[01-03,7],login` names four hosts."""

import re
from collections.abc import Iterator
from itertools import islice, product

MAX_HOSTS = 100_000
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
    if expression in _NONE:
        return ()
    hosts: list[str] = []
    end = 0
    while end < len(expression):
        match = _PART.match(expression, end)
        if match is None or match.end() == end:
            raise ValueError(f"{expression!r} is not a hostlist expression")
        hosts.extend(islice(_product(match.group().removesuffix(",")), MAX_HOSTS + 1 - len(hosts)))
        if len(hosts) > MAX_HOSTS:
            raise ValueError(f"a hostlist names more than {MAX_HOSTS} hosts")
        end = match.end()
    return tuple(hosts)


def _product(part: str) -> Iterator[str]:
    # The names come one by one, so that a few brackets that name billions of hosts fill no memory.
    texts = _BRACKETS.split(part)
    if len(texts) > 2 * MAX_BRACKETS + 1:
        raise ValueError(f"a host name has more than {MAX_BRACKETS} ranges")
    choices = [
        (text,) if index % 2 == 0 else tuple(islice(_numbers(text), MAX_HOSTS + 1)) for index, text in enumerate(texts)
    ]
    return map("".join, product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        last = last if dash else first
        if not (_HOST_NUMBER.fullmatch(first) and _HOST_NUMBER.fullmatch(last)):
            raise ValueError(f"{item!r} is not a range of host numbers")
        if int(last) - int(first) >= MAX_HOSTS:
            raise ValueError(f"a hostlist names more than {MAX_HOSTS} hosts")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
