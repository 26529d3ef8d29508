"""What breaks the rules of WCAG is found, also on a page whose policy allows no foreign script."""

from browser.accessibility import violations
from browser.own_page import Site


async def test_a_page_that_few_can_use_has_violations(site: Site) -> None:
    await site.open(body='<img src="data:,"><input><button></button>')

    found = await violations(site.page)

    rules = {line.partition(":")[0] for line in found}
    assert {"image-alt", "label", "button-name"} <= rules, found


async def test_a_page_that_all_can_use_has_none(site: Site) -> None:
    await site.open(body='<label>Name <input></label><button type="button">Save</button>')

    assert await violations(site.page) == []
