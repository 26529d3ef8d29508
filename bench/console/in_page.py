"""Scripts that measure inside the page, where no time of this process is in the figures.

They run as expressions of the debugger, which the page's policy allows. All times are in milliseconds.
"""

from typing import Any

from browser.playwright_api import Page

ROW = '[role="table"] [role="row"] [role="cell"]'
FIRST_ROWS = f"""\
globalThis.clusterraBench = {{ firstRows: null, tasks: [] }};
new PerformanceObserver((list) => clusterraBench.tasks.push(...list.getEntries().map(({{ startTime, duration }}) =>
  ({{ startTime, duration }})))).observe({{ type: "longtask", buffered: true }});
new MutationObserver((_, observer) => {{
  if (!document.querySelector({ROW!r})) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => {{ clusterraBench.firstRows = performance.now(); }}));
}}).observe(document, {{ subtree: true, childList: true }});
"""
"""Run before the page's own scripts: notes when the first rows were painted, and the page's long tasks."""

REQUESTS = """() => performance.getEntriesByType("resource").map(({ name, startTime, transferSize, initiatorType }) =>
  ({ name, startTime, transferSize, initiatorType }))"""

_PAINTED = "const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));"

CHANGED = f"""async ([control, typed, table, attribute]) => {{
  {_PAINTED}
  const shown = () => [...document.querySelectorAll(table)].map((each) => each.getAttribute(attribute)).join();
  const before = shown();
  const began = performance.now();
  if (typed === null) control.click();
  else {{
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(control, typed);
    control.dispatchEvent(new Event("input", {{ bubbles: true }}));
  }}
  while (shown() === before) {{
    if (performance.now() - began > 5000) return null;
    await painted();
  }}
  return performance.now() - began;
}}"""
"""Clicks or types, and tells when the frame was painted with another value of the attribute; null if none came."""

SCROLLED = """(milliseconds) => new Promise((done) => {
  const deltas = []; const began = performance.now(); let last = began;
  requestAnimationFrame(function frame() {
    const now = performance.now();
    deltas.push(now - last); last = now;
    if (now - began < milliseconds) requestAnimationFrame(frame); else done(deltas.slice(1));
  });
})"""
"""The times between frames."""

UNTIL_SHOWN = f"""([selector, name, word]) => new Promise((done) => {{
  {_PAINTED}
  const isShown = () => [...document.querySelectorAll(selector)].some(({{ textContent }}) =>
    textContent.includes(name) && textContent.includes(word));
  const look = async () => {{
    if (!isShown()) return;
    observer.disconnect();
    await painted();
    done(performance.timeOrigin + performance.now());
  }};
  const observer = new MutationObserver(look);
  observer.observe(document.body, {{ subtree: true, childList: true, characterData: true }});
  look();
}})"""
"""When an element with both texts was painted, in milliseconds since the epoch."""

TASKS = "() => clusterraBench.tasks.splice(0).map(({ duration }) => duration)"
"""The page's tasks of more than 50 ms since the last call."""

EMPTY_LOAD = f"""async () => {{
  {_PAINTED}
  await painted();
  return performance.now();
}}"""


async def heap_bytes(page: Page) -> int:
    """The heap of the page after a collection of what is no longer used."""
    session = await page.context.new_cdp_session(page)
    try:
        await session.send("HeapProfiler.enable")
        await session.send("HeapProfiler.collectGarbage")
        await session.send("Performance.enable")
        told: dict[str, Any] = await session.send("Performance.getMetrics")
    finally:
        await session.detach()
    return int(next(each["value"] for each in told["metrics"] if each["name"] == "JSHeapUsedSize"))
