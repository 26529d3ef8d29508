"""Renders the paths of a definition: those that its job writes, and those of the files that are staged for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from clusterra_templates.definitions import OwnBatch, Runnable
from clusterra_templates.parts import Outputs
from clusterra_templates.pieces import Piece, Placed, RenderBounds, Value, joined
from clusterra_templates.problems import RenderRefused
from clusterra_templates.sources import template

_PATH = re.compile(r"[A-Za-z0-9_./:+,=%-]*")
_SLASHES = re.compile(r"/{2,}")
"""A value that is a folder may end with a slash, and the template goes on with one."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class StagedPaths:
    """The files that are staged for a job, as a submit names them."""

    current_working_directory: str
    stage_in: tuple[tuple[str, str], ...]
    """The source of each, in the bucket, and its destination."""
    stage_out: tuple[tuple[str, str], ...]
    """The source of each, a pattern, and its destination, a folder of the bucket."""


def output_paths(
    definition: Runnable, outputs: Outputs | None, names: Mapping[str, Value], bounds: RenderBounds
) -> tuple[str | None, dict[str, str]]:
    """The folder that a job writes to, and the paths of its artifacts by their keys. Raises RenderRefused."""
    if outputs is None:
        return None, {}
    directory = _path(definition, outputs.dir, names, bounds)
    known: dict[str, Value] = {**names, "outputs": {"dir": directory}}
    return directory, {each.key: _path(definition, each.path, known, bounds) for each in outputs.artifacts}


def staged_paths(definition: Runnable, names: Mapping[str, Value], bounds: RenderBounds) -> StagedPaths | None:
    """The files that are staged for a job; None where there are none. Raises RenderRefused.

    Whether the caller may use these paths is decided where they are staged, as for the paths of any submit.
    """
    staging = definition.staging if isinstance(definition, OwnBatch) else None
    if staging is None:
        return None
    stage_in = tuple(
        (source, _staged(definition, each.destination, names, bounds))
        for each in staging.stage_in
        if (source := _source(definition, each.source, names, bounds))
    )
    stage_out = tuple(
        (source, _staged(definition, each.destination, names, bounds))
        for each in staging.stage_out
        if (source := _staged(definition, each.source, names, bounds))
    )
    if not stage_in and not stage_out:
        return None
    folder = _staged(definition, staging.current_working_directory, names, bounds)
    return StagedPaths(folder, stage_in=stage_in, stage_out=stage_out)


def _staged(definition: Runnable, source: str, names: Mapping[str, Value], bounds: RenderBounds) -> str:
    return _SLASHES.sub("/", _path(definition, source, names, bounds))


def _source(definition: Runnable, source: str, names: Mapping[str, Value], bounds: RenderBounds) -> str:
    """A path in the bucket. A value in it may be any path that a file can have there, such as one with spaces."""
    path = _SLASHES.sub("/", joined(_pieces(definition, source, names, bounds)))
    if _CONTROL.search(path) or ".." in path.split("/"):
        raise RenderRefused(f"the path {path[:100]!r} has a control character or a `..`: change the value")
    return path


def _path(definition: Runnable, source: str, names: Mapping[str, Value], bounds: RenderBounds) -> str:
    pieces = _pieces(definition, source, names, bounds)
    for piece in pieces:
        if isinstance(piece, Placed) and (not _PATH.fullmatch(piece.text) or ".." in piece.text.split("/")):
            raise RenderRefused(
                f"the value {piece.text[:60]!r} stands in a path: use letters, digits and _./:+,=%- only, and no `..`"
            )
    path = joined(pieces)
    if "@" in path or ".." in path.split("/") or "\n" in path:
        raise RenderRefused(f"the path {path[:100]!r} has an @, a `..` or a new line: change the template")
    return path


def _pieces(definition: Runnable, source: str, names: Mapping[str, Value], bounds: RenderBounds) -> list[Piece]:
    return template(definition, source).pieces(names, bounds)
