"""A page by its keys alone: each step has a sign of where the focus is."""

from clusterra_lab.machine.process import until

from browser.playwright_api import Locator, Page, expect

MOST_STEPS = 80
"""No control of a page is further from its beginning."""
_FOCUS_IS_VISIBLE = """() => {
  const focused = document.activeElement;
  if (focused === document.body) return true;
  const ringed = (each) => each && getComputedStyle(each).outlineStyle !== "none";
  const twin = focused.cloneNode();
  focused.after(twin);
  const { boxShadow, borderColor } = getComputedStyle(focused), before = getComputedStyle(twin);
  const changed = boxShadow !== before.boxShadow || borderColor !== before.borderColor;
  twin.remove();
  return changed || [focused, focused.parentElement, focused.closest(".cm-editor")].some(ringed);
}"""
"""Whether the element that has the focus shows it: its twin, which has no focus, looks as it did before."""


async def go_to(page: Page, target: Locator) -> None:
    """Press Tab until the target has the focus."""
    await expect(target).to_be_visible()
    await expect(target).to_be_enabled()
    for _ in range(MOST_STEPS):
        await page.keyboard.press("Tab")
        focused = await page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        # Colours change within a moment.
        await until(lambda: page.evaluate(_FOCUS_IS_VISIBLE), seconds=90, what=f"a sign of the focus on {focused}")
        if await target.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not lead to {target}")


async def press(page: Page, target: Locator) -> None:
    await go_to(page, target)
    await page.keyboard.press("Enter")
