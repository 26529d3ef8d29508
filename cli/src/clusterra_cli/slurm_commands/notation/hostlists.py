"""Names of nodes in Slurm's short form, such as `n[1-3,07],login`."""

import re
from collections.abc import Iterable, Iterator

from clusterra_cli.getopt import split

MAX_HOSTS = 65_536
"""The most names that a list may stand for."""
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")


class BadHostlist(Exception):
    """The text is no list of names."""


def expanded(text: str) -> list[str]:
    """The names that a list stands for. Raises BadHostlist."""
    found: list[str] = []
    for item in split(text):
        for name in _names(item):
            found.append(name)
            if len(found) > MAX_HOSTS:
                raise BadHostlist(f"the list has more than {MAX_HOSTS} names")
    return found


def _names(item: str) -> Iterator[str]:
    before, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    inside, closed, after = rest.partition("]")
    if not closed:
        raise BadHostlist(item)
    for numbers in inside.split(","):
        first, dash, last = numbers.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first) or int(last) - int(first) > MAX_HOSTS:
            raise BadHostlist(item)
        for number in range(int(first), int(last) + 1):
            for ending in _names(after):
                yield f"{before}{number:0{len(first)}}{ending}"


def compressed(names: Iterable[str]) -> str:
    """The short form of names in their order: numbers of one prefix and width that follow each other become a range."""
    groups: dict[tuple[str, int] | str, list[int]] = {}
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            groups[name] = []
        else:
            groups.setdefault((found[1], len(found[2])), []).append(int(found[2]))
    return ",".join(_written(key, numbers) for key, numbers in groups.items())


def _written(key: tuple[str, int] | str, numbers: list[int]) -> str:
    if isinstance(key, str):
        return key
    prefix, width = key
    text = ",".join("-".join(f"{number:0{width}}" for number in each) for each in ranges(numbers))
    return f"{prefix}{text}" if len(numbers) == 1 else f"{prefix}[{text}]"


def ranges(numbers: Iterable[int]) -> list[tuple[int, ...]]:
    """Numbers in their order as ranges: the first and the last of those that follow each other, or one alone."""
    found: list[tuple[int, ...]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number,))
    return found
