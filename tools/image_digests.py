"""Writes the digests of pushed images into a kustomize component.

`python tools/image_digests.py METADATA COMPONENT [NAME=REPOSITORY@DIGEST ...]`: METADATA is what `docker buildx bake
--push --metadata-file` wrote, COMPONENT a kustomization with a list `images`. The further arguments are images of
others, such as NATS. An image that is in neither keeps its entry; one without a digest is named on standard error.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class Pushed(BaseModel):
    """What the builder says of one target."""

    model_config = ConfigDict(extra="ignore")

    digest: Digest = Field(alias="containerimage.digest")
    names: str = Field(alias="image.name")
    """Repositories with tags, joined by commas."""

    @property
    def repository(self) -> str:
        """The first repository, without its tag."""
        path, slash, last = self.names.split(",")[0].rpartition("/")
        return f"{path}{slash}{last.partition(':')[0]}"


class Image(BaseModel):
    """An entry of kustomize's `images`: the image that manifests call `name`."""

    model_config = ConfigDict(extra="forbid")

    name: str
    new_name: str = Field(alias="newName")
    digest: Digest


class Component(BaseModel):
    """The kustomize component; other keys would be lost, so there must be none."""

    model_config = ConfigDict(extra="forbid")

    api_version: str = Field(alias="apiVersion")
    kind: Literal["Component"]
    images: list[Image]


def image(given: str) -> Image:
    """Parses `NAME=REPOSITORY@DIGEST`. Raises ValidationError."""
    name, _, reference = given.partition("=")
    repository, _, digest = reference.partition("@")
    return Image(name=name, newName=repository, digest=digest)


def unfilled(component: str) -> list[str]:
    """The images whose digest is zeros: no release has filled them. Raises ValidationError."""
    images = Component.model_validate(yaml.safe_load(component)).images
    return [image.name for image in images if image.digest.endswith(64 * "0")]


def with_digests(component: str, metadata: bytes, others: Sequence[Image] = ()) -> str:
    """Returns the text of the component with the pushed images; what precedes `images:` stays as it is.

    Raises ValidationError.
    """
    pushed = TypeAdapter(dict[str, Pushed]).validate_json(metadata).values()
    images = {image.name: image for image in Component.model_validate(yaml.safe_load(component)).images}
    for each in pushed:
        name = each.repository.rpartition("/")[2]
        images[name] = Image(name=name, newName=each.repository, digest=each.digest)
    images |= {image.name: image for image in others}
    head = component[: component.index("\nimages:")]
    lines = [
        f'- {{name: {image.name}, newName: {image.new_name}, digest: "{image.digest}"}}' for image in images.values()
    ]
    return "\n".join([head, "images:", *lines, ""])


def main() -> None:
    """Rewrite the component."""
    metadata, component = map(Path, sys.argv[1:3])
    written = with_digests(component.read_text(), metadata.read_bytes(), [image(given) for given in sys.argv[3:]])
    component.write_text(written)
    if missing := unfilled(written):
        sys.stderr.write(f"{component}: no digest for {', '.join(missing)}\n")


if __name__ == "__main__":
    main()
