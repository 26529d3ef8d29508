"""Pages and dialogs in small windows: nothing is wider than the window, and what has the focus is in sight."""

from contextlib import nullcontext

from browser.playwright_api import Page
from browser.settled import settling

SMALL = ({"width": 640, "height": 400}, {"width": 360, "height": 740})
"""A window of 1280x800 points at 200 % zoom, and the narrowest screen."""
_WIDER = """() => ["html", "main"].flatMap((name) => [...document.querySelectorAll(name)]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${name} is ${each.scrollWidth - each.clientWidth} px wider than what shows it`))"""
_TOO_WIDE = """() => [...document.querySelectorAll("main *, header *, nav *")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1).slice(0, 3)
  .map((each) => `${each.tagName.toLowerCase()}.${each.className}`.slice(0, 120))"""
_DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_OUT_OF_REACH = """(within) => {
  const focusable = 'a[href], button:not([disabled]), input:not([disabled]), select, textarea, summary, [tabindex="0"]';
  const before = document.activeElement, found = [];
  for (const each of document.querySelector(within)?.querySelectorAll(focusable) ?? []) {
    const { width, height } = each.getBoundingClientRect();
    // What stands for an input that is not shown is another element; nothing is done with an inert one.
    if (width < 2 || height < 2 || each.tabIndex < 0 || each.closest("[inert], [aria-hidden=true]")) continue;
    const { visibility, opacity } = getComputedStyle(each);
    if (visibility !== "visible" || opacity === "0") continue;
    each.focus();
    if (document.activeElement !== each) continue;
    const { left, right, top, bottom } = each.getBoundingClientRect();
    const middle = (from, to, size) => (Math.max(from, 0) + Math.min(to, size)) / 2;
    const at = [middle(left, right, innerWidth), middle(top, bottom, innerHeight)];
    const name = `${each.tagName.toLowerCase()} "${(each.ariaLabel ?? each.textContent).trim().slice(0, 40)}"`;
    const box = [left, top, right, bottom].map(Math.round).join(" ");
    const seen = document.elementFromPoint(...at);
    // A list that a field opens closes with the focus, which nobody waits for here.
    if (seen?.closest('[role="listbox"]') || seen?.querySelector(':scope > [role="listbox"]')) continue;
    if (seen === null) found.push(`${name} is out of sight at ${box}`);
    else if (!each.contains(seen) && !seen.contains(each) && !each.parentElement.contains(seen))
      found.push(`${name} at ${box} is covered by ${seen.tagName.toLowerCase()}.${seen.className}`.slice(0, 200));
  }
  if (before instanceof HTMLElement && before !== document.body) before.focus();
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  return found.slice(0, 5);
}"""
"""The elements in another one that take the focus, and cannot be seen then. A focus scrolls to its element."""


async def faults_in_small_windows(page: Page, within: str, *, reads: bool) -> list[str]:
    """What of the open page is too wide, and what in the element of a selector cannot be reached.

    `reads`: the page may read more when its window has another size.
    """
    found: list[str] = []
    before = page.viewport_size
    for size in SMALL:
        async with settling(page) if reads else nullcontext():
            await page.set_viewport_size(size)
        await page.evaluate(_DRAWN)
        told = f"{size['width']}x{size['height']}"
        if wider := await page.evaluate(_WIDER):
            found.append(f"{told}: {wider}, by {await page.evaluate(_TOO_WIDE)}")
        found += [f"{told}: {line}" for line in await page.evaluate(_OUT_OF_REACH, within)]
    await page.set_viewport_size(before)
    return found
