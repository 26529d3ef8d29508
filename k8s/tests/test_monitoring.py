"""Alert rules by promtool, dashboards by Grafana's own schema, and that both name only metrics that exist."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from alert_cases import CASES
from central_manifests import CENTRAL, build, kubectl_path
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.jobs.handlers import Jobs
from clusterra_lab.kube.programs.binaries import can_have_monitoring_binaries, ensure_monitoring_binaries
from clusterra_lab.machine.process import run
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from dashboards import BOARDS, queries
from grafana import grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from monitoring_files import FOLDER, files
from slo_rules import OBJECTIVES

RULES = sorted((FOLDER / "rules").glob("*.yaml"))
SERVICES = ("gateway", "proxy", "scaler", "edge_agent", "events")
GUIDE = CENTRAL.parents[1] / "docs" / "operations" / "monitoring.md"
NOT_OURS = frozenset({"up"})
_METRIC = re.compile(r"\b(?:clusterra|process)_[a-z_]+\b|\bup\b")
_EXPORTED = """
import importlib, json, pkgutil, sys
from prometheus_client import REGISTRY
found = {}
for package in ("clusterra_runtime", *sys.argv[1:]):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found[package] = [
        family.name + suffix
        for family in REGISTRY.collect()
        for suffix in {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
    ]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
async def promtool() -> Path:
    if not can_have_monitoring_binaries(("promtool",)):
        pytest.skip("promtool comes from a Debian package, and this machine has no apt-get")
    return await ensure_monitoring_binaries(names=("promtool",)) / "promtool"


async def check(promtool: Path, log: Path, *arguments: str) -> None:
    """Run promtool, and fail with its output."""
    process = await run("promtool", [str(promtool), *arguments], log=log)
    assert process.exit_code == 0, process.tail()


def rules() -> Iterator[dict[str, Any]]:
    """Every rule of every file."""
    for file in RULES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from group["rules"]


@cache
def every_series() -> dict[str, frozenset[str]]:
    """Service -> the series that it can export: those of the runtime and of all its modules' metrics.

    One process imports them all, because an import takes seconds. No service imports modules of another.
    """
    command = [sys.executable, "-c", _EXPORTED, *(f"clusterra_{service}" for service in SERVICES)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found, before = dict[str, frozenset[str]](), frozenset(told["clusterra_runtime"])
    for service in SERVICES:
        after = frozenset(told[f"clusterra_{service}"])
        found[service] = frozenset(told["clusterra_runtime"]) | (after - before)
        before = after
    return found


def exported(service: str) -> frozenset[str]:
    return every_series()[service]


def test_the_files_follow_from_their_descriptions() -> None:
    assert {path: path.read_text() for path in files()} == files(), "run `make docs`"


async def test_the_rules_are_valid(promtool: Path, tmp_path: Path) -> None:
    await check(promtool, tmp_path / "log", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES))


def test_every_alert_has_a_case() -> None:
    alerts = {(rule["alert"], rule["labels"].get("window", "")) for rule in rules() if "alert" in rule}

    assert {(case.alert, case.window) for case in CASES} == alerts


@pytest.mark.parametrize(("interval", "step_minutes"), [("1m", 1), ("30m", 10)])
async def test_each_alert_fires_when_it_should_and_only_then(
    promtool: Path, tmp_path: Path, interval: str, step_minutes: int
) -> None:
    """Windows of days are evaluated seldom: promtool evaluates every rule for every test."""
    test = tmp_path / "alerts.test.yaml"
    content = {
        "rule_files": [str(file) for file in RULES],
        "evaluation_interval": interval,
        # Otherwise an alert may see the ratio of the evaluation before, which has expired by then.
        "group_eval_order": ["clusterra-slo-ratios", "clusterra-slo-alerts"],
        "tests": [each for case in CASES if case.step_minutes == step_minutes for each in case.tests()],
    }
    test.write_text(yaml.safe_dump(content))

    await check(promtool, tmp_path / "log", "test", "rules", str(test))


async def test_a_rule_that_never_fires_is_found(promtool: Path, tmp_path: Path) -> None:
    """The tests above would fail for a wrong rule."""
    (wrong := tmp_path / "wrong.yaml").write_text(RULES[0].read_text().replace("clusterra_ready == 0", "up == 7"))
    case = next(case for case in CASES if case.alert == "ClusterraReplicaNotReady")
    test = tmp_path / "alerts.test.yaml"
    test.write_text(
        yaml.safe_dump({"rule_files": [str(wrong)], "evaluation_interval": "1m", "tests": case.tests()[:1]})
    )

    process = await run("promtool", [str(promtool), "test", "rules", str(test)], log=tmp_path / "log")

    assert process.exit_code == 1


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    headings = set(re.findall(r"^### (\w+)$", GUIDE.read_text(), re.MULTILINE))
    alerts = [rule for rule in rules() if "alert" in rule]

    assert {rule["labels"]["severity"] for rule in alerts} == {"page", "ticket"}
    assert all(rule["annotations"]["summary"] for rule in alerts)
    assert {rule["alert"] for rule in alerts} == headings


def test_rules_and_dashboards_name_only_metrics_that_the_services_export() -> None:
    named = {name for rule in rules() for name in _METRIC.findall(rule["expr"])}
    named |= {name for board in BOARDS for query in queries(board) for name in _METRIC.findall(query)}

    assert len(named) > 30
    assert named - NOT_OURS <= frozenset[str]().union(*(exported(service) for service in SERVICES))


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_s_dashboard_names_only_metrics_of_that_service(service: str) -> None:
    board = next(board for board in BOARDS if board.name == service.replace("_", "-"))

    named = {name for query in queries(board) for name in _METRIC.findall(query)}

    assert named - NOT_OURS <= exported(service)


def test_the_objectives_use_a_route_and_buckets_that_exist() -> None:
    texts = "".join(slo.bad + slo.all for slo in OBJECTIVES)

    assert {float(le) for le in re.findall(r'le="([\d.]+)"', texts)} <= set(LATENCY_BUCKETS_SECONDS)
    existing = {route.name for route in routes_of(Jobs(*[Mock()] * 5), access=Mock())}
    assert set(re.findall(r'route="(\w+)"', texts)) <= existing


async def test_prometheus_understands_every_query_of_the_dashboards(promtool: Path, tmp_path: Path) -> None:
    every = sorted({query.replace("$__rate_interval", "5m") for board in BOARDS for query in queries(board)})
    file = tmp_path / "queries.yaml"
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(every)]
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))

    await check(promtool, tmp_path / "log", "check", "rules", str(file))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_dashboard_fits_grafana_s_schema(board: Any) -> None:
    stored = json.loads((FOLDER / "dashboards" / f"{board.name}.json").read_text())

    read = Dashboard.from_json(stored)

    assert json.loads(JSONEncoder(sort_keys=True).encode(read)) == stored
    assert json.loads(JSONEncoder(sort_keys=True).encode(grafana(board).build())) == stored
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in stored["panels"]]
    assert len(places) == len(set(places)) == len(board.figures) + len(board.panels)


async def test_the_component_adds_scrapes_rules_and_dashboards(tmp_path: Path) -> None:
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(CENTRAL / "overlays" / "prod", tmp_path)],
        "components": [os.path.relpath(FOLDER, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    built = build(await kubectl_path(), tmp_path)

    monitor = next(each for each in built if each["kind"] == "ServiceMonitor")
    wanted = set(monitor["spec"]["selector"]["matchExpressions"][0]["values"])
    scraped = {
        each["metadata"]["labels"]["app.kubernetes.io/name"]
        for each in built
        if each["kind"] == "Service" and any(port["name"] == "health" for port in each["spec"]["ports"])
    }
    assert wanted == scraped & wanted
    rule = next(each for each in built if each["kind"] == "PrometheusRule")
    assert sum(len(group["rules"]) for group in rule["spec"]["groups"]) == len(list(rules()))
    dashboards = next(each for each in built if each["metadata"]["name"] == "clusterra-dashboards")
    assert set(dashboards["data"]) == {f"{board.name}.json" for board in BOARDS}
