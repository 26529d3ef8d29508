"""Reading the shape catalogue from a file: YAML with one list, `shapes`."""

from collections import Counter
from pathlib import Path

import yaml
from clusterra_contracts.shapes import Catalogue, Shape
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class CatalogueInvalid(ValueError):
    """The file is not a valid catalogue. The error names the file and what to correct."""


class _StrictShape(Shape):
    """Rejects unknown fields: in a file they are misspelt, while on the wire they come from a newer sender."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    shapes: tuple[_StrictShape, ...] = Field(min_length=1)


def load(path: Path) -> Catalogue:
    """Read a catalogue. Every shape has `vcpu`, `memory_gib`, `usd_per_hour` and the unique name `<family>-<size>`.

    Raises CatalogueInvalid.
    """
    try:
        document = yaml.safe_load(path.read_text())
        shapes = _File.model_validate(document).shapes
    except OSError as error:
        raise CatalogueInvalid(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise CatalogueInvalid(f"{path} is not valid YAML: {error}") from None
    except ValidationError as error:
        raise CatalogueInvalid(f"{path}: {error}") from None
    for shape in shapes:
        if shape.name != f"{shape.family}-{shape.size}":
            raise CatalogueInvalid(f"{path}: {shape.name} must be named {shape.family}-{shape.size}")
    repeated = [name for name, times in Counter(shape.name for shape in shapes).items() if times > 1]
    if repeated:
        raise CatalogueInvalid(f"{path} lists {', '.join(repeated)} more than once")
    return Catalogue(shapes=tuple(Shape.model_validate(shape.model_dump()) for shape in shapes))
