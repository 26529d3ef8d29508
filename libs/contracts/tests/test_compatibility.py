"""This release and the one before it understand each other's messages, or the generation of the contracts is raised.

To be compatible, give new fields a default, and keep names, types, values and limits. Where that is impossible, raise
`GENERATION` and `OLDEST` in `clusterra_contracts.versions` and record the new generation: `make record-contracts`.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.versions import CONTRACTS, GENERATION, OLDEST, Contracts
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from message_examples import EXAMPLES
from record_contracts import record
from schema_compatibility import Schemas, unreadable

RECORDED = Path(__file__).parent / "recorded"
ADVICE = (
    "give new fields a default and keep the rest, or raise GENERATION and OLDEST in clusterra_contracts/versions.py and"
    " run `make record-contracts`"
)
type Recording = dict[str, dict[str, Any]]


def recorded(generation: int) -> Recording:
    recording: Recording = json.loads((RECORDED / f"generation-{generation}.json").read_text())
    return recording


def of(recording: Recording, direction: str) -> Schemas:
    return Schemas(recording[direction]["messages"], recording[direction]["definitions"])


def now() -> Recording:
    recording: Recording = json.loads(json.dumps(record()))
    return recording


def test_every_release_reads_what_it_writes() -> None:
    assert unreadable(of(now(), "written"), of(now(), "read")) == []


@pytest.mark.parametrize("generation", range(OLDEST, GENERATION + 1))
def test_messages_are_understood_in_both_directions(generation: int) -> None:
    before = recorded(generation)

    assert unreadable(of(now(), "written"), of(before, "read")) == [], f"generation {generation} cannot read: {ADVICE}"
    assert unreadable(of(before, "written"), of(now(), "read")) == [], f"generation {generation} is not read: {ADVICE}"
    gone = before["read"]["messages"].keys() - now()["read"]["messages"].keys()
    assert not gone, f"generation {generation} sends messages that nobody takes: {ADVICE}"


@pytest.mark.parametrize("generation", range(OLDEST, GENERATION + 1))
def test_the_examples_of_today_are_valid_for_the_earlier_schemas(generation: int) -> None:
    """A second opinion, by a validator of others, on the same recordings."""
    before = recorded(generation)["read"]
    models = {each.address: each.message for each in PUBLICATIONS}
    models |= {f"{each.address} request": each.request for each in REQUESTS}
    examples = {type(example): example for example in EXAMPLES.values()}
    checked = 0
    for address, model in models.items():
        if address not in before["messages"]:
            continue
        # A known fact fits two models of a reader: that of its kind, and the one for kinds that it does not know.
        definitions = json.loads(json.dumps(before["definitions"]).replace('"oneOf"', '"anyOf"'))
        validator = Draft202012Validator({**before["messages"][address], "$defs": definitions})
        validator.validate(json.loads(examples[model].model_dump_json()))
        checked += 1
    assert checked > 15


def test_the_window_has_a_recording_for_every_generation() -> None:
    assert 1 <= OLDEST <= GENERATION
    assert Contracts(generation=GENERATION, oldest=OLDEST) == CONTRACTS
    for generation in range(OLDEST, GENERATION + 1):
        assert recorded(generation)["read"]["messages"]


@pytest.fixture(scope="module")
def today() -> Recording:
    return now()


Change = Callable[[dict[str, Any]], Any]

BREAKING: dict[str, tuple[str, Change]] = {
    "a new required field": ("Heartbeat", lambda model: add(model, "zone", {"type": "string"}, required=True)),
    "a removed field": ("Heartbeat", lambda model: model["properties"].pop("workers")),
    "a renamed field": ("QueueSnapshot", lambda model: rename(model, "taken_at", "seen_at")),
    "another type": ("ShapeTarget", lambda model: model["properties"].update(replicas={"type": "string"})),
    "a narrower limit": ("ShapeTarget", lambda model: model["properties"]["replicas"].update(maximum=10)),
    "a narrower pattern": ("ShapeTarget", lambda model: model["properties"]["shape"].update(pattern="^x$")),
    "a removed value": ("Stuck", lambda model: model["properties"]["cause"]["enum"].remove("quota")),
    "a new value": ("Stuck", lambda model: model["properties"]["cause"]["enum"].append("lost")),
    "a changed field of a known kind": ("NodeFact", lambda model: rename(model, "node", "name")),
    "a field in a closed model": ("JobDescription", lambda model: add(model, "container", {"type": "string"})),
}


def add(model: dict[str, Any], name: str, schema: dict[str, Any], *, required: bool = False) -> None:
    model["properties"][name] = schema
    if required:
        model.setdefault("required", []).append(name)


def rename(model: dict[str, Any], old: str, new: str) -> None:
    model["properties"][new] = model["properties"].pop(old)
    model["required"] = [new if name == old else name for name in model["required"]]


def understood(before: Recording, after: Recording) -> bool:
    return not (
        unreadable(of(after, "written"), of(before, "read")) or unreadable(of(before, "written"), of(after, "read"))
    )


def changed(today: Recording, model: str, change: Change) -> Recording:
    """Today's contracts with a change of one model in both directions. What is written always has all fields."""
    after = copy.deepcopy(today)
    for direction in ("read", "written"):
        definitions = after[direction]["definitions"]
        name = next(name for name in definitions if name in {model, f"{model}-Input", f"{model}-Output"})
        change(definitions[name])
        if direction == "written":
            definitions[name]["required"] = sorted(definitions[name]["properties"])
    return after


@pytest.mark.parametrize(("model", "change"), BREAKING.values(), ids=BREAKING)
def test_a_breaking_change_is_found(today: Recording, model: str, change: Change) -> None:
    assert not understood(today, changed(today, model, change))


def test_a_new_field_with_a_default_is_no_finding(today: Recording) -> None:
    def change(model: dict[str, Any]) -> None:
        add(model, "zone", {"type": "string", "default": ""})

    assert understood(today, changed(today, "Heartbeat", change))


def test_a_new_event_kind_breaks_the_releases_that_know_no_newer_facts(today: Recording) -> None:
    def change(model: dict[str, Any]) -> None:
        model["properties"]["kind"]["enum"].append("node.moved")

    after = changed(today, "NodeFact", change)

    assert understood(today, after)
    before = copy.deepcopy(today)
    event = before["read"]["definitions"]["Event"]["properties"]["data"]
    event["oneOf"] = [each for each in event["oneOf"] if "NewerFact" not in each["$ref"]]
    assert unreadable(of(after, "written"), of(before, "read"))


contracts = st.builds(
    lambda oldest, more: Contracts(generation=oldest + more, oldest=oldest), st.integers(1, 6), st.integers(0, 3)
)


@given(contracts, contracts)
def test_both_sides_agree_whether_they_go_together(one: Contracts, other: Contracts) -> None:
    assert one.works_with(other) == other.works_with(one)
    assert one.works_with(one)
    ranges = [range(each.oldest, each.generation + 1) for each in (one, other)]
    assert one.works_with(other) == bool(set(ranges[0]) & set(ranges[1]))
