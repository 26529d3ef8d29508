"""Slurm's hostlist expressions: `w[01-03,7],login` names four hosts."""

import re
from collections.abc import Iterator

MAX_HOSTS = 100_000
_NONE = frozenset({"", "None assigned", "(null)"})
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*(?:,|$)")
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
        hosts.extend(_product(match.group().removesuffix(",")))
        if len(hosts) > MAX_HOSTS:
            raise ValueError(f"a hostlist names more than {MAX_HOSTS} hosts")
        end = match.end()
    return tuple(hosts)


def _product(part: str) -> Iterator[str]:
    match = _BRACKETS.search(part)
    if match is None:
        yield part
        return
    rests = tuple(_product(part[match.end() :]))
    for middle in _numbers(match.group(1)):
        for rest in rests:
            yield f"{part[: match.start()]}{middle}{rest}"


def _numbers(ranges: str) -> Iterator[str]:
    for item in ranges.split(","):
        first, dash, last = item.partition("-")
        last = last if dash else first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            raise ValueError(f"{item!r} is not a range of host numbers")
        if int(last) - int(first) >= MAX_HOSTS:
            raise ValueError(f"a hostlist names more than {MAX_HOSTS} hosts")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
