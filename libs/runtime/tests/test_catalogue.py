"""The catalogue file: the published one, and errors in others."""

from pathlib import Path

import pytest
from clusterra_runtime.catalogue import CatalogueInvalid, load

PUBLISHED = Path(__file__).parents[3] / "catalog" / "shapes.yaml"
USD_PER_VCPU = {"compute": 0.03625, "general": 0.0408, "memory": 0.05355}
GIB_PER_VCPU = {"compute": 2, "general": 4, "memory": 8}
GPU_MACHINES = {
    "l4-small": (4, 16, 1, 0.8048),
    "l4-medium": (8, 32, 1, 0.9776),
    "l4-large": (48, 192, 4, 4.6016),
    "a10g-small": (4, 16, 1, 1.006),
    "a10g-large": (48, 192, 4, 5.672),
}
"""vCPUs, GiB, GPUs and US dollars per hour of g6.xlarge, g6.2xlarge, g6.12xlarge, g5.xlarge and g5.12xlarge."""
VCPU = {"xs": 2, "small": 4, "medium": 8, "large": 16, "xlarge": 32}
XS = "{name: compute-xs, family: compute, size: xs, vcpu: 2, memory_gib: 4, usd_per_hour: 0.07}"


def test_the_published_catalogue_has_every_shape_without_gpus() -> None:
    shapes = [shape for shape in load(PUBLISHED).shapes if not shape.gpu_count]

    assert [(shape.family, shape.size) for shape in shapes] == [
        (family, size) for family in USD_PER_VCPU for size in VCPU
    ]
    for shape in shapes:
        assert shape.vcpu == VCPU[shape.size]
        assert shape.memory_gib == shape.vcpu * GIB_PER_VCPU[shape.family]
        assert shape.usd_per_hour == pytest.approx(shape.vcpu * USD_PER_VCPU[shape.family])


def test_the_published_catalogue_has_every_shape_with_gpus() -> None:
    shapes = [shape for shape in load(PUBLISHED).shapes if shape.gpu_count]
    assert {
        shape.name: (shape.vcpu, shape.memory_gib, shape.gpu_count, shape.usd_per_hour) for shape in shapes
    } == GPU_MACHINES
    assert all(shape.gpu_model == shape.family for shape in shapes)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("shapes: [", "is not valid YAML"),
        ("shapes: []", "at least 1 item"),
        ("- 1", "valid dictionary"),
        (f"shapes: [{XS.replace('vcpu: 2', 'vcpu: 0')}]", "vcpu"),
        (f"shapes: [{XS.replace('vcpu', 'vcpus')}]", "vcpus"),
        (f"shapes: [{XS.replace('name: compute-xs', 'name: c7g')}]", "c7g must be named compute-xs"),
        (f"shapes: [{XS}, {XS}]", "compute-xs more than once"),
    ],
)
def test_the_error_names_the_mistake(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(text)
    with pytest.raises(CatalogueInvalid, match=problem) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CatalogueInvalid, match=r"none\.yaml cannot be read"):
        load(tmp_path / "none.yaml")
