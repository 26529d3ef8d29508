"""Writes container images without a container engine, in the format of `docker save`, which containerd imports."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import run

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageNotMade(LabProblem):
    """The files for an image could not be read; the text says why."""


def write_image(archive: Path, name: str, files: Mapping[str, Path], command: Sequence[str]) -> None:
    """Write an image for this machine's architecture to the tar file `archive`.

    `files` maps paths in the image to files of this machine. In the image, root owns them and everybody may execute
    them. A container of the image runs `command`.
    """
    with TemporaryDirectory() as folder:
        _write(archive, name, [_layer(Path(folder), files)], command)


async def write_root_image(
    archive: Path, name: str, root: Path, files: Mapping[str, Path], command: Sequence[str], *, without: Sequence[str]
) -> None:
    """Write an image of the root file system `root`, with its owners and modes, and of `files` on top of it.

    Paths that match `without` (patterns of tar) are left out. The function writes some hundred megabytes twice. Raises
    ImageNotMade.
    """
    with TemporaryDirectory(dir=archive.parent) as workshop:
        folder = Path(workshop)
        layer = folder / "root.tar"
        argv = ["tar", "--create", f"--file={layer}", f"--directory={root}", "--numeric-owner", "--one-file-system"]
        argv += [*(f"--exclude=./{path}" for path in without), "."]
        packed = await run("tar", argv, log=folder / "tar.log")
        if packed.exit_code != 0:
            raise ImageNotMade(f"tar could not pack {root}: {packed.tail()}")
        _write(archive, name, [layer, _layer(folder, files)], command)


def _layer(folder: Path, files: Mapping[str, Path]) -> Path:
    layer = folder / "files.tar"
    with tarfile.open(layer, "w") as tar:
        for path, source in files.items():
            _add(tar, path.lstrip("/"), source.read_bytes(), mode=0o755)
    return layer


def _write(archive: Path, name: str, layers: Sequence[Path], command: Sequence[str]) -> None:
    digests = [_digest(layer) for layer in layers]
    machine = platform.machine()
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": {"Entrypoint": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    entries = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": entries}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, config_name, config)
        for entry, layer in zip(entries, layers, strict=True):
            tar.add(layer, entry)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))
