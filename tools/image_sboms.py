"""Writes a software bill of materials (CycloneDX, JSON) of each image of docker-bake.hcl that the engine has.

`python tools/image_sboms.py SYFT FOLDER [TARGET ...]`: SYFT is the program of that name. The tags follow from the
variables of docker-bake.hcl, such as VERSION.
"""

import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter


class Target(BaseModel):
    """A target of `docker buildx bake --print`."""

    model_config = ConfigDict(extra="ignore")

    tags: list[str]


class Bake(BaseModel):
    """What `docker buildx bake --print` prints."""

    model_config = ConfigDict(extra="ignore")

    target: dict[str, Target]


class Bom(BaseModel):
    """A bill of materials, as far as it is checked here."""

    model_config = ConfigDict(extra="ignore")

    components: list[object]


def tags(targets: list[str]) -> list[str]:
    """Returns the first tag of each target, by default of all. Raises CalledProcessError."""
    command = ["docker", "buildx", "bake", "--file=docker-bake.hcl", "--progress=quiet", "--print", *targets]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return [target.tags[0] for target in Bake.model_validate_json(printed).target.values()]


def write_bom(syft: str, image: str, file: Path) -> int:
    """Write the bill of materials of an image; returns its number of components. Raises CalledProcessError."""
    subprocess.run([syft, "scan", "--quiet", f"docker:{image}", f"--output=cyclonedx-json={file}"], check=True)
    return len(TypeAdapter(Bom).validate_json(file.read_bytes()).components)


def main() -> None:
    """Write the files, and print one line for each."""
    syft, folder, *targets = sys.argv[1:]
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    for image in tags(targets):
        file = directory / f"{image.rpartition('/')[2].partition(':')[0]}.cdx.json"
        print(f"{file}: {write_bom(syft, image, file)} components")


if __name__ == "__main__":
    main()
