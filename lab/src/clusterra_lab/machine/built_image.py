"""Builds container images that no registry has, once: the name of an image follows from what it is built from."""

import asyncio
import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from docker.errors import DockerException  # type: ignore[import-untyped]

from clusterra_lab.machine.container import engine
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.progress import Progress


class ImageNotBuilt(LabProblem):
    """The engine could not build the image; the text has the engine's error."""


async def built_image(name: str, files: Mapping[str, str], content: str, progress: Progress) -> str:
    """Return the name and tag of the image that the Dockerfile among `files` makes; it is built when missing.

    `content` tells people what the image has. Raises NoContainerEngine, ImageNotBuilt.
    """
    recipe = "\0".join(text for pair in sorted(files.items()) for text in pair)
    tagged = f"{name}:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if not await asyncio.to_thread(_is_built, tagged):
        progress(f"building an image with {content} (a minute or two, once)")
        await asyncio.to_thread(_build, tagged, files)
    return tagged


def _is_built(name: str) -> bool:
    with engine() as client:
        return bool(client.images.list(name=name))


def _build(name: str, files: Mapping[str, str]) -> None:
    with engine() as client, tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            Path(folder, file).write_text(content)
        try:
            client.images.build(path=folder, tag=name, rm=True)
        except DockerException as error:
            raise ImageNotBuilt(f"the container engine could not build {name}: {error}") from error
