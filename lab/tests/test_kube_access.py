"""A failed kubectl names what it did, but none of its arguments: they may hold a token."""

from pathlib import Path

import pytest
from clusterra_lab.kube.access import KubectlFailed, Kubernetes

TOKEN = "eyJhbGciOi"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("exec", "deployment/admin", "--", "env", f"SLURM_JWT={TOKEN}", "sbatch"), "kubectl exec: "),
        (("create", "secret", "generic", "key", f"--from-literal=key={TOKEN}"), "kubectl create secret: "),
        ((f"--token={TOKEN}", "get", "pods"), "kubectl (options): "),
        (("patch", "secret", "key", "-p", TOKEN), "kubectl patch secret: "),
    ],
)
async def test_an_error_shows_no_arguments(tmp_path: Path, argv: tuple[str, ...], shown: str) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    kubectl.chmod(0o755)

    with pytest.raises(KubectlFailed) as failed:
        await Kubernetes("https://127.0.0.1:1", tmp_path / "config", tmp_path, tmp_path).kubectl(*argv)

    assert str(failed.value) == f"{shown}no such thing"
