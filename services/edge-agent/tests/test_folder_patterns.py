"""Which files of a job's folder a pattern matches."""

import fnmatch

import pytest
from clusterra_contracts.rpc.edge_staging import FindFiles
from clusterra_edge_agent.folders.patterns import below_fixed_folder, fixed_folder, matches, may_match_below
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

NAME = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
PATTERN = st.lists(
    st.one_of(NAME, st.sampled_from(["*", "a*", "?b", "[ab]*", ".*", "**"])), min_size=1, max_size=4
).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "matched"),
    [
        ("results/*.txt", "results/a.txt", True),
        ("results/*.txt", "results/deep/a.txt", False),
        ("results/**", "results/a.txt", True),
        ("results/**", "results/deep/er/a.txt", True),
        ("results/**", "results", False),
        ("**/*.log", "a.log", True),
        ("**/*.log", "x/y/a.log", True),
        ("x/**/y", "x/y", True),
        ("x/**/y", "x/1/2/y", True),
        ("x/**/y", "x/1/2/z", False),
        ("*", ".hidden", False),
        (".*", ".hidden", True),
        ("**/a", ".hidden/a", False),
        ("[ab].txt", "b.txt", True),
        ("A", "a", False),
        ("exact/name.txt", "exact/name.txt", True),
    ],
)
def test_patterns_match_as_in_a_shell(pattern: str, path: str, *, matched: bool) -> None:
    assert matches(pattern, path) is matched


@given(PATTERN, PATH)
def test_whoever_reads_only_folders_that_may_match_finds_every_match(pattern: str, path: str) -> None:
    names = path.split("/")

    reached = all(may_match_below(pattern, "/".join(names[:count])) for count in range(1, len(names)))

    assert reached or not matches(pattern, path)


@given(PATTERN, PATH)
def test_matches_are_in_the_fixed_folder_and_the_rest_is_not_empty(pattern: str, path: str) -> None:
    if not matches(pattern, path):
        return

    folder, below = fixed_folder(pattern), below_fixed_folder(pattern, path)

    assert below
    assert path == (f"{folder}/{below}" if folder else below)


@given(st.lists(st.sampled_from(["a", "b*", "?", "*"]), min_size=1, max_size=4), PATH)
def test_without_double_stars_each_name_is_matched_by_its_own(pattern: list[str], path: str) -> None:
    names = path.split("/")

    expected = len(names) == len(pattern) and all(
        fnmatch.fnmatchcase(name, part) and not name.startswith(".") for name, part in zip(names, pattern, strict=False)
    )

    assert matches("/".join(pattern), path) is expected


@pytest.mark.parametrize("pattern", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a**/b", "a\\b", "./a", "a\0"])
def test_patterns_that_lead_out_are_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        FindFiles(folder="", patterns=(pattern,))
