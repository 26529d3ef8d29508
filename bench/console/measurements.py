"""The measurements of the page with the list of jobs, one after another in one browser."""

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiohttp import ClientSession
from browser.people import signed_in
from browser.playwright_api import Browser, Locator, Page, expect
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from latency import percentile

from console import in_page

type Figures = dict[str, float | None]

JOBS_PAGE = "/c/main/jobs"
TABLE = '[role="table"]'
DATA_ROW = f'{TABLE} [role="row"]'
LIVE_MARK = 'header [role="status"]'
SCRIPT = "#!/bin/sh\ntrue\n"
JOB = {"hold": True, "cpus_per_task": 1}
SCROLL_MILLISECONDS = 3_000
WHEEL_POINTS = 240
QUIET_SECONDS = 2.0
"""The page has drawn a change when no event was told for so long."""


@dataclass
class Bench:
    """A lab with a long list of jobs, a browser, and the person whose list it is."""

    lab: Stack
    user: User
    browser: Browser
    progress: Progress
    loads: int
    rounds: int
    figures: Figures = field(default_factory=dict)

    async def loads_of_the_page(self) -> None:
        """Cold loads, each in a new context, in turns with a page that shows nothing."""
        times, empty, requests, of_list = [], [], [], []
        scripts: list[str] = []
        for number in range(self.loads):
            self.progress(f"loads: {number} of {self.loads}")
            async with self._page() as page:
                await page.goto("/favicon.ico")
                empty.append(float(await page.evaluate(in_page.EMPTY_LOAD)))
            async with self._page() as page:
                await page.goto(JOBS_PAGE)
                rows = await _first_rows(page)
                times.append(rows)
                await _whole_list(page)
                asked = await page.evaluate(in_page.REQUESTS)
                requests.append(1 + sum(each["startTime"] < rows for each in asked))
                of_list.append(1 + len(asked))
                scripts = [each["name"] for each in asked if ".js" in each["name"] and each["startTime"] < rows]
        self.figures |= {
            "load_p50_ms": _median(times),
            "empty_load_p50_ms": _median(empty),
            "load_ratio": round(statistics.median(times) / statistics.median(empty), 1),
            "requests": _median(requests),
            "requests_with_the_whole_list": _median(of_list),
            "js_requests": len(set(scripts)),
            "js_gzip_kib": await self._kib(scripts, "gzip"),
            "js_brotli_kib": await self._kib(scripts, "br"),
        }

    async def sorts_and_filters(self, page: Page) -> None:
        """Sort by two columns in turns, and filter."""
        heads = [page.get_by_role("columnheader").get_by_role("button", name=name) for name in ("Name", "Job ID")]
        sorts = [
            await _changed(heads[each % 2], None, '[role="columnheader"]', "aria-sort") for each in range(self.rounds)
        ]
        self.figures["sort_p50_ms"] = _median_or_none(sorts)
        self.figures["sort_max_ms"] = None if None in sorts else max(filter(None, sorts), default=None)
        await page.goto(JOBS_PAGE)
        await _whole_list(page)
        await self._filtered(page)

    async def scrolls(self, page: Page) -> None:
        """Scroll by the wheel through the list: the times between frames."""
        box = await page.locator(TABLE).first.bounding_box()
        await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        frames = asyncio.ensure_future(page.evaluate(in_page.SCROLLED, SCROLL_MILLISECONDS))
        while not frames.done():
            await page.mouse.wheel(0, WHEEL_POINTS)
        deltas = frames.result()
        self.figures |= {
            "scroll_frame_p50_ms": round(percentile(deltas, 50), 1),
            "scroll_frame_p95_ms": round(percentile(deltas, 95), 1),
        }
        await page.evaluate(f"document.querySelector('{TABLE}').scrollTo(0, 0)")

    async def event_to_pixel(self, page: Page) -> None:
        """From the answer to a cancellation to the row that tells it."""
        seconds = []
        for number in range(self.rounds):
            name = f"pixel-{number}-{secrets.token_hex(3)}"
            job = await self.user.submit(SCRIPT, {"name": name, **JOB})
            await expect(page.locator(DATA_ROW).filter(has_text=name)).to_be_visible()
            shown = asyncio.ensure_future(page.evaluate(in_page.UNTIL_SHOWN, [DATA_ROW, name, "Cancelled"]))
            await self.user.cancel(job.job_id)
            answered = time.time()
            seconds.append(float(await shown) / 1e3 - answered)
        self.figures |= {
            "event_to_pixel_p50_ms": _median(seconds, 1e3),
            "event_to_pixel_max_ms": round(max(seconds) * 1e3, 1),
        }

    async def many_changes(self, page: Page, name: str, count: int) -> None:
        """Slurm cancels all jobs with this name at once: the longest task of the page, and the longest frame."""
        await page.evaluate(in_page.TASKS)
        told = _Told()
        listening = asyncio.create_task(told.listen(self.user))
        frames = asyncio.ensure_future(page.evaluate(in_page.SCROLLED, 60_000))
        await told.opened.wait()
        began = time.monotonic()
        await self.lab.slurm.run("scancel", "--ctld", f"--name={name}")
        await until(lambda: told.cancelled >= count, seconds=120, what=f"{count} events", every=0.05)
        elapsed = time.monotonic() - began
        await until(lambda: time.monotonic() - told.last > QUIET_SECONDS, seconds=60, what="no more events", every=0.05)
        tasks = await page.evaluate(in_page.TASKS)
        frames.cancel()
        listening.cancel()
        self.figures |= {
            "changes": count,
            "changes_told_in_s": round(elapsed, 2),
            "changes_longest_task_ms": round(max(tasks, default=0.0), 1),
            "changes_long_tasks": len(tasks),
        }

    async def back_after_restart(self, page: Page) -> None:
        """The gateway is killed and started: from when it is ready until the page is live again."""
        gateway = self.lab.services["gateway"]
        await expect(page.locator(LIVE_MARK)).to_contain_text("Live")
        gateway.kill()
        await expect(page.locator(LIVE_MARK)).to_contain_text("As of")
        shown = asyncio.ensure_future(page.evaluate(in_page.UNTIL_SHOWN, [LIVE_MARK, "", "Live"]))
        await gateway.start()
        await gateway.ready()
        ready = time.time()
        self.figures["back_s"] = round(max(0.0, float(await shown) / 1e3 - ready), 2)

    async def memory(self, page: Page, minutes: float) -> None:
        """The heap while jobs are held and released all the time: its growth, also in the second half alone."""
        jobs = [
            (await self.user.submit(SCRIPT, {"name": f"memory-{each}", "begin_time": 4_000_000_000, **JOB})).job_id
            for each in range(8)
        ]
        told, ends = _Told(), time.monotonic() + minutes * 60
        listening = asyncio.create_task(told.listen(self.user))
        await told.opened.wait()

        async def act(job: str) -> None:
            while time.monotonic() < ends:
                for what in ("hold", "release"):
                    async with self.user.session.post(f"/v1/clusters/main/jobs/{job}/{what}") as answer:
                        await answer.read()

        before = await in_page.heap_bytes(page)
        acting = [asyncio.create_task(act(job)) for job in jobs]
        await asyncio.wait(acting, timeout=minutes * 30)
        half = await in_page.heap_bytes(page)
        await asyncio.gather(*acting)
        after = await in_page.heap_bytes(page)
        listening.cancel()
        self.figures |= {
            "memory_minutes": minutes,
            "memory_events_per_s": round(told.count / (minutes * 60), 1),
            "heap_mib": round(after / 2**20, 1),
            "heap_growth_mib": round((after - before) / 2**20, 1),
            "heap_growth_second_half_mib": round((after - half) / 2**20, 1),
        }
        for job in jobs:
            await self.user.cancel(job)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Page]:
        """The page with the whole list, until the block ends."""
        async with self._page() as page:
            await page.goto(JOBS_PAGE)
            await _whole_list(page)
            await expect(page.locator(LIVE_MARK)).to_contain_text("Live")
            yield page

    @asynccontextmanager
    async def _page(self) -> AsyncIterator[Page]:
        """A page of a context of its own, with empty caches."""
        async with signed_in(self.browser, self.lab, self.user.profile.email) as member:
            await member.page.add_init_script(in_page.FIRST_ROWS)
            yield member.page

    async def _filtered(self, page: Page) -> None:
        """Choose a state and take it away, and search a part of a name, which the page does after a pause."""
        opener = page.get_by_role("main").get_by_role("button", name="State", exact=True).first
        await opener.click()
        choice = page.get_by_role("checkbox", name="Running", exact=True)
        await expect(choice).to_be_visible()
        chosen = [await _changed(choice, None, TABLE, "aria-rowcount") for _ in range(2 * self.rounds)]
        await page.keyboard.press("Escape")
        search = page.get_by_role("main").get_by_role("searchbox").first
        typed = [
            await _changed(search, ("changed", "")[each % 2], TABLE, "aria-rowcount") for each in range(self.rounds)
        ]
        self.figures |= {"filter_p50_ms": _median_or_none(chosen), "search_with_pause_p50_ms": _median_or_none(typed)}

    async def _kib(self, addresses: Sequence[str], encoding: str) -> float:
        """What these files take on their way with an encoding."""
        size = 0
        async with ClientSession(self.lab.gateway_url, auto_decompress=False) as http:
            for path in {urlsplit(each).path for each in addresses}:
                async with http.get(path, headers={"Accept-Encoding": encoding}) as answer:
                    size += len(await answer.read())
        return round(size / 1024, 1)


