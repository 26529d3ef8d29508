"""Job and node records as a real slurmrestd answered them, as templates: every field is there, a few are filled in."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

VERSION = "v0.0.44"
_RECORDED = Path(__file__).parents[2] / "services" / "proxy" / "tests" / "recorded" / f"{VERSION}.json"


class Template:
    """A recorded JSON object in which some top-level fields vary. `render` writes it as slurmrestd does, indented."""

    def __init__(self, recorded: Mapping[str, Any], fixed: Mapping[str, Any], varying: tuple[str, ...]) -> None:
        """Raises KeyError for a field that the recorded object does not have: slurmrestd would not send it either."""
        marked = dict(recorded)
        for name, value in (*fixed.items(), *((name, f"@@{name}@@") for name in varying)):
            if name not in recorded:
                raise KeyError(name)
            marked[name] = value
        text = json.dumps(marked, indent=2).replace("%", "%%")
        self._text = re.sub(r'"@@(\w+)@@"', r"%(\1)s", text).encode()
        self._varying = {name: name.encode() for name in varying}

    def render(self, **values: Any) -> bytes:
        """The object with these values of the varying fields, each of which must be given."""
        return self._text % {key: orjson.dumps(values[name]) for name, key in self._varying.items()}


def number(value: int | None) -> dict[str, Any]:
    """A number as slurmrestd writes it; None is one that is not set."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


class Answers:
    """The recorded answers of one API version, by the name that `record.py` of the proxy's tests gave them."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = json.loads(_RECORDED.read_bytes())
        self.job = Template(
            self._body("job")["jobs"][0],
            {
                "array_job_id": number(0),
                "array_task_id": number(None),
                "array_max_tasks": number(0),
                "comment": "",
                "memory_per_cpu": number(None),
                "restart_cnt": 0,
                "dependency": "",
            },
            (
                *("job_id", "job_state", "state_reason", "name", "user_id", "priority", "nodes", "features", "cpus"),
                *("memory_per_node", "time_limit", "submit_time", "eligible_time", "start_time", "end_time"),
                *("tres_req_str", "tres_alloc_str"),
            ),
        )
        self.node = Template(
            self._body("nodes")["nodes"][0],
            {"gres": "", "gres_used": "", "partitions": ["main"]},
            (
                *("name", "state", "cpus", "alloc_cpus", "real_memory", "alloc_memory", "features", "active_features"),
                *("extra", "reason", "last_busy", "slurmd_start_time"),
            ),
        )
        self.ping = self.raw("ping")
        self.users = self.raw("users")
        self.killed = self.raw("kill")
        self.unknown_job = self.raw("unknown_job")

    def raw(self, name: str) -> bytes:
        """A whole answer as it was recorded."""
        return json.dumps(self._body(name), indent=2).encode()

    def around(self, name: str, listed: str, **more: Any) -> tuple[bytes, bytes]:
        """What stands before and after the items of the list `listed` in an answer."""
        body = {**self._body(name), **more, listed: ["@@"]}
        before, after = json.dumps(body, indent=2).encode().split(b'"@@"')
        return before, after

    def _body(self, name: str) -> dict[str, Any]:
        body: dict[str, Any] = self._answers[name]["body"]
        return body
