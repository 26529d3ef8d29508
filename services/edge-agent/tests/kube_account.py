"""Asks a real API server for the permissions of an account."""

import asyncio
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

type Right = tuple[str, str, str]
"""Verb, group and resource."""

LEASE: set[Right] = {("get", "coordination.k8s.io", "leases"), ("patch", "coordination.k8s.io", "leases")}
"""Permissions of any agent for its own Lease and for no other."""


@dataclass
class Account:
    """An account with a token that asks the API server for its permissions."""

    url: str
    http: aiohttp.ClientSession
    _concurrently: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))

    async def resources(self) -> set[tuple[str, str]]:
        """Returns group and name of all resources and subresources."""
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        found = []
        for path in ("/api", "/apis"):
            async with self.http.get(f"{self.url}{path}", headers=accept) as answer:
                found += (await answer.json(content_type=None))["items"]
        return {
            (group["metadata"].get("name", ""), name)
            for group in found
            for version in group["versions"]
            for resource in version["resources"]
            for name in _with_subresources(resource)
        }

    async def may(self, rights: Iterable[Right], namespace: str, name: str = "") -> set[Right]:
        """Returns which of these rights are granted: in a namespace or cluster-wide (""), for any object or `name`."""

        async def allowed(right: Right) -> bool:
            verb, group, whole = right
            resource, _, subresource = whole.partition("/")
            attributes = {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "name": name,
            }
            async with self._concurrently:
                review = await self._review(
                    "SelfSubjectAccessReview", resourceAttributes=attributes | {"namespace": namespace}
                )
            return bool(review["allowed"])

        asked = list(rights)
        answers = await asyncio.gather(*map(allowed, asked))
        return {right for right, answer in zip(asked, answers, strict=True) if answer}

    async def rules(self, namespace: str) -> set[Right]:
        """Returns group, resource or path, and verbs of all rules for a namespace, with resource names in brackets."""
        found = await self._review("SelfSubjectRulesReview", namespace=namespace)
        return {
            (group, resource + _in_brackets(rule.get("resourceNames", ())), ",".join(sorted(rule["verbs"])))
            for rule in found["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        } | {
            ("path", path, ",".join(sorted(rule["verbs"])))
            for rule in found["nonResourceRules"]
            for path in rule["nonResourceURLs"]
        }

    async def _review(self, kind: str, **spec: Any) -> Any:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        path = f"{self.url}/apis/authorization.k8s.io/v1/{kind.lower()}s"
        async with self.http.post(path, json=body) as answer:
            assert answer.status == 201, await answer.text()
            return (await answer.json())["status"]


def _in_brackets(names: Iterable[str]) -> str:
    return f"[{','.join(sorted(names))}]" if names else ""


def _with_subresources(resource: dict[str, Any]) -> Iterator[str]:
    yield resource["resource"]
    for below in resource.get("subresources", ()):
        yield f"{resource['resource']}/{below['subresource']}"


@asynccontextmanager
async def account(kubeconfig: Path) -> AsyncIterator[Account]:
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=trust)) as http:
        yield Account(cluster["server"], http)
