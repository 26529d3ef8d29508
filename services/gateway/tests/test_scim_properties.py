"""Properties of SCIM's filters and of PATCH, for whatever a client sends."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from clusterra_gateway.directory.scim.groups import MAX_SEARCHES, patched_group
from clusterra_gateway.directory.scim.requests import applied, parsed_patch
from clusterra_gateway.directory.scim.resources import MAX_EMAILS, MAX_MEMBERS, Group, GroupMember, User
from clusterra_gateway.directory.scim.views import pinned
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from scim2_models import InvalidFilterException, SCIMException, ScimFilter

CORE = "urn:ietf:params:scim:schemas:core:2.0:Group"
STEPS = ["add", "add without a path", "add in the schema", "remove", "remove by path", "remove by one path", "replace"]
IDS = [f"{number:032x}" for number in range(6)]
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=40)
COMPARISONS = st.sampled_from(["userName", "externalId", "id", "USERNAME", "active", "name.givenName", "emails"])
OPERATORS = st.sampled_from(["eq", "EQ", "ne", "co", "sw", "gt"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**6) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*"abv", "value", "type"]), inner),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        *("active", "userName", "displayName", "name", "name.givenName", "emails", 'emails[type eq "work"].value'),
        *("emails[primary eq true]", "externalId", "id", "meta", "schemas", "nonsense", "emails[", ""),
        "urn:ietf:params:scim:schemas:extension:clusterra:2.0:User:uidNumber",
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
    ]
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "Add", "replace", "Replace", "remove", "Remove", "erase"])},
        optional={"path": PATHS, "value": JSON},
    ),
    max_size=5,
)


@given(value=NAMES, attribute=st.sampled_from(["userName", "externalId", "id"]), more=st.booleans())
def test_a_comparison_by_eq_finds_exactly_its_value(value: str, attribute: str, more: bool) -> None:
    text = f"{attribute} eq {ScimFilter.quote(value)}" + (" and active eq true" if more else "")
    user = User(user_name=value, external_id=value, id=value, active=True)
    other = User(user_name=f"{value}x", external_id=f"{value}x", id=f"{value}x", active=True)

    pin = pinned(text, "user", User)

    assert pin.value == value
    assert pin.fits(user)
    assert not pin.fits(other)
    assert not more or not pin.fits(user.model_copy(update={"active": False}))


@given(attribute=COMPARISONS, operator=OPERATORS, value=NAMES, junction=st.sampled_from([" or ", " and not ", ""]))
def test_a_filter_that_several_users_may_fit_is_refused(
    attribute: str, operator: str, value: str, junction: str
) -> None:
    comparison = f"{attribute} {operator} {ScimFilter.quote(value)}"
    text = f"{comparison}{junction}({comparison})" if junction else comparison
    found = attribute.lower() in ("username", "externalid", "id") and operator.lower() == "eq"

    try:
        pin = pinned(text, "user", User)
    except InvalidFilterException:
        assert not found or junction == " or "
    else:
        assert found
        assert junction != " or "
        assert pin.value == value


@given(text=st.text(max_size=200))
@example("(" * 200)
@example('userName eq "' + "\\" * 150)
@example("(" * 490 + 'id eq "a"' + ")" * 490)
@example("not (" * 160 + 'id eq "a"' + ")" * 160)
@example("not " * 50 + 'userName eq "a"')
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    with suppress(InvalidFilterException):
        assert len(pinned(text, "user", User).value) < len(text)


@given(operations=OPERATIONS)
def test_a_patch_makes_a_valid_user_or_is_refused_and_changes_nothing(operations: list[dict[str, Any]]) -> None:
    user = User(user_name="ada@acme.example", active=True, emails=[{"type": "work", "value": "ada@acme.example"}])
    before = user.model_dump()

    try:
        changed = applied(parsed_patch({"Operations": operations}, User), user)
    except (SCIMException, ValidationError):
        assert user.model_dump() == before
        return

    assert user.model_dump() == before
    assert User.model_validate(json.loads(json.dumps(changed.model_dump()))) == changed
    assert changed.user_name
    assert len(changed.emails or ()) <= MAX_EMAILS


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.sets(st.sampled_from(IDS))),
        max_size=8,
    )
)
def test_members_are_those_that_sets_would_have(steps: list[tuple[str, set[str]]]) -> None:
    group, expected = Group(display_name="chem"), set[str]()

    for step, ids in steps:
        values = [{"value": each} for each in sorted(ids)]
        operations: list[dict[str, Any]]
        match step:
            case "add":
                operations = [{"op": "Add", "path": "members", "value": values}]
                expected |= ids
            case "remove":
                operations = [{"op": "Remove", "path": "members", "value": values}]
                expected -= ids
            case "remove by path":
                operations = [{"op": "remove", "path": f'members[value eq "{each}"]'} for each in sorted(ids)]
                expected -= ids
            case "remove by one path":
                named = " or ".join(f'value eq "{each}"' for each in sorted(ids))
                operations = [{"op": "remove", "path": f"{CORE}:members[{named}]"}] if ids else []
                expected -= ids
            case "add without a path":
                operations = [{"op": "add", "value": {"Members": values}}]
                expected |= ids
            case "add in the schema":
                operations = [{"op": "add", "path": f"{CORE}:members", "value": values}]
                expected |= ids
            case _:
                operations = [{"op": "replace", "value": {"members": values}}]
                expected = set(ids)
        if operations:
            patch, before = parsed_patch({"Operations": operations}, Group), group.model_dump()
            after = patched_group(patch, group)
            assert group.model_dump() == before
            group = after

    assert sorted(each.value or "" for each in group.members or ()) == sorted(expected)


def test_half_of_a_full_group_is_removed_in_a_moment() -> None:
    ids = [f"{number:032x}" for number in range(MAX_MEMBERS)]
    group = Group(display_name="chem", members=[GroupMember(value=each) for each in ids])
    half = [{"value": each} for each in ids[::2]]
    began = time.process_time()

    left = patched_group(
        parsed_patch({"Operations": [{"op": "Remove", "path": "members", "value": half}]}, Group), group
    )

    assert [each.value for each in left.members or ()] == ids[1::2]
    # A comparison of each with each took 24 s.
    assert time.process_time() - began < 5.0


def test_a_patch_does_not_search_the_members_again_and_again() -> None:
    ids = [f"{number:032x}" for number in range(MAX_MEMBERS)]
    group = Group(display_name="chem", members=[GroupMember(value=each) for each in ids])
    path = "members[" + " or ".join(f'value eq "{number}"' for number in range(40)) + "]"
    searches = parsed_patch({"Operations": [{"op": "remove", "path": path}] * (MAX_SEARCHES + 1)}, Group)
    began = time.process_time()

    with pytest.raises(SCIMException):
        patched_group(searches, group)

    # Fifty took 49 s.
    assert time.process_time() - began < 1.0
