"""Makes the worker image without a container engine: the lab's Debian root with the scripts of images/slurm."""

import hashlib
from pathlib import Path

from clusterra_lab.kube.image import write_root_image
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.file_lock import exclusive_lock
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.slurm.config import SCRIPTS
from clusterra_lab.slurm.directory import IMAGES
from clusterra_lab.slurm.root import ensure_root

NAME = "lab.clusterra.dev/slurmd"
TAG = "1"
_SCRIPTS = ("slurmd-entrypoint", "slurmd-pre-stop", "machine-size", "prolog", "epilog", "task-prolog")
_WITHOUT = (
    "usr/bin/aria_*",
    "usr/bin/innochecksum",
    "usr/bin/maria*",
    "usr/bin/my*",
    "usr/lib/*/perl",
    "usr/lib/*/perl5",
    "usr/sbin/mariadbd",
    "usr/share/clusterra",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/mariadb",
    "usr/share/perl*",
    "var/cache/*",
    "var/lib/apt",
    "var/log/*",
)
"""Files of the root that no job needs, such as the database; they are half of it. The scripts need perl-base."""
_BUILD_SECONDS = 600.0


async def ensure_slurmd_image(progress: Progress = silent) -> Path:
    """Return an archive with the image NAME:TAG from the cache; it is made when missing, in some seconds.

    Raises RootNotBuilt, ImageNotMade.
    """
    root = await ensure_root(progress)
    scripts = {f"{SCRIPTS}/{name}": IMAGES / name for name in _SCRIPTS}
    archive = cache_dir() / f"slurmd-{_recipe(root)}.tar"
    if not archive.exists():
        async with exclusive_lock(
            archive.with_suffix(".lock"), seconds=_BUILD_SECONDS, what="the same image", progress=progress
        ):
            # Another lab may have made it while this one waited for the lock.
            if not archive.exists():
                progress("making the worker image")
                unfinished = archive.with_suffix(".building")
                command = [f"{SCRIPTS}/slurmd-entrypoint"]
                await write_root_image(unfinished, f"{NAME}:{TAG}", root, scripts, command, without=_WITHOUT)
                unfinished.rename(archive)
    return archive


def _recipe(root: Path) -> str:
    recipe = hashlib.sha256("\0".join((str(root), *_WITHOUT)).encode())
    for name in _SCRIPTS:
        recipe.update((IMAGES / name).read_bytes())
    return recipe.hexdigest()[:12]
