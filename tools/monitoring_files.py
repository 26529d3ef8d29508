"""Writes what follows from descriptions in `k8s/central/components/monitoring`: the rules of the objectives, the
PrometheusRule of all rules, and the dashboards.

`make docs` writes the files; a test compares them.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from dashboards import BOARDS
from grafana import grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from slo_rules import groups

FOLDER = Path(__file__).parents[1] / "k8s" / "central" / "components" / "monitoring"
ALERTS = FOLDER / "rules" / "alerts.yaml"
_HEAD = "# Made by `make docs` from {source}. Do not edit.\n"


def files() -> dict[Path, str]:
    """The content of each file that is made."""
    objectives = groups()
    everything = [*yaml.safe_load(ALERTS.read_text())["groups"], *objectives]
    for group in everything:
        for each in group["rules"]:
            if "alert" in each:
                each["annotations"]["runbook"] = f"docs/operations/monitoring.md#{each['alert'].lower()}"
    rule: dict[str, Any] = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "clusterra", "namespace": "clusterra"},
        "spec": {"groups": everything},
    }
    made = {
        FOLDER / "rules" / "objectives.yaml": _HEAD.format(source="tools/slo_rules.py") + _yaml({"groups": objectives}),
        FOLDER / "prometheus-rule.yaml": _HEAD.format(source="rules/") + _yaml(rule),
    }
    for board in BOARDS:
        text = JSONEncoder(sort_keys=True, indent=2).encode(grafana(board).build())
        made[FOLDER / "dashboards" / f"{board.name}.json"] = text + "\n"
    return made


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=1000, allow_unicode=True)


def main() -> None:
    """Write the files."""
    for path, content in files().items():
        path.write_text(content)
    sys.stdout.write(f"{len(files())} files in {FOLDER}\n")


if __name__ == "__main__":
    main()