class _Told:
    """What the stream of events tells to another client at the same time."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.count = self.cancelled = 0
        self.last = time.monotonic()

    async def listen(self, user: User) -> None:
        async with user.session.get("/v1/clusters/main/jobs", params={"limit": "1"}) as answer:
            position = answer.headers["Event-Position"]
        self.opened.set()
        async for event in user.activity(after=position):
            self.count += 1
            self.cancelled += '"job.cancelled"' in event.data
            self.last = time.monotonic()


async def _first_rows(page: Page) -> float:
    """When the first rows were painted, in milliseconds since the navigation began."""
    handle = await page.wait_for_function("() => clusterraBench.firstRows")
    return float(await handle.json_value())


async def _whole_list(page: Page) -> None:
    """Wait until the table does not grow any more."""
    seen = [0, time.monotonic()]

    async def rests() -> bool:
        rows = int(await page.locator(TABLE).first.get_attribute("aria-rowcount") or 0)
        if rows != seen[0]:
            seen[:] = rows, time.monotonic()
        return rows > 1 and time.monotonic() - seen[1] > QUIET_SECONDS

    await until(rests, seconds=90, what="the whole list", every=0.1)


async def _changed(control: Locator, typed: str | None, table: str, attribute: str) -> float | None:
    """How long a click, or a text that is typed at once, takes to change the attribute in what is painted."""
    handle = await control.element_handle()
    found = await control.page.evaluate(in_page.CHANGED, [handle, typed, table, attribute])
    return None if found is None else float(found)


def _median(values: Sequence[float], factor: float = 1.0) -> float:
    return round(statistics.median(values) * factor, 1)


def _median_or_none(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return _median(known) if len(known) == len(values) else None
