"""The catalogue names every kind of event, and its examples are what is published."""

import json

import pytest
from clusterra_contracts.bus import asyncapi
from clusterra_contracts.bus.envelope import decode, encode
from clusterra_contracts.event_kinds import MEANINGS, example
from clusterra_contracts.events import KINDS, Event, NewerFact
from clusterra_contracts.webhooks import KindFilter
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter


def test_every_kind_has_a_meaning_and_no_other_has() -> None:
    assert set(MEANINGS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_that_does_not_know_a_kind_reads_it_and_webhooks_can_name_it(kind: str) -> None:
    family = kind.partition(".")[0]
    assert NewerFact.model_validate({"kind": kind}).kind == kind
    assert [TypeAdapter(KindFilter).validate_python(each) for each in (kind, f"{family}.*")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_kind_is_an_event_of_it(kind: str) -> None:
    event = example(kind)
    assert event.kind == kind
    assert decode(Event, *encode(event)) == event
    assert example(kind) == event, "an example is always the same"


def test_the_document_has_each_example_with_its_schema() -> None:
    document = asyncapi.document()
    messages = document["channels"]["event"]["messages"]
    shown = [(each["name"], each["payload"], message) for message in messages.values() for each in message["examples"]]

    assert sorted(name for name, *_ in shown) == sorted(KINDS)

    for name, payload, message in shown:
        # A known fact also fits the model for kinds that a release does not know.
        schemas = json.loads(json.dumps(document["components"]["schemas"]).replace('"oneOf"', '"anyOf"'))
        schema = {**message["payload"], "components": {"schemas": schemas}}
        assert not [error.message for error in Draft202012Validator(schema).iter_errors(payload)], name
