"""Shapes, and what their workers register with Slurm."""

import pytest
from clusterra_contracts.shapes import Shape
from message_examples import GPU_SHAPE, SHAPE
from pydantic import ValidationError


def test_a_worker_registers_its_gpus_with_their_type() -> None:
    assert GPU_SHAPE.worker.gres == "gpu:l4:1"
    assert SHAPE.worker.gres == ""


def gpu_shape(family: str, size: str, price: float) -> Shape:
    parts = {"name": f"{family}-{size}", "family": family, "size": size, "gpu_model": family, "usd_per_hour": price}
    return Shape.model_validate(GPU_SHAPE.model_dump() | parts)


def test_weights_order_workers_without_gpus_first_and_then_gpus_by_price() -> None:
    dearer = [gpu_shape("a10g", "small", 1.0), gpu_shape("a100", "xlarge", 22.0), gpu_shape("h100", "xlarge", 55.0)]

    weights = [shape.worker.weight for shape in (SHAPE, GPU_SHAPE, *dearer)]

    assert weights[0] == 1
    assert weights == sorted(set(weights))


def test_workers_with_the_same_gpu_model_have_the_same_weight() -> None:
    assert gpu_shape("l4", "large", 4.6).worker.weight == GPU_SHAPE.worker.weight


def test_machines_with_gpus_have_another_architecture() -> None:
    assert (SHAPE.worker.architecture, GPU_SHAPE.worker.architecture) == ("arm64", "amd64")


@pytest.mark.parametrize("parts", [{"gpu_count": 2}, {"gpu_model": "l4"}])
def test_gpu_count_and_gpu_model_are_rejected_without_each_other(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="go together"):
        Shape.model_validate(SHAPE.model_dump() | parts)
