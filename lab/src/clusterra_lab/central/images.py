"""Builds the services' images with the machine's container engine, and packs them for a node's containerd."""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path

from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run
from clusterra_lab.machine.progress import Progress, silent

REPOSITORY = Path(__file__).parents[4]
IMAGES = tuple(f"clusterra-{name}" for name in ("gateway", "proxy", "scaler", "edge-agent", "events", "admin"))
NATS = "nats:2.14-alpine"
_BUILD_SECONDS = 1800.0


class ImagesNotBuilt(LabProblem):
    """The services' images cannot be built here; the text says what is needed."""


def image_tag() -> str:
    """The tag of this working tree's images: two trees on one machine build images of their own."""
    return f"lab-{hashlib.sha256(str(REPOSITORY).encode()).hexdigest()[:8]}"


async def ensure_images(progress: Progress = silent) -> Path:
    """Build the IMAGES with `image_tag` and return an archive of them and of NATS, made by `docker save`.

    A build without changes takes some seconds, and the archive then comes from the cache. Raises ImagesNotBuilt.
    """
    if shutil.which("docker") is None:
        raise ImagesNotBuilt("the services run in pods of their own images: install docker with buildx")
    tag, folder = image_tag(), cache_dir()
    async with exclusive_lock(
        folder / f"images-{tag}.lock", seconds=_BUILD_SECONDS, what="the build of the same images", progress=progress
    ):
        progress("building the images of the services")
        log = folder / f"images-{tag}.log"
        await _docker(log, "buildx", "bake", "--load", "services", VERSION=tag)
        names = [*(f"{image}:{tag}" for image in IMAGES), NATS]
        archive = folder / f"images-{tag}-{await _key(names, log)}.tar"
        if not archive.exists():
            progress("packing the images for the node")
            for earlier in folder.glob(f"images-{tag}-*.tar"):
                earlier.unlink()
            unfinished = archive.with_suffix(".part")
            await _docker(log, "save", "--output", str(unfinished), *names)
            unfinished.rename(archive)
    return archive


async def _key(names: list[str], log: Path) -> str:
    """A hash of the images' ids; an image that is not made here is pulled when it is missing."""
    if await _ids([NATS]) is None:
        await _docker(log, "pull", NATS)
    ids = await _ids(names)
    if ids is None:
        raise ImagesNotBuilt(f"the container engine has not all of {', '.join(names)} after their build; see {log}")
    return hashlib.sha256("\0".join(ids).encode()).hexdigest()[:12]


async def _ids(names: list[str]) -> list[str] | None:
    process = await asyncio.create_subprocess_exec(
        *("docker", "image", "inspect", *names),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return None if process.returncode else [image["Id"] for image in json.loads(output)]


async def _docker(log: Path, *argv: str, **variables: str) -> None:
    # BuildKit's own progress is for terminals.
    environment = {"BUILDKIT_PROGRESS": "plain", **variables}
    process = await run("docker", ["docker", *argv], log=log, cwd=REPOSITORY, env=environment)
    if process.exit_code != 0:
        raise ImagesNotBuilt(
            f"`docker {' '.join(argv[:2])}` ended with exit code {process.exit_code}. The central side in Kubernetes "
            f"needs a container engine with buildx that answers (`docker info`). The end of {log}:\n{process.tail()}"
        )
