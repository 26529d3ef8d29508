"""Shapes and what their workers register with Slurm."""

import pytest
from clusterra_contracts.shapes import Shape
from message_examples import GPU_SHAPE, SHAPE
from pydantic import ValidationError


def test_a_worker_registers_its_typed_gpus() -> None:
    assert GPU_SHAPE.worker.gres == "gpu:l4:1"
    assert SHAPE.worker.gres == ""


@pytest.mark.parametrize("parts", [{"gpu_count": 2}, {"gpu_model": "l4"}])
def test_gpus_without_a_model_and_a_model_without_gpus_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="go together"):
        Shape.model_validate(SHAPE.model_dump() | parts)
