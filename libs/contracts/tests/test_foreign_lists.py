"""What comes from outside the central side ends at its first wrong item: a million errors would take seconds."""

from collections.abc import Iterator
from typing import Any

import pytest
from clusterra_contracts.agent_http import MAX_SHAPES, AgentHeartbeat
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.wrong_values import wrong_values
from pydantic import BaseModel, ValidationError

FOREIGN: tuple[type[BaseModel], ...] = (
    AgentHeartbeat,
    *(each.result for each in REQUESTS if each.server == "edge-agent"),
    *(each.message for each in PUBLICATIONS if each.sender == "edge-agent"),
)


@pytest.mark.parametrize("model", FOREIGN, ids=lambda model: model.__name__)
def test_each_list_of_a_foreign_message_fails_fast(model: type[BaseModel]) -> None:
    unbounded = [each for each in _lists(model.__pydantic_core_schema__) if not each.get("fail_fast")]

    assert not unbounded


def test_an_agent_names_so_many_shapes_and_no_more() -> None:
    wrong: dict[str, object] = {f"s{number}": {} for number in range(MAX_SHAPES + 1)}

    with pytest.raises(ValidationError) as refused:
        AgentHeartbeat.model_validate({"cluster_id": "c1", "agent_version": "5", "capacity_pods": wrong})

    assert [each.path for each in wrong_values(refused.value)] == ["capacity_pods"]


def _lists(schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas of lists in a schema of pydantic."""
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "set", "frozenset"):
            yield schema
        for name, each in schema.items():
            if name not in ("metadata", "serialization"):
                yield from _lists(each)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from _lists(each)
