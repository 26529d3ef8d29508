"""Which paths a glob pattern matches. Pure, and without any import that is not Python's own: `as_user` uses it.

`*`, `?` and `[abc]` match within a name, as in a shell; a name that begins with a dot is matched by a pattern that
begins with a dot. `**` matches any number of folders, also none.
"""

import fnmatch
import re
from functools import lru_cache

_SPECIAL = "*?["
ANY_FOLDERS = "**"


def fixed_folder(pattern: str) -> str:
    """The folder, without a slash at its end, in which all matches are: the names before the first special one."""
    folders = pattern.split("/")[:-1]
    fixed: list[str] = []
    for name in folders:
        if is_special(name):
            break
        fixed.append(name)
    return "/".join(fixed)


def below_fixed_folder(pattern: str, path: str) -> str:
    """The part of a match's path below the fixed folder of its pattern, such as `b/c.txt` of `a/**`."""
    folder = fixed_folder(pattern)
    return path.removeprefix(f"{folder}/") if folder else path


def is_special(name: str) -> bool:
    """Whether a name of a pattern may match several names."""
    return any(character in name for character in _SPECIAL)


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern matches a file's path. Both have names between slashes, and no empty ones."""
    parts = tuple(pattern.split("/"))
    return len(parts) in _places(parts, path)


def may_match_below(pattern: str, folder: str) -> bool:
    """Whether files below a folder may match, so that the folder has to be read."""
    parts = tuple(pattern.split("/"))
    return any(place < len(parts) for place in _places(parts, folder))


def _places(pattern: tuple[str, ...], path: str) -> set[int]:
    """The places in the pattern that may be reached when the names of the path are read."""
    places = _skipping({0}, pattern)
    for name in path.split("/"):
        following = set[int]()
        for place in places:
            if place == len(pattern):
                continue
            if pattern[place] == ANY_FOLDERS:
                if not name.startswith("."):
                    # The last one stands for the file, too.
                    following |= {place, place + 1} if place == len(pattern) - 1 else {place}
            elif name_matches(pattern[place], name):
                following.add(place + 1)
        places = _skipping(following, pattern)
    return places


def _skipping(places: set[int], pattern: tuple[str, ...]) -> set[int]:
    """The places, and those behind a `**` that stands for no folder. The last one needs a name, that of a file."""
    found = set(places)
    for place in sorted(places):
        at = place
        while at < len(pattern) - 1 and pattern[at] == ANY_FOLDERS:
            at += 1
            found.add(at)
    return found


def name_matches(pattern: str, name: str) -> bool:
    """Whether one name of a pattern matches a name. Upper and lower case differ."""
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return _compiled(pattern).match(name) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
