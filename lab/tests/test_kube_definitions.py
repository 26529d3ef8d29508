"""Definitions of other projects: pinned, downloaded once, and nothing but definitions."""

import re
from pathlib import Path

import pytest
from clusterra_lab.kube import definitions
from clusterra_lab.kube.definitions import PROJECTS, DefinitionsNotTaken, ensure_definitions

PINS = Path(__file__).parents[1] / "kube" / "definitions"
GO = """\
#!/bin/sh
echo "$@" >> "$DOWNLOADS"
folder="$GOMODCACHE/sigs.k8s.io/gateway-api@${3##*@}/config/crd/standard"
mkdir -p "$folder"
echo 'kind: CustomResourceDefinition' > "$folder/gateway.networking.k8s.io_gateways.yaml"
echo 'kind: ValidatingAdmissionPolicy' > "$folder/gateway.networking.k8s.io_vap.yaml"
%s
"""
"""A stand-in for `go mod download`."""


@pytest.fixture(autouse=True)
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each download, and an empty cache."""
    monkeypatch.setenv("CLUSTERRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOWNLOADS", str(tmp_path / "downloads"))
    return tmp_path / "downloads"


def use_go(folder: Path, monkeypatch: pytest.MonkeyPatch, *, then: str = "") -> None:
    folder.mkdir()
    (folder / "go").write_text(GO % then)
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")


def test_every_module_has_its_checksum() -> None:
    required = set(re.findall(r"^\s*(\S+\.\S+ v\S+)$", (PINS / "go.mod").read_text(), re.MULTILINE))

    sums = {line.rpartition(" ")[0] for line in (PINS / "go.sum").read_text().splitlines()}

    assert len(required) == len(PROJECTS)
    assert sums == required | {f"{module}/go.mod" for module in required}


async def test_definitions_are_downloaded_once_in_the_pinned_version(
    tmp_path: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_go(tmp_path / "go", monkeypatch)

    folders = {await ensure_definitions("gateway-api") for _ in range(2)}

    (folder,) = folders
    assert [file.name for file in folder.iterdir()] == ["gateway.networking.k8s.io_gateways.yaml"]
    (download,) = downloads.read_text().splitlines()
    assert download.removeprefix("mod download ").replace("@", " ") in (PINS / "go.mod").read_text()


async def test_a_failed_download_leaves_nothing_and_is_reported_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_go(tmp_path / "go", monkeypatch, then="echo checksum mismatch; exit 1")

    with pytest.raises(DefinitionsNotTaken, match=r"(?s)go mod ended with exit code 1 .*checksum mismatch.*GOPROXY"):
        await ensure_definitions("gateway-api")

    assert [path.suffix for path in definitions._folder().iterdir() if path.suffix not in (".lock", ".log")] == []


async def test_a_module_without_definitions_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_go(tmp_path / "go", monkeypatch)

    with pytest.raises(DefinitionsNotTaken, match="has no definitions in pkg/apis/crds"):
        await ensure_definitions("karpenter")


async def test_without_go_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")

    with pytest.raises(DefinitionsNotTaken, match="downloaded by 'go', which this machine does not have"):
        await ensure_definitions("karpenter")
