"""What the event of a decision tells of the shapes that it compared: few, and nothing that older releases trip over."""

import pytest
from clusterra_contracts.alternatives import MOST_OF_CHANGE, Alternative
from clusterra_contracts.events import ShapeChange
from pydantic import ValidationError

COMPARED = tuple(
    Alternative(shape=f"general-{number}", usd_per_hour=number, verdict="costlier", text="It costs more.")
    for number in range(MOST_OF_CHANGE + 1)
)
CHANGE = {"shape": "general-0", "replicas_before": 0, "replicas_after": 1, "reason": "1 more", "job_ids": ("7",)}


def test_a_change_tells_of_few_shapes() -> None:
    most = ShapeChange.model_validate({**CHANGE, "alternatives": COMPARED[1:], "compared_jobs": ("7",)})

    assert ShapeChange.model_validate_json(most.model_dump_json()) == most
    with pytest.raises(ValidationError, match="at most 5"):
        ShapeChange.model_validate({**CHANGE, "alternatives": COMPARED})


def test_a_change_that_compared_nothing_is_written_as_the_release_before_wrote_it() -> None:
    change = ShapeChange.model_validate(CHANGE)

    assert change.model_dump().keys() == {*CHANGE, "victims"}
    assert change.model_dump(mode="json").keys() == {*CHANGE, "victims"}
