"""cli/requirements.lock: what the one file, the image and the action install, no more and no other versions."""

import re
from importlib.metadata import distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def locked(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Package -> its version and hashes in a lock."""
    blocks = re.finditer(r"^([a-z0-9.-]+)==([^\s;]+).*\n(?:    .*\n)*", (ROOT / name).read_text(), re.MULTILINE)
    return {each[1]: (each[2], frozenset(re.findall(r"sha256:\w+", each[0]))) for each in blocks}


def needed(name: str) -> set[str]:
    """What a package needs on this machine."""
    found: set[tuple[str, str]] = set()
    left = [(name, "")]
    while left:
        package, extra = left.pop()
        for text in requires(package) or ():
            each = Requirement(text)
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                needs = each.name.lower().replace("_", "-")
                new = {(needs, ""), *((needs, wanted) for wanted in each.extras if wanted != "keyring")} - found
                found |= new
                left += new
    return {package for package, _ in found}


def test_it_has_what_the_command_line_needs_as_the_lock_of_all_has_it() -> None:
    own, whole = locked("cli/requirements.lock"), locked("requirements.lock")
    needs = needed("clusterra-cli") - {"clusterra-sdk"}

    assert {name: (pin, whole.get(name)) for name, pin in own.items() if whole.get(name) != pin} == {}
    assert all(hashes for _, hashes in own.values())
    assert needs <= own.keys()
    # The rest is for other platforms.
    assert {name for name in own.keys() - needs if [*distributions(name=name)]} == set()
