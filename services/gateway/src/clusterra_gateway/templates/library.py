"""Finds templates: those of the installation, and those of a tenant."""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import structlog
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_templates.catalogue import Folder, load_folder
from clusterra_templates.definitions import DEFINITION, AnyPreset, Definition, Runnable
from clusterra_templates.parts import Nextflow
from pydantic import ValidationError

from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.templates.records import TemplateRecord, TemplateRecords

log = structlog.get_logger()

MAX_TEMPLATES = 500
"""How many templates a tenant may have."""
KEPT_DEFINITIONS = 1000
"""How many definitions of tenants a replica keeps parsed. A version never changes, so that they stay right."""
READS_AT_ONCE = 20
PIPELINE_REPO = "pipeline_repo"
"""The parameter of a template that runs any pipeline."""


@dataclass(frozen=True)
class Found:
    """A template that somebody may look at."""

    definition: Definition
    origin: Literal["installation", "workspace"]
    version: int | None = None
    """None for one of the installation."""
    published: bool = True

    @property
    def ready(self) -> bool:
        """Whether it can be submitted."""
        return self.definition.ready and self.published


def load_catalogue(folder: Path | None) -> dict[str, Definition]:
    """The definitions of the installation. A file that cannot be read is logged, and the others are served.

    They are read again only after a file has changed: to check the 20 that we ship takes 0.3 s of CPU.
    """
    if folder is None:
        return {}
    try:
        found = _loaded(folder, _versions(folder))
    except OSError as error:
        log.error("templates_unreadable", folder=str(folder), reason=error.strerror)  # noqa: TRY400
        return {}
    for problem in found.problems:
        log.error("template_unreadable", reason=problem)
    return dict(found.definitions)


@lru_cache(maxsize=4)
def _loaded(folder: Path, _: tuple[tuple[str, int, int], ...]) -> Folder:
    return load_folder(folder)


def _versions(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and size of each definition of a folder. Raises OSError."""
    found = ((file.name, file.stat()) for file in sorted(folder.glob("*.yaml")))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


class Library:
    """The templates that a tenant has. A template of its own hides one of the installation with the same id."""

    def __init__(self, catalogue: dict[str, Definition], records: TemplateRecords) -> None:
        self._catalogue = catalogue
        self._records = records
        self._parsed = BoundedCache[tuple[str, str, int], Definition | None](KEPT_DEFINITIONS)

    async def all(self, tenant: str) -> list[Found]:
        """All templates, in the order of their ids. Raises StoreUnavailable."""
        found = {each: Found(definition, "installation") for each, definition in self._catalogue.items()}
        records = await self._records.all(tenant)
        turns = asyncio.Semaphore(READS_AT_ONCE)

        async def read(record: TemplateRecord) -> Found | None:
            async with turns:
                return await self._of(tenant, record)

        for record, own in zip(records, await asyncio.gather(*map(read, records)), strict=True):
            if own is not None and (own.published or record.template_id not in found):
                found[record.template_id] = own
        return [found[each] for each in sorted(found)]

    async def one(self, tenant: str, template_id: str) -> Found:
        """A template. Raises NotFound, StoreUnavailable."""
        own = await self._records.read(tenant, template_id)
        shared = self._catalogue.get(template_id)
        if own is not None and not own[0].deleted:
            found = await self._of(tenant, own[0])
            if found is not None and (found.published or shared is None):
                return found
        if shared is None:
            raise NotFound("there is no such template", hint="GET /v1/templates lists them")
        return Found(shared, "installation")

    async def version(self, tenant: str, template_id: str, number: int) -> Definition | None:
        """The definition of a version of a tenant's template; None when there is none, or it cannot be read."""
        place = (tenant, template_id, number)
        if place in self._parsed:
            return self._parsed.get(place)
        stored = await self._records.version(tenant, template_id, number)
        if stored is None:
            return None
        parsed = _parsed(template_id, stored.model)
        self._parsed.put(place, parsed)
        return parsed

    async def parent(self, tenant: str, preset: AnyPreset) -> Runnable:
        """The template that a preset is for. Raises NotFound, Conflict."""
        if preset.parent_id is not None:
            candidates = [(await self.one(tenant, preset.parent_id)).definition]
        else:
            candidates = [each.definition for each in await self.all(tenant) if each.ready]
        keys = {each.key for each in preset.parameters}
        fitting = [each for each in candidates if isinstance(each, Runnable) and _runs(each, preset.pipeline_repo)]
        # A template of this very pipeline comes before one that runs any pipeline.
        fitting.sort(key=lambda each: getattr(each.runtime, "pipeline_repo", None) != preset.pipeline_repo)
        for definition in fitting:
            if preset.parent_id is not None or keys <= {each.key for each in definition.parameters}:
                return definition
        raise Conflict(
            f"there is no template for the pipeline {preset.pipeline_repo}", hint="add one, and name it in `parent_id`"
        )

    async def _of(self, tenant: str, record: TemplateRecord) -> Found | None:
        definition = await self.version(tenant, record.template_id, record.shown)
        if definition is None:
            return None
        return Found(definition, "workspace", record.shown, record.published is not None)


def _runs(definition: Runnable, pipeline_repo: str) -> bool:
    """Whether a template runs this pipeline, or any that its parameter `pipeline_repo` names."""
    if not isinstance(definition.runtime, Nextflow):
        return False
    any_pipeline = any(each.key == PIPELINE_REPO for each in definition.parameters)
    return any_pipeline or definition.runtime.pipeline_repo == pipeline_repo


def _parsed(template_id: str, model: str) -> Definition | None:
    try:
        return DEFINITION.validate_json(model)
    except ValidationError as error:
        # Another release stored it. Not the error's text: it repeats the definition.
        log.error("template_unreadable", template=template_id, problems=error.error_count())  # noqa: TRY400
        return None
