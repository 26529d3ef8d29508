"""Shapes and what their workers register with Slurm."""

import pytest
from clusterra_contracts.shapes import Shape
from message_examples import GPU_SHAPE, SHAPE
from pydantic import ValidationError


def test_a_worker_registers_its_typed_gpus() -> None:
    assert GPU_SHAPE.worker.gres == "gpu:l4:1"
    assert SHAPE.worker.gres == ""


def test_jobs_get_workers_without_gpus_first_and_then_the_cheapest_gpus() -> None:
    def of(family: str, size: str, price: float) -> Shape:
        parts = {"name": f"{family}-{size}", "family": family, "size": size, "gpu_model": family, "usd_per_hour": price}
        return Shape.model_validate(GPU_SHAPE.model_dump() | parts)

    dearer = [of("a10g", "small", 1.0), of("a100", "xlarge", 22.0), of("h100", "xlarge", 55.0)]
    weights = [shape.worker.weight for shape in (SHAPE, GPU_SHAPE, *dearer)]
    assert weights[0] == 1
    assert weights == sorted(set(weights))
    assert of("l4", "large", 4.6).worker.weight == GPU_SHAPE.worker.weight, "a large one serves what small ones could"


def test_machines_with_gpus_are_of_another_architecture() -> None:
    assert (SHAPE.worker.architecture, GPU_SHAPE.worker.architecture) == ("arm64", "amd64")


@pytest.mark.parametrize("parts", [{"gpu_count": 2}, {"gpu_model": "l4"}])
def test_gpus_without_a_model_and_a_model_without_gpus_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="go together"):
        Shape.model_validate(SHAPE.model_dump() | parts)
