from pathlib import Path

import pytest
from clusterra_runtime.catalogue import CatalogueInvalid, load

PUBLISHED = Path(__file__).parents[3] / "catalog" / "shapes.yaml"
USD_PER_VCPU = {"compute": 0.03625, "general": 0.0408, "memory": 0.05355}
GIB_PER_VCPU = {"compute": 2, "general": 4, "memory": 8}
VCPU = {"xs": 2, "small": 4, "medium": 8, "large": 16, "xlarge": 32}
XS = "{name: compute-xs, family: compute, size: xs, vcpu: 2, memory_gib: 4, usd_per_hour: 0.07}"


def test_the_published_catalogue() -> None:
    shapes = load(PUBLISHED).shapes
    assert [(shape.family, shape.size) for shape in shapes] == [
        (family, size) for family in USD_PER_VCPU for size in VCPU
    ]
    for shape in shapes:
        assert shape.vcpu == VCPU[shape.size]
        assert shape.memory_gib == shape.vcpu * GIB_PER_VCPU[shape.family]
        assert shape.usd_per_hour == pytest.approx(shape.vcpu * USD_PER_VCPU[shape.family])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("shapes: [", "is no YAML"),
        ("shapes: []", "at least 1 item"),
        ("- 1", "valid dictionary"),
        (f"shapes: [{XS.replace('vcpu: 2', 'vcpu: 0')}]", "vcpu"),
        (f"shapes: [{XS.replace('vcpu', 'vcpus')}]", "vcpus"),
        (f"shapes: [{XS.replace('name: compute-xs', 'name: c7g')}]", "c7g must be named compute-xs"),
        (f"shapes: [{XS}, {XS}]", "compute-xs more than once"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(text)
    with pytest.raises(CatalogueInvalid, match=problem) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogueInvalid, match=r"none\.yaml cannot be read"):
        load(tmp_path / "none.yaml")
