"""Slurm user names: always valid, never reserved, all different."""

from itertools import islice

import pytest
from clusterra_contracts.identity import UserName
from clusterra_gateway.accounts.slurm_identities import RESERVED, names_for
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

_USER_NAME: TypeAdapter[str] = TypeAdapter(UserName)


@pytest.mark.parametrize(
    ("email", "name"),
    [
        ("ada@acme.example", "ada"),
        ("Ada.Lovelace@acme.example", "ada-lovelace"),
        ("josé@acme.example", "jose"),
        ("ada+test@acme.example", "ada"),
        ("42@acme.example", "u42"),
        ("名前@acme.example", "u"),
        ("root@acme.example", "root-2"),
        ("a" * 60 + "@acme.example", "a" * 31),
        ("@acme.example", "u"),
    ],
)
def test_the_first_name_resembles_the_address(email: str, name: str) -> None:
    assert next(names_for(email)) == name


@given(st.text() | st.emails() | st.sampled_from(sorted(RESERVED)).map(lambda name: f"{name}@acme.example"))
def test_all_names_are_valid_unreserved_and_different(email: str) -> None:
    names = list(islice(names_for(email), 15))

    assert len(set(names)) == 15
    for name in names:
        _USER_NAME.validate_python(name)
        assert name not in RESERVED
