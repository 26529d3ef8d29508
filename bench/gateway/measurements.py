"""The measurements of the gateway. Requests to it and to slurmrestd take turns, so that both meet the same load."""

import asyncio
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import psutil
from aiohttp import ClientSession, TCPConnector
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from latency import percentile
from yarl import URL

from gateway.clients import Load, Told
from gateway.submit_parts import SubmitParts, figures_of

type Figures = dict[str, float]

SCRIPT = "#!/bin/sh\ntrue\n"
JOB = {"name": "bench", "hold": True, "cpus_per_task": 1, "environment": ["PATH=/usr/bin:/bin"]}
"""A job that waits for ever, so that no worker changes the figures."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
SUBMITTERS = 8
LIVENESS_EVERY_SECONDS = 0.02
SEED = 7


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    jobs: int
    requests: int
    clients: int
    seconds: float
    followers: int


@dataclass
class Bench:
    """A lab, a person's session at the gateway, and the same person's session at slurmrestd."""

    lab: Stack
    ours: ClientSession
    slurmrestd: ClientSession
    headers: dict[str, str]
    """The person's cookie, for the process with many clients."""
    cluster: str
    sizes: Sizes
    progress: Progress
    jobs: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def opened(cls, lab: Stack, user: User, sizes: Sizes, progress: Progress) -> AsyncIterator["Bench"]:
        """Both sessions, until the block ends."""
        random.seed(SEED)
        profile = user.profile
        token = lab.slurm.token(profile.name, profile.uid, profile.uid, seconds=7200)
        cookies = user.session.cookie_jar.filter_cookies(URL(lab.gateway_url))
        headers = {"Cookie": "; ".join(f"{each.key}={each.value}" for each in cookies.values())}
        async with ClientSession(
            lab.slurm.slurmrestd_url,
            headers={"X-SLURM-USER-TOKEN": token},
            connector=TCPConnector(limit=SUBMITTERS),
        ) as slurmrestd:
            yield cls(lab, user.session, slurmrestd, headers, user.cluster, sizes, progress)

    async def fill(self) -> None:
        """Submit the jobs to slurmrestd, and wait until the gateway lists them."""
        remaining = iter(range(self.sizes.jobs))

        async def submitter() -> None:
            for number in remaining:
                self.jobs.append(await self._submit_directly())
                if number % 100 == 0:
                    self.progress(f"submitting: {number} of {self.sizes.jobs} jobs")

        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))

        async def listed() -> bool:
            async with self.ours.get(self._path("jobs"), params={"limit": "1"}) as answer:
                return bool((await answer.json())["total"] == self.sizes.jobs)

        await until(listed, seconds=60, what="the gateway to list all jobs")

    async def details(self) -> None:
        """One job, read from both."""
        await self._compare(
            "detail",
            lambda: self._read(self.ours, self._path(f"jobs/{random.choice(self.jobs)}")),
            lambda: self._read(self.slurmrestd, f"/slurm/v0.0.45/job/{random.choice(self.jobs)}"),
        )

    async def submits(self, parts: SubmitParts) -> None:
        """One submit to each, and what the parts of the gateway's submits take: without and with a key and a quota."""
        parts.since_last()
        await self._compare("submit", self._submit, self._submit_directly)
        self.figures |= figures_of("submit", parts.since_last())
        async with self._quota():
            self.progress("submits with a key and a quota")
            few = max(self.sizes.requests // 5, 1)
            times = await self._times(few, lambda: self._submit({"Idempotency-Key": secrets.token_hex(16)}))
        self.figures |= {f"keyed_submit_p{percent}_ms": _ms(times, percent) for percent in (50, 99)}
        self.figures |= figures_of("keyed_submit", parts.since_last())
        worst = {
            percent: max(self.figures[f"{what}_added_{percent}_ms"] for what in ("detail", "submit"))
            for percent in ("p50", "p99")
        }
        self.figures |= {f"added_{percent}_ms": value for percent, value in worst.items()}

    async def lists(self) -> None:
        """The first page, the longest page, and the whole list of slurmrestd's shape from both."""
        few = max(self.sizes.requests // 10, 1)
        first = await self._times(few, lambda: self._read(self.ours, self._path("jobs")))
        longest = await self._times(few, lambda: self._read(self.ours, self._path("jobs?limit=1000")))
        passed = await self._times(few // 10 or 1, lambda: self._read(self.ours, self._path("slurm/v0.0.45/jobs")))
        direct = await self._times(few // 10 or 1, lambda: self._read(self.slurmrestd, "/slurm/v0.0.45/jobs"))
        for name, times in (("list", first), ("list_1000", longest), ("slurm_list", passed), ("direct_list", direct)):
            self.figures[f"{name}_p50_ms"] = _ms(times, 50)

    async def many_clients(self) -> None:
        """Many clients read jobs and lists at once, while the gateway is asked whether it is alive."""
        details = [("detail", f"jobs/{job}") for job in random.sample(self.jobs, min(200, len(self.jobs)))]
        lists = [("list", "jobs"), ("list", "jobs?state=pending&limit=50"), ("slurm_list", "slurm/v0.0.45/jobs")]
        before = self._slurmrestd_rss()
        liveness: list[float] = []
        told = await self._beside(self._load(details + lists * 7, "many clients"), liveness)
        self.figures |= {
            "clients_per_s": told.answers / told.seconds,
            "clients_p99_ms": _ms([each for kind in told.latencies.values() for each in kind], 99),
            **{f"clients_{kind}_p99_ms": _ms(times, 99) for kind, times in told.latencies.items()},
            "clients_failed": sum(told.failed.values()),
            "liveness_p99_ms": _ms(liveness, 99),
            "slurmrestd_growth": self._slurmrestd_rss() / before,
        }

    async def many_details(self) -> None:
        """Many clients read one job each: requests per second of the gateway's CPU time."""
        process = psutil.Process(self.lab.services["gateway"].pid)
        proxy = psutil.Process(self.lab.services["proxy"].pid)
        before, before_proxy = _cpu_seconds(process), _cpu_seconds(proxy)
        told = await self._load([("detail", f"jobs/{job}") for job in self.jobs], "details by many clients")
        spent, spent_proxy = _cpu_seconds(process) - before, _cpu_seconds(proxy) - before_proxy
        self.figures |= {
            "detail_per_s": told.answers / spent,
            "detail_per_s_of_the_proxy": told.answers / spent_proxy,
            "detail_elapsed_per_s": told.answers / told.seconds,
            "detail_failed": sum(told.failed.values()),
        }

    async def _compare(
        self, what: str, ours: Callable[[], Awaitable[object]], theirs: Callable[[], Awaitable[object]]
    ) -> None:
        """What the gateway adds: the difference of the percentiles, in milliseconds."""
        self.progress(f"{what}: {self.sizes.requests} times each")
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(self.sizes.requests):
            for kept, request in zip(times, (ours, theirs), strict=True):
                kept.extend(await self._times(1, request))
        for percent in (50, 99):
            mine, direct = (_ms(each, percent) for each in times)
            self.figures |= {
                f"{what}_p{percent}_ms": mine,
                f"{what}_direct_p{percent}_ms": direct,
                f"{what}_added_p{percent}_ms": round(mine - direct, 3),
            }

    async def _times(self, count: int, request: Callable[[], Awaitable[object]]) -> list[float]:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            await request()
            times.append(time.perf_counter() - began)
        return times

    async def _beside(self, load: Awaitable[Told], liveness: list[float]) -> Told:
        """Run the load, and time the answers of `/livez` meanwhile."""
        running = asyncio.ensure_future(load)
        url = f"{self.lab.services['gateway'].health_url}/livez"
        async with ClientSession() as session:
            while not running.done():
                liveness.extend(await self._times(1, lambda: self._read(session, url)))
                await asyncio.wait([running], timeout=LIVENESS_EVERY_SECONDS)
        return running.result()

    async def _load(self, paths: Sequence[tuple[str, str]], what: str) -> Told:
        self.progress(f"{what}: {self.sizes.clients} for {self.sizes.seconds:g} s")
        load = Load(
            url=self.lab.gateway_url,
            headers=self.headers,
            clients=self.sizes.clients,
            seconds=self.sizes.seconds,
            paths=tuple((kind, self._path(path)) for kind, path in paths),
        )
        command = (sys.executable, "-m", "gateway.clients")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        out, _ = await process.communicate(load.model_dump_json().encode())
        assert process.returncode == 0, f"the clients ended with {process.returncode}"
        return Told.model_validate_json(out)

    @asynccontextmanager
    async def _quota(self) -> AsyncIterator[None]:
        """A quota that counts all jobs of the tenant and refuses none, until the block ends."""
        url = f"/v1/quotas/tenant/{self.lab.cluster.tenant}"
        async with self.ours.put(url, json={"limit": "1000000", "mode": "warn"}) as answer:
            assert answer.status == 200, await answer.text()
        yield
        async with self.ours.delete(url) as answer:
            assert answer.status == 204, await answer.text()

    async def _submit(self, headers: Mapping[str, str] = NO_HEADERS) -> None:
        body = {"script": SCRIPT, "job": JOB}
        async with self.ours.post(self._path("jobs/submit"), json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
            await answer.read()

    async def _submit_directly(self) -> str:
        body: dict[str, Any] = {
            "script": SCRIPT,
            "job": {**JOB, "current_working_directory": self.lab.slurm.shared_path},
        }
        async with self.slurmrestd.post("/slurm/v0.0.45/job/submit", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["job_id"])

    async def _read(self, session: ClientSession, path: str) -> None:
        async with session.get(path) as answer:
            await answer.read()
            assert answer.status == 200, f"{path}: {answer.status}"

    def _path(self, rest: str) -> str:
        return f"/v1/clusters/{self.cluster}/{rest}"

    def _slurmrestd_rss(self) -> int:
        """Bytes of memory of slurmrestd."""
        return sum(each.memory_info().rss for each in self.lab.slurm["slurmrestd"].processes())


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ms(seconds: Sequence[float], percent: int) -> float:
    return round(percentile(seconds, percent) * 1e3, 3)
