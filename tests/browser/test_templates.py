"""Templates: one is written, refused at its line, reviewed, published, used and deleted."""

import re

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import Page, expect

DEFINITION = """format: clusterra/1
id: browser-greeting
name: "<b>Greeting</b>"
description: Greets.
tools: [bash]
kind: batch
runtime: {kind: host_system, binary: bash}
inputs: []
parameters:
  - {key: greeting, widget: text, default: hello}
sbatch: |
  #SBATCH --time=5
outputs: {dir: .}
script: |
  #!/bin/bash
  echo {{ params.greeting }}
"""


async def write(page: Page, definition: str) -> None:
    editor = page.get_by_label("Definition", exact=True)
    await editor.click()
    await page.keyboard.press("Control+A")
    await page.keyboard.insert_text(definition)
    await page.get_by_role("button", name="Save as a draft").click()


async def test_a_template_from_its_first_line_to_its_deletion(person: Person) -> None:
    page = (await person("ada")).page
    await page.goto("/c/main/templates?q=table&kind=batch")
    await expect(page.get_by_role("link", name="Array over a table")).to_be_visible()
    assert await violations(page) == []
    await page.get_by_role("button", name="Create template").click()
    await write(page, "format: clusterra/1\nid: browser-greeting\n")
    await expect(page.get_by_text(re.compile("Line 1: `kind` must be"))).to_be_visible()
    await write(page, DEFINITION)
    await page.get_by_role("button", name="Review version 1").click()
    await page.get_by_label("Note for the author").fill("good")
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_role("button", name="Publish version 1").click()
    await expect(page.get_by_text("in use")).to_be_visible()
    assert await violations(page) == []

    await page.get_by_role("link", name="Use this template").click()
    await page.get_by_label("greeting").fill("good; morning")
    await page.get_by_role("button", name=re.compile("Submit ·")).click()
    await page.wait_for_url(re.compile(r"/c/main/jobs/[0-9]+$"))

    await page.goto("/c/main/templates/browser-greeting")
    await page.get_by_role("button", name="Delete the template").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete the template").click()
    await page.wait_for_url(re.compile(r"/c/main/templates$"))
