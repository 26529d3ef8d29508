"""Makes dist/clusterra.pyz: `clusterra` and `clusterra-slurm` in one file, for each Python of VERSIONS.

The dependencies are those of cli/requirements.lock, with their hashes verified. `keyring` is not among them: it needs
compiled modules of other projects, and without it a token is in a file that only its owner can read. The file is for
the platform of this machine, or for the one that the second argument names as uv does, such as
`aarch64-manylinux_2_28`. The same sources make the same file.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from uv import find_uv_bin

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.12", "3.13", "3.14")
OWN = ("./libs/sdk", "./cli")
SHEBANG = b"#!/usr/bin/env python3\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def uv(*arguments: str) -> None:
    """Run a command of uv. Raises CalledProcessError."""
    subprocess.run([find_uv_bin(), *arguments], check=True, cwd=ROOT)


def modules(version: str, platform: str | None, folder: Path) -> dict[str, bytes]:
    """All files for one version of Python, by their paths below site-packages."""
    target = folder / "site"
    options = ("--quiet", "--target", str(target), "--python-version", version, "--no-deps", "--link-mode", "copy")
    locked = ("--require-hashes", "--only-binary", ":all:", "--requirements", "cli/requirements.lock")
    chosen = ("--python-platform", platform) if platform else ()
    uv("pip", "install", *options, *chosen, *locked)
    uv("pip", "install", *options, "--no-sources", *OWN)
    files = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(files.items()) if _is_needed(name)}


def _is_needed(name: str) -> bool:
    if name.startswith(("bin/", "share/", ".")) or "/__pycache__/" in name:
        return False
    # What says how and where a package was installed differs from build to build.
    return not name.endswith((".dist-info/RECORD", "direct_url.json", "uv_cache.json", "uv_build.json", "INSTALLER"))


def archived(by_version: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    """The files of the zip: those of all versions once in `common`, the others by version."""
    first = by_version[VERSIONS[0]]
    common = {name for name, data in first.items() if all(files.get(name) == data for files in by_version.values())}
    found = {f"common/{name}": first[name] for name in common}
    for version, files in by_version.items():
        found |= {f"{version}/{name}": data for name, data in files.items() if name not in common}
    return dict(sorted(found.items()))


def start(files: dict[str, bytes]) -> bytes:
    """The program that unpacks these files."""
    digest = hashlib.sha256()
    for name, data in files.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    text = (ROOT / "tools" / "zipapp_start.py").read_text()
    return text.replace("@HASH@", digest.hexdigest()[:32]).replace("@VERSIONS@", " ".join(VERSIONS)).encode()


def build(target: Path, platform: str | None = None) -> None:
    """Write the file. Raises CalledProcessError."""
    by_version: dict[str, dict[str, bytes]] = {}
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            by_version[version] = modules(version, platform, Path(folder))
    files = archived(by_version)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for name, data in ({"__main__.py": start(files)} | files).items():
                packed.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    target.chmod(0o755)


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])
