"""Starts `clusterra` from one file: this is the `__main__` of dist/clusterra.pyz, which tools/build_zipapp.py makes.

Compiled modules cannot be loaded from a zip, so all of it is unpacked once, into a folder of the person's cache that
only the person can write. The folder has the hash of the contents in its name. It is filled beside its place and then
renamed, so a folder with that name is whole, whoever else starts at the same time. Folders of other versions go once
they are unused for a month.
"""

import compileall
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

HASH = "@HASH@"
VERSIONS = "@VERSIONS@"
"""The Pythons that the file is for, such as `3.12 3.13`."""
COMMON = "common/"
NAMES = {"clusterra-slurm": "clusterra_cli.slurm_commands.program"}
"""Programs besides `clusterra`, by the name of the file or of a link to it."""
DAY = 86400.0
UNUSED_DAYS = 30.0
"""How long a folder is kept after its last start. A program loads modules from it as long as it runs."""
OURS = re.compile(r"filling-\w+|[0-9a-f]{32}-\d+\.\d+")


class Unsafe(Exception):
    """Somebody else could write where the programs would be unpacked."""


def own_folder(path: Path) -> Path:
    """Make a folder, or take the one that is there if nobody else can write it. Raises Unsafe, OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_others(path)
    return path


def refuse_others(path: Path) -> None:
    """Raise Unsafe for a link, for the folder of another user, and for one that others can write."""
    found = path.lstat()
    writable = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and (found.st_uid != os.geteuid() or writable)):
        raise Unsafe(f"{path} is not a folder that only you can write: remove it")


def unpacked(archive: Path, cache: Path, version: str) -> Path:
    """The folder with the modules for a version of Python such as `3.12`. Raises Unsafe, OSError."""
    folder = own_folder(cache) / f"{HASH}-{version}"
    if not folder.is_symlink() and folder.exists():
        refuse_others(folder)
        note_use(folder)
        return folder
    remove_unused(cache)
    filling = Path(tempfile.mkdtemp(prefix="filling-", dir=cache))
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                for prefix in (COMMON, f"{version}/"):
                    if name.startswith(prefix):
                        target = filling / name.removeprefix(prefix)
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(packed.read(name))
        compileall.compile_dir(filling, quiet=2, stripdir=str(filling), prependdir=str(folder))
        try:
            filling.rename(folder)
        except OSError:
            # Another start was faster, or there is something else: the check below tells them apart.
            shutil.rmtree(filling)
    except BaseException:
        shutil.rmtree(filling, ignore_errors=True)
        raise
    refuse_others(folder)
    return folder


def note_use(folder: Path) -> None:
    """Set the time of a folder's last use, once a day. A folder that cannot be changed is used all the same."""
    with suppress(OSError):
        if time.time() - folder.stat().st_mtime > DAY:
            os.utime(folder)


def remove_unused(cache: Path) -> None:
    """Remove what other versions, and starts that were ended in the middle, have left."""
    for path in cache.iterdir():
        with suppress(OSError):
            if OURS.fullmatch(path.name) and time.time() - path.lstat().st_mtime > UNUSED_DAYS * DAY:
                shutil.rmtree(path, ignore_errors=True)


def cache_folder() -> Path:
    """Where the programs are unpacked: CLUSTERRA_UNPACKED, or a folder of the person's cache."""
    if given := os.environ.get("CLUSTERRA_UNPACKED"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "clusterra-programs"


def main() -> None:
    """Unpack what is missing, and run the program."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version not in VERSIONS.split():
        sys.exit(f"clusterra: this file is for Python {VERSIONS.replace(' ', ', ')}, and this is {version}")
    archive = Path(sys.argv[0]).resolve()
    try:
        folder = unpacked(archive, cache_folder(), version)
    except (Unsafe, OSError, RuntimeError) as error:
        sys.exit(f"clusterra: it cannot be unpacked: {error}\nCLUSTERRA_UNPACKED=FOLDER names another place")
    # In place of the zip, so that nothing is taken from both.
    sys.path[0] = str(folder)
    name = Path(sys.argv[0]).name
    from importlib import import_module

    commands = import_module(NAMES["clusterra-slurm"])
    slurms = name in (*commands.COMMANDS, *NAMES)
    (commands if slurms else import_module("clusterra_cli.app")).main()


if __name__ == "__main__":
    main()
