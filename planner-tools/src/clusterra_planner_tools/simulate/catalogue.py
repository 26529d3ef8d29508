"""Reads shapes, prices and boot times from a catalogue file."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import yaml
from clusterra_contracts.demand import Need
from clusterra_contracts.identity import Wire
from clusterra_contracts.shapes import Catalogue as ShapeCatalogue
from clusterra_contracts.shapes import Family, Shape, Size
from clusterra_scaler.planner.packing.items import Offering
from clusterra_scaler.planner.placement.shape_choice import family_of
from pydantic import AliasChoices, Field, ValidationError

from clusterra_planner_tools.simulate.trace import Job

BOOT_SECONDS = 60.0
"""The boot time where the file gives none."""
_MIB_PER_GIB = 1024


class CatalogueUnreadable(ValueError):
    """The file is not a catalogue. The text names the file and what to correct."""


class _Entry(Wire):
    """A shape in a file; `price` and `usd_per_hour` are both in USD per hour."""

    name: str = Field(min_length=1)
    family: str = ""
    vcpu: int = Field(ge=1)
    memory_gib: float = Field(gt=0, allow_inf_nan=False)
    price: float = Field(gt=0, allow_inf_nan=False, validation_alias=AliasChoices("price", "usd_per_hour"))
    real_memory_mib: int | None = Field(default=None, ge=1)
    gpu_count: int = Field(default=0, ge=0)
    gpu_model: str = ""


class _File(Wire):
    boot_seconds: float = Field(default=BOOT_SECONDS, ge=0, allow_inf_nan=False)
    shapes: tuple[_Entry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The shapes of a file, as offerings for the packing and as shapes for the family policy."""

    offerings: tuple[Offering, ...]
    shapes: ShapeCatalogue

    def __getitem__(self, shape: str) -> Offering:
        """The offering of this name. Raises KeyError."""
        for offering in self.offerings:
            if offering.shape == shape:
                return offering
        raise KeyError(shape)

    @property
    def most_cpus(self) -> int:
        """The CPUs of the biggest shape."""
        return max(each.cpus for each in self.offerings)

    def fitting(self, job: Job) -> list[Offering]:
        """The offerings that hold one node's share of the job, the cheapest first."""
        fitting = [
            each
            for each in self.offerings
            if job.cpus <= each.cpus
            and job.memory_gib <= each.memory_gib
            and job.gpus <= each.gpus
            and (job.shapes is None or each.shape in job.shapes)
        ]
        return sorted(fitting, key=lambda each: each.usd_per_second)


def read(path: Path, boot_seconds: float | None = None) -> Catalogue:
    """Read the shapes without GPUs; `boot_seconds` overrides the file's. Raises CatalogueUnreadable."""
    # No job of a trace requests GPUs, and workers with GPUs are never bought for other jobs.
    without, _ = read_parts(path, boot_seconds)
    if without is None:
        raise CatalogueUnreadable(
            f"{path}: all shapes have GPUs, which no job of a trace requests; add shapes without GPUs"
        )
    return without


def read_parts(path: Path, boot_seconds: float | None = None) -> tuple[Catalogue | None, Catalogue | None]:
    """Read the shapes without GPUs and those with GPUs; None where there are none. Raises CatalogueUnreadable."""
    try:
        file = _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CatalogueUnreadable(f"{path}: {error.strerror}; name a YAML file with a list `shapes`") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueUnreadable(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}" for each in error.errors())
        raise CatalogueUnreadable(f"{path}: {wrong}; a shape needs name, vcpu, memory_gib and price") from error
    names = [entry.name for entry in file.shapes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CatalogueUnreadable(f"{path}: duplicate shapes: {', '.join(twice)}; keep one of each")
    boot = file.boot_seconds if boot_seconds is None else boot_seconds
    without = [entry for entry in file.shapes if not entry.gpu_count]
    having = [entry for entry in file.shapes if entry.gpu_count]
    return _catalogue(without, boot), _catalogue(having, boot)


def _catalogue(entries: list[_Entry], boot: float) -> Catalogue | None:
    if not entries:
        return None
    return Catalogue(
        tuple(_offering(entry, boot) for entry in entries),
        ShapeCatalogue(shapes=tuple(_shape(entry) for entry in entries)),
    )


def memory_mib(memory_gib: float) -> int:
    """The memory in MiB, rounded up."""
    return math.ceil(memory_gib * _MIB_PER_GIB - 1e-6)


def _memory_mib(entry: _Entry) -> int:
    return entry.real_memory_mib or int(entry.memory_gib * _MIB_PER_GIB)


def _offering(entry: _Entry, boot_seconds: float) -> Offering:
    return Offering(
        shape=entry.name,
        cpus=entry.vcpu,
        memory_gib=_memory_mib(entry) / _MIB_PER_GIB,
        usd_per_second=entry.price / 3600.0,
        boot_seconds=boot_seconds,
        gpus=entry.gpu_count,
    )


def _shape(entry: _Entry) -> Shape:
    """The shape for the family policy, which uses family, CPUs and memory; its size is arbitrary."""
    memory_mib = _memory_mib(entry)
    families: tuple[Family, ...] = get_args(Family)
    sizes: tuple[Size, ...] = get_args(Size)
    given = [family for family in families if family == entry.family]
    return Shape.model_construct(
        name=entry.name,
        family=given[0] if given else family_of(Need(cpus=entry.vcpu, memory_mib=memory_mib)),
        size=sizes[0],
        vcpu=entry.vcpu,
        memory_gib=entry.memory_gib,
        usd_per_hour=entry.price,
        real_memory_mib=memory_mib,
        gpu_count=entry.gpu_count,
        gpu_model=entry.gpu_model,
    )
