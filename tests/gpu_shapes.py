"""A catalogue with GPUs: the default shapes without GPUs, and shapes with GPUs of two models."""

from pathlib import Path
from typing import Any

import yaml
from clusterra_lab.stack.services import CATALOGUE

_SHAPES = (
    {"name": "l4-small", "vcpu": 4, "memory_gib": 16, "usd_per_hour": 0.8, "gpu_count": 1},
    {"name": "l4-large", "vcpu": 48, "memory_gib": 192, "usd_per_hour": 4.6, "gpu_count": 4},
    {"name": "h100-xlarge", "vcpu": 32, "memory_gib": 256, "usd_per_hour": 55.0, "gpu_count": 8},
)


def catalogue_with_gpus(folder: Path) -> Path:
    """Write the catalogue to a file in the folder, and return the file."""
    shapes: list[dict[str, Any]] = yaml.safe_load(CATALOGUE.read_text())["shapes"]
    written = [shape for shape in shapes if not shape.get("gpu_count")]
    for shape in _SHAPES:
        model, _, size = str(shape["name"]).partition("-")
        written.append({**shape, "family": model, "size": size, "gpu_model": model})
    file = folder / "shapes.yaml"
    file.write_text(yaml.safe_dump({"shapes": written}))
    return file
