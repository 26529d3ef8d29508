"""Names that people write to do harm are text on every page that lists them, and no page grows wider by them."""

from typing import Any
from urllib.parse import quote

from browser.conftest import Person
from browser.people import Member
from browser.playwright_api import expect
from browser.settled import settling

MARKUP = "<img src=x onerror=window.harmed=1>"
OTHER_WAY = "\u202egnp.exe\u2066"
NARROW = {"width": 360, "height": 800}
TEMPLATE = """format: clusterra/1
id: hostile
name: %s
description: %s
tools: [bash]
kind: batch
runtime: {kind: host_system, binary: bash}
inputs: []
parameters:
  - {key: value, widget: text, default: %s, description: %s}
sbatch: ""
outputs: {dir: .}
script: |
  #!/bin/bash
  echo {{ params.value }}
"""
_TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"


def name(most: int) -> str:
    """A name as long as the API takes it."""
    return (MARKUP + OTHER_WAY).ljust(most, "n")[:most]


async def sent(member: Member, method: str, path: str, body: Any) -> Any:
    async with member.user.session.request(method, path, json=body) as answer:
        assert answer.status < 300, await answer.text()
        return None if answer.status == 204 else await answer.json()


async def published(ada: Member) -> None:
    """A template with such texts, in use."""
    definition = TEMPLATE % tuple(f'"{name(most)}"' for most in (200, 1000, 500, 500))
    await sent(ada, "POST", "/v1/templates", {"definition": definition})
    version = "/v1/templates/hostile/versions/1"
    await sent(ada, "POST", f"{version}/review", {"approve": True, "note": name(200)})
    await sent(ada, "POST", f"{version}/publish", {})


async def arranged(ada: Member) -> None:
    await published(ada)
    await sent(ada, "POST", "/v1/users/me/tokens", {"name": name(64)})
    job = await ada.user.submit("#!/bin/sh\ntrue\n", {"time_limit": 5})
    await sent(ada, "POST", f"/v1/clusters/main/jobs/{job.job_id}/links", {"name": name(64)})
    await sent(ada, "POST", "/v1/service-accounts", {"name": "hostile", "description": name(200)})
    await sent(ada, "POST", "/v1/service-accounts/hostile/keys", {"name": name(64)})
    schedule = {"name": name(100), "template_id": "hostile", "cluster_id": "main", "cron": "0 6 * * *"}
    await sent(ada, "POST", "/v1/schedules", schedule)
    step = {"step_id": "a", "script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
    await sent(ada, "POST", "/v1/clusters/main/runs", {"run_name": name(200), "steps": [step]})
    await sent(ada, "PUT", f"/v1/users/me/views/{quote(name(60), safe='')}", {"page": "jobs", "query": "find=a"})


WITHOUT_NAMES = ("admin/audit", "activity")
"""Pages that tell only of events, of which few have a name."""
PAGES = (
    "templates",
    "templates/hostile",
    "templates/hostile?tab=versions",
    "submit?template=hostile",
    "workflows",
    "workflows/schedules",
    "workflows/schedules?template=hostile",
    "tokens",
    "admin/tokens",
    "admin/service-accounts",
    *WITHOUT_NAMES,
)


async def test_names_are_text_wherever_they_are_listed(person: Person) -> None:
    ada = await person("ada")
    await arranged(ada)
    page = ada.page
    await page.set_viewport_size(NARROW)
    found: list[str] = []
    for path in PAGES:
        async with settling(page):
            await page.goto(f"/c/main/{path}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
        if await page.locator("img[src=x]").count() or await page.evaluate("window.harmed"):
            found.append(f"{path}: a name became markup")
        if OTHER_WAY[0] in await page.locator("body").inner_text():
            found.append(f"{path}: a name turns the text around it")
        if (wider := await page.evaluate(_TOO_WIDE)) > 0:
            found.append(f"{path} is {wider} px too wide")
        if path not in WITHOUT_NAMES and MARKUP not in await page.locator("body").inner_text():
            found.append(f"{path} shows no name")
    assert not found, "\n".join(found)
