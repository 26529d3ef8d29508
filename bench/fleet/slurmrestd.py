"""The stand-in of slurmrestd: answers for many clusters, each under a path of its own, in the API version recorded."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

from clusterra_proxy.slurmrestd.notation import hostlist

from fleet.http_server import NOT_MODIFIED, Reply
from fleet.queue import Queue
from fleet.recorded import VERSION, Answers

_SHORT_BYTES = 1024 * 1024
"""A shorter body is made at once."""
_OK = Reply(b'{"errors": [], "warnings": []}')
_MISSING = Reply(
    b'{"errors": [{"description": "no such node", "error": "Invalid node name specified", "error_number": 2018}]}',
    "404 Not Found",
)


class StandIn:
    """All clusters' answers. `told` is called with a cluster's name after each answer with the states of its jobs."""

    def __init__(self, answers: Answers, told: Callable[[str], None]) -> None:
        self.queues: dict[str, Queue] = {}
        self.requests: Counter[str] = Counter()
        """Requests by kind."""
        self._answers = answers
        self._told = told
        self._future: dict[str, dict[str, dict[str, object]]] = {}

    def handle(self, method: str, target: str, body: bytes) -> Reply:
        """Answer a request to `/<cluster>/slurm/<version>/...`, or `slurmdb`."""
        parts = urlsplit(target)
        _, cluster, api, version, path = parts.path.split("/", 4)
        queue = self.queues.get(cluster)
        if queue is None or version != VERSION:
            return Reply(b"not served", "404 Not Found")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if api == "slurmdb":
            self.requests["accounting"] += 1
            return Reply(self._answers.users if path.startswith("users") else b'{"errors": [], "jobs": []}')
        if method == "GET":
            return self._read(cluster, queue, path, query)
        self.requests["write"] += 1
        return self._write(cluster, queue, method, unquote(path), body)

    def _read(self, cluster: str, queue: Queue, path: str, query: dict[str, str]) -> Reply:
        at, since = int(time.time()), int(query.get("update_time", 0))
        kind, _, name = path.partition("/")
        if query.get("flags") == "FUTURE":
            return self._read_future(cluster, unquote(name) if kind == "node" else None)
        self.requests[path if not name or name == "state/" else kind] += 1
        match kind:
            case "ping":
                return Reply(self._answers.ping)
            case "jobs" if name == "state/":
                body = queue.states_body()
                self._told(cluster)
                return Reply(body)
            case "jobs":
                if since and queue.jobs_changed_at < since:
                    return Reply(b"".join(queue.jobs_parts(at, ())))
                return self._list(queue, at)
            case "job":
                job = queue.jobs.get(int(name)) if name.isdecimal() else None
                if job is None:
                    return Reply(self._answers.unknown_job, "404 Not Found")
                return Reply(b"".join(queue.jobs_parts(at, (job,))))
            case "nodes":
                return NOT_MODIFIED if since and queue.nodes_changed_at < since else Reply(queue.nodes_body(at))
            case "node" if name in queue.nodes:
                return Reply(queue.node_body(name, at))
            case "partitions":
                return Reply(b'{"errors": [], "partitions": [{"name": "main"}]}')
        return _MISSING

    def _list(self, queue: Queue, at: int) -> Reply:
        """All jobs as they are now: a change meanwhile must not change the size that was announced."""
        size = queue.jobs_size(at)
        if size < _SHORT_BYTES:
            return Reply(b"".join(queue.jobs_parts(at)))
        return Reply(queue.jobs_parts(at, [replace(job) for job in queue.jobs.values()]), size=size)

    def _write(self, cluster: str, queue: Queue, method: str, path: str, body: bytes) -> Reply:
        at, kind, name = int(time.time()), *path.rstrip("/").split("/", 1)
        if kind == "new":
            self._create_future(cluster, json.loads(body)["node_conf"])
            return _OK
        future = self._future.setdefault(cluster, {})
        names = hostlist.expand(name)
        if kind == "node" and names and names[0] in future:
            for each in names:
                if method == "DELETE":
                    future.pop(each, None)
                elif each in future:
                    future[each] |= json.loads(body)
            return _OK
        if kind == "node" and method == "DELETE":
            return _OK if queue.delete(name, at) else _MISSING
        if kind == "node":
            wanted = json.loads(body)
            return _OK if queue.set_state(name, wanted.get("state", ()), wanted.get("reason", ""), at) else _MISSING
        return _MISSING

    def _read_future(self, cluster: str, name: str | None) -> Reply:
        self.requests["placeholders"] += 1
        future = self._future.setdefault(cluster, {})
        if name is not None and name not in future:
            return _MISSING
        found = list(future.values()) if name is None else [future[name]]
        return Reply(json.dumps({"errors": [], "nodes": found}).encode())

    def _create_future(self, cluster: str, node_conf: str) -> None:
        fields = dict(part.split("=", 1) for part in node_conf.split())
        for name in hostlist.expand(fields["NodeName"]):
            self._future.setdefault(cluster, {})[name] = {
                "name": name,
                "state": ["FUTURE", "DYNAMIC_NORM"],
                "gres": fields.get("Gres", ""),
                "extra": "",
            }
