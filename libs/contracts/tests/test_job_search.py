"""What a search among jobs finds."""

import pytest
from clusterra_contracts.rpc.job_search import is_found
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("search", "job_id", "name", "found"),
    [
        ("ALIGN", "1", "realignment", True),
        ("straße", "1", "STRASSE 7", True),
        ("7", "7", "x", True),
        ("7", "7_3", "x", True),
        ("7_3", "7_3", "x", True),
        ("7_3", "7", "x", False),
        ("7", "77", "x", False),
        ("a.c", "1", "abc", False),
    ],
)
def test_a_search_is_a_part_of_the_name_or_an_id(search: str, job_id: str, name: str, found: bool) -> None:
    assert is_found(search, job_id, name) == found


@given(st.text(max_size=10), st.text(min_size=1, max_size=10), st.text(max_size=10))
def test_each_part_of_a_name_finds_it(before: str, part: str, after: str) -> None:
    assert is_found(part, "1", before + part + after)
    assert is_found(part.casefold(), "1", before + part + after)
