"""The digests of a release in the kustomize component."""

import json
from pathlib import Path

import pytest
import yaml
from image_digests import image, unfilled, with_digests
from pydantic import ValidationError

COMPONENT = Path(__file__).parents[2] / "k8s/central/components/digests/kustomization.yaml"
DIGEST = "sha256:" + "a1" * 32


def _metadata(name: str, digest: str = DIGEST) -> bytes:
    return json.dumps({"any": {"containerimage.digest": digest, "image.name": name, "buildx.build.ref": "x"}}).encode()


@pytest.mark.parametrize(
    ("pushed", "repository"),
    [
        ("registry.example.org:5000/hpc/clusterra-proxy:1.2", "registry.example.org:5000/hpc/clusterra-proxy"),
        ("one.example.org/clusterra-proxy:1.2,two.example.org/clusterra-proxy:1", "one.example.org/clusterra-proxy"),
        ("registry.example.org:5000/clusterra-proxy", "registry.example.org:5000/clusterra-proxy"),
    ],
)
def test_a_pushed_image_gets_its_repository_and_digest_and_the_others_stay(pushed: str, repository: str) -> None:
    before = COMPONENT.read_text()

    after = with_digests(before, _metadata(pushed))

    images = {image.pop("name"): image for image in yaml.safe_load(after)["images"]}
    assert images.pop("clusterra-proxy") == {"newName": repository, "digest": DIGEST}
    others = {image.pop("name"): image for image in yaml.safe_load(before)["images"]}
    del others["clusterra-proxy"]
    assert images == others
    assert after.startswith(before[: before.index("images:")])


def test_a_new_image_is_added_and_a_second_run_changes_nothing() -> None:
    metadata = _metadata("registry.example.org/clusterra-edge:1.2")

    once = with_digests(COMPONENT.read_text(), metadata)

    assert f'newName: registry.example.org/clusterra-edge, digest: "{DIGEST}"' in once
    assert with_digests(once, metadata) == once


@pytest.mark.parametrize("digest", ["", "sha256:1", "latest"])
def test_what_is_no_digest_is_rejected(digest: str) -> None:
    with pytest.raises(ValidationError):
        with_digests(COMPONENT.read_text(), _metadata("registry.example.org/clusterra-proxy:1", digest))


def test_a_component_with_more_than_images_is_rejected() -> None:
    with pytest.raises(ValidationError):
        with_digests(COMPONENT.read_text() + "resources: []\n", _metadata("registry.example.org/clusterra-proxy:1"))


def test_an_image_of_others_gets_the_given_digest_and_what_lacks_one_is_named() -> None:
    nats = image(f"nats=docker.io/library/nats@{DIGEST}")

    after = with_digests(COMPONENT.read_text(), _metadata("registry.example.org/clusterra-proxy:1.2"), [nats])

    assert f'{{name: nats, newName: docker.io/library/nats, digest: "{DIGEST}"}}' in after
    assert set(unfilled(COMPONENT.read_text())) - set(unfilled(after)) == {"nats", "clusterra-proxy"}
