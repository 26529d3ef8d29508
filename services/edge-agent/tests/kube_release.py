"""The overlays of k8s/edge/README.md, and the component with the images of a release, which they use."""

from pathlib import Path

_README = Path(__file__).parents[3] / "k8s" / "edge" / "README.md"
DIGESTS = "../clusterra/k8s/central/components/digests"
"""The component as those overlays name it."""
_COMPONENT = Path(__file__).parents[3] / "k8s" / "central" / "components" / "digests" / "kustomization.yaml"


def released_images(folder: Path) -> str:
    """Write the component, as a release fills it, below the folder of an overlay; returns its path there."""
    name = "digests"
    (folder / name).mkdir()
    filled = _COMPONENT.read_text().replace("registry.replace-me", "registry.example.com").replace(64 * "0", 64 * "a")
    (folder / name / "kustomization.yaml").write_text(filled)
    return name


def readme_overlays() -> list[str]:
    """The kustomizations that the page shows, in their order."""
    blocks = [block.partition("```")[0] for block in _README.read_text().split("```yaml\n")[1:]]
    return [block for block in blocks if "kind: Kustomization\n" in block]
