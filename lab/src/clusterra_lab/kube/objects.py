"""Kubernetes objects that a site adds to manifests: Secrets from files, and volumes on folders of the machine."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def secret(namespace: str, name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """A Secret with the content of each file under its key."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: base64.b64encode(file.read_bytes()).decode() for key, file in files.items()},
    }


def host_volume(namespace: str, claim: str, folder: Path, access: str, *, storage_class: str = "") -> dict[str, Any]:
    """A PersistentVolume for one claim, on a folder of the machine.

    Kubernetes does not change the owner of such a folder.
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claim},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": [access],
            "storageClassName": storage_class,
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
