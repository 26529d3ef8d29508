"""A user of another tenant gets 404 for everything of this tenant, on every route."""

import re

import pytest
from aiohttp import ClientSession
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack


async def test_every_route_answers_404_to_a_user_of_another_tenant(lab: Stack, ada: User, observer: Observer) -> None:
    job = await ada.submit("#!/bin/bash\necho secret\n", {"name": "private", "memory_per_cpu": 2048})
    await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the end of the job")

    async with lab.user("eve@globex.example") as eve:
        assert eve.profile.uid != 0

        async with eve.session.get("/v1/clusters") as response:
            assert lab.cluster.cluster not in {cluster["id"] for cluster in (await response.json())["clusters"]}
        async with eve.session.get("/v1/api-routes") as response:
            routes = (await response.json())["routes"]

        of_clusters = [route for route in routes if "{cluster_id}" in route["path"]]

        assert len(of_clusters) >= 8

        values = {
            "tenant_id": lab.cluster.tenant,
            "cluster_id": lab.cluster.cluster,
            "job_id": job.job_id,
            "version": "v0.0.45",
            "operation": "conf",
            "node_name": "general-xs-00000",
            "partition_name": "main",
            "run_id": "0" * 32,
            "upload_id": "0" * 32,
            "link_id": "0" * 16,
        }
        for route in of_clusters:
            path = re.sub(r"{(\w+)}", lambda match: values[match[1]], route["path"])
            body = {"script": "#!/bin/bash\ntrue\n", "job": {"environment": ["PATH=/bin"]}}
            async with eve.session.request(
                route["method"], path, json=body if route["method"] == "POST" else None
            ) as response:
                # A route for admins, or for operators, refuses others before it looks at the cluster.
                refused = 403 if route["role"] in ("admin", "owner", "operator") else 404
                assert response.status == refused, (route, await response.text())
                assert "secret" not in await response.text()
    assert await ada.output(job.job_id) == "secret\n"


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/users/me"])
async def test_requests_without_a_session_are_rejected(lab: Stack, path: str) -> None:
    async with ClientSession(lab.gateway_url) as stranger, stranger.get(path) as response:
        assert response.status == 401
        assert response.content_type == "application/problem+json"
