"""A real Prometheus scrapes the lab's services, with the rules and the queries of the dashboards."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.kube.programs.binaries import can_have_monitoring_binaries, ensure_monitoring_binaries
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from dashboards import BOARDS, queries
from monitoring_files import FOLDER

JOB = {"name": "scraped", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}


class Prometheus:
    """A running Prometheus."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        async with self._http.get(f"/api/v1/{path}", params=parameters) as answer:
            body = json.loads(await answer.read())
        assert body["status"] == "success", body
        return body["data"]

    async def value(self, query: str) -> float | None:
        """The sum of a query's result; None for an empty one."""
        result = (await self.get("query", query=query))["result"]
        return sum(float(sample["value"][1]) for sample in result) if result else None


@pytest.fixture
async def prometheus(lab: Stack, tmp_path: Path) -> AsyncIterator[Prometheus]:
    if not can_have_monitoring_binaries(("prometheus",)):
        pytest.skip("Prometheus comes from a Debian package, and this machine has no apt-get")
    program = await ensure_monitoring_binaries(names=("prometheus",)) / "prometheus"
    targets = {name: urlsplit(service.health_url).netloc for name, service in lab.services.items()}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in sorted((FOLDER / "rules").glob("*.yaml"))],
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [target]}]} for name, target in targets.items()
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/data"]
    process = await start(
        "prometheus", [str(program), *arguments, f"--web.listen-address={address}"], log=tmp_path / "log"
    )
    try:
        async with aiohttp.ClientSession(f"http://{address}") as http:

            async def ready() -> bool:
                try:
                    async with http.get("/-/ready") as answer:
                        return answer.status == 200
                except aiohttp.ClientConnectionError:
                    return False

            await until(ready, seconds=60, what="Prometheus to be ready", process=process)
            yield Prometheus(http)
    finally:
        await process.stop(20)


async def test_prometheus_scrapes_all_services_and_evaluates_every_rule(
    lab: Stack, prometheus: Prometheus, ada: User, observer: Observer
) -> None:
    job = await ada.submit("#!/bin/bash\ntrue\n", JOB)
    await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the job's end")

    async def all_up() -> bool:
        return await prometheus.value("sum(up)") == len(lab.services)

    async def all_ready() -> bool:
        return await prometheus.value("sum(clusterra_ready)") == len(lab.services)

    async def all_evaluated() -> bool:
        groups = (await prometheus.get("rules"))["groups"]
        return all(rule["health"] != "unknown" for group in groups for rule in group["rules"])

    await until(all_up, seconds=60, what="all targets to be up")
    await until(all_evaluated, seconds=60, what="an evaluation of every rule")

    rules = [rule for group in (await prometheus.get("rules"))["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, [rule for rule in rules if rule["health"] != "ok"]
    assert len(rules) > 50
    for board in BOARDS:
        for query in queries(board):
            await prometheus.get("query", query=query.replace("$__rate_interval", "30s"))
    await until(all_ready, seconds=60, what="all services to be ready")
    assert await prometheus.value('sum(clusterra_leases_held{service="scaler"})') == 8
    # Other tests submit in the same lab.
    submits = await prometheus.value('sum(clusterra_http_requests_total{route="jobs_submit",code="201"})')
    assert submits is not None
    assert submits >= 1
    heartbeat_age = await prometheus.value("time() - clusterra_cluster_heartbeat_timestamp_seconds")
    assert heartbeat_age is not None
    assert 0 <= heartbeat_age < 30
    scale_ups = await prometheus.value("clusterra_scale_up_seconds_count")
    assert scale_ups is not None
    assert scale_ups >= 1


async def test_an_edge_that_is_gone_is_alerted(lab: Stack, prometheus: Prometheus, observer: Observer) -> None:
    await lab.services["edge-agent"].stop()

    async def pending() -> bool:
        alerts = (await prometheus.get("alerts"))["alerts"]
        return "ClusterraServiceDown" in {alert["labels"]["alertname"] for alert in alerts}

    try:
        await until(pending, seconds=60, what="the alert")
    finally:
        await lab.restart("edge-agent")
