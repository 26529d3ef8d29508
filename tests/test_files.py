"""A person's files in the bucket of the whole lab, and what the history and the audit have of them."""

import hashlib
import json
from typing import Any

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from yarl import URL

CONTENT = b"sample,reads\nA,12\n"


def cluster_path(lab: Stack, rest: str) -> str:
    return f"/v1/clusters/{lab.cluster.cluster}/{rest}"


async def presigned(lab: Stack, user: User, **wanted: Any) -> dict[str, Any]:
    async with user.session.post(cluster_path(lab, "storage/presigned-url"), json=wanted) as answer:
        assert answer.status == 200, await answer.text()
        signed: dict[str, Any] = await answer.json()
        return signed


async def test_a_file_goes_to_the_bucket_and_its_delete_to_the_audit(lab: Stack, ada: User) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()

    put = await presigned(lab, ada, path="data/samples.csv", size=len(CONTENT), sha256=digest)
    async with ada.session.put(URL(put["url"], encoded=True), data=CONTENT, headers=put["headers"]) as answer:
        assert answer.status == 200, await answer.text()
    get = await presigned(lab, ada, path="data/samples.csv", method="GET")
    async with ada.session.get(URL(get["url"], encoded=True)) as answer:
        assert await answer.read() == CONTENT
    async with lab.user("grace@acme.example") as grace:
        theirs = await presigned(lab, grace, path="data/samples.csv", method="GET")
        async with grace.session.get(URL(theirs["url"], encoded=True)) as answer:
            assert answer.status == 404
        async with grace.session.get(cluster_path(lab, "files"), params={"path": "data"}) as answer:
            assert (await answer.json())["files"] == []
    async with ada.session.delete(cluster_path(lab, "files"), params={"path": "data/samples.csv"}) as answer:
        assert answer.status == 204, await answer.text()

    async def audited() -> bool:
        async with ada.session.get(cluster_path(lab, "audit")) as answer:
            entries = [json.loads(line) for line in (await answer.text()).splitlines()]
        return [(entry["actor"], entry["detail"]) for entry in entries if entry["action"] == "file.deleted"] == [
            ("ada", "data/samples.csv")
        ]

    await until(audited, seconds=60, what="the delete in the audit")
