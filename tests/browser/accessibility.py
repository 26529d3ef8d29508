"""The rules of WCAG 2.2 AA that a program can check, with axe-core in the page."""

from functools import cache
from pathlib import Path
from typing import Any

from browser.playwright_api import Page

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_RUN = """\
async (tags) => (await axe.run(document, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] }))
  .violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ target, failureSummary }) =>
    ({ target: target.join(" "), summary: failureSummary ?? "" })) }))
"""
_MAX_NODES = 20
"""Elements that one rule tells at most."""


@cache
def _source() -> str:
    return AXE.read_text()


async def violations(page: Page) -> list[str]:
    """What breaks a rule on the page as it is now: one line for each element. A good page has none."""
    # As an expression of the debugger, not as a script of the page: the page's policy allows only its own scripts.
    await page.evaluate(f"() => {{ {_source()} }}")
    found: list[dict[str, Any]] = await page.evaluate(_RUN, list(TAGS))
    return [
        f"{rule['id']}: {rule['help']}: {node['target']}: {' '.join(node['summary'].split())}"
        for rule in found
        for node in rule["nodes"][:_MAX_NODES]
    ]
