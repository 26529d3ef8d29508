"""A person's jobs in the browser: the list, one job from its start to its end, its output, and acts on many."""

import re

from clusterra_lab.stack.stack import Stack
from gates import closed_gate

from browser.accessibility import violations
from browser.conftest import Person
from browser.keyboard import go_to, press
from browser.people import Member
from browser.playwright_api import Page, expect

CONTRADICTIONS = """() => {
  window.contradictions = [];
  const look = () => {
    const state = document.querySelector("main [data-state]")?.textContent ?? "";
    const said = document.body.innerText;
    const other = /Failed/.test(state) ? /It has been running|It runs on|The output is empty/
      : /Running/.test(state) ? /It waits for|It is held|It has just been submitted/ : /(?!)/;
    const found = other.exec(said);
    if (found !== null) window.contradictions.push(`${state}: ${found[0]}`);
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Notes whatever the page says of another state of the job than the one that it shows."""

ANNOUNCED = """() => {
  window.announced = [];
  const look = (changes) => {
    for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
      if (node.parentElement?.matches("[role=status]")) window.announced.push(node.textContent);
    }
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
}"""
"""Notes what is said to screen readers, in its order."""
STATES = ("Waiting", "Starting", "Running", "Done", "Failed")

HOSTILE = '<img src=x onerror="alert(1)"> \u202egnp.exe'
JOB = {"time_limit": 5, "current_working_directory": "/mnt/efs"}


async def _submitted(member: Member, script: str, **job: object) -> str:
    return (await member.user.submit(f"#!/bin/sh\n{script}\n", {**JOB, **job})).job_id


async def _announced_states(page: Page) -> list[str]:
    announced: list[str] = await page.evaluate("() => window.announced")
    return [each for each in announced if each in STATES]


async def test_a_job_runs_to_its_end_without_a_reload(person: Person) -> None:
    ada = await person("ada")
    job = await _submitted(ada, "printf '\\033[31mred\\033[0m <b>text</b>\\n'; nosuchcommand", name=HOSTILE, hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs/{job}")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("⟨202e⟩gnp.exe")
    await expect(page.get_by_text("It is held by its owner")).to_be_visible()
    assert not await violations(page)
    await page.evaluate(CONTRADICTIONS)
    await page.evaluate(ANNOUNCED)

    await page.get_by_role("button", name="Release").dblclick()

    await expect(page.get_by_role("heading", name="A command was not found (exit code 127)")).to_be_visible()
    output = page.get_by_role("log")
    await expect(output).to_contain_text("red <b>text</b>")
    await expect(output).to_contain_text("nosuchcommand")
    await expect(page.get_by_role("list", name="Stages of the job")).to_contain_text("ended")
    await expect(page.get_by_role("region", name="Scheduling")).to_contain_text("It has ended as FAILED")
    await expect(page.get_by_text("Complete as of now")).to_be_visible()
    assert await page.evaluate("() => window.contradictions") == []
    said = await _announced_states(page)
    assert said == sorted(set(said), key=STATES.index), "each state once, and none after a later one"
    assert said[-1] == "Failed"
    assert not await violations(page)

    await page.set_viewport_size({"width": 1400, "height": 900})
    await page.goto(f"/c/{ada.user.cluster}/jobs?find={job}")
    head = page.get_by_role("columnheader", name="Cost, USD")
    await expect(head).to_be_visible()
    await expect(head.get_by_role("button")).to_have_count(0)
    row = page.get_by_role("row").filter(has_text=job)
    await expect(row.locator("[title^='As of']")).to_have_text(re.compile(r"^(≥ )?\d+\.\d{2,6}$|^unknown$"))
    assert not await violations(page)


async def test_who_cancels_somebody_elses_job_is_told_whose_it_is(person: Person) -> None:
    ada, grace = await person("ada"), await person("grace")
    job = await _submitted(grace, "sleep 60", name="hers", hold=True)
    page, dialog = ada.page, ada.page.get_by_role("dialog")
    await page.goto(f"/c/{ada.user.cluster}/jobs?find={job}")
    await page.get_by_role("button", name="Actions on this job…").click()
    await expect(dialog.get_by_text("Among them are jobs of grace.")).to_be_visible()
    await dialog.get_by_role("button", name="Go back").click()
    await page.goto(f"/c/{ada.user.cluster}/jobs/{job}")
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(dialog.get_by_text("It belongs to grace.")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel the job").click()
    await expect(page.get_by_role("main")).to_contain_text("Cancelled")


_MOVED_UP = """(element) => new Promise((drawn) => {
  element.scrollTop -= 300;
  requestAnimationFrame(() => requestAnimationFrame(() => drawn()));
})"""


async def test_the_end_of_a_long_output_is_there_at_once_and_its_start_on_request(person: Person) -> None:
    ada = await person("ada")
    job = await _submitted(ada, "seq -f 'line %.0f of a long output' 1 400000", name="long")
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs/{job}")
    output = page.get_by_role("log")
    await expect(output).to_contain_text("line 400000 of")

    await page.get_by_label("Find in the loaded part").fill("line 39999")
    await expect(page.get_by_role("status").filter(has_text="10 lines match")).to_be_visible()
    await expect(output.get_by_text("line 399990 of a long output")).to_be_in_viewport()
    await page.get_by_role("button", name="Next match").click()
    await expect(page.get_by_role("status").filter(has_text="1 of 10 lines")).to_be_visible()
    await page.get_by_role("button", name="Start", exact=True).click()

    await expect(output).to_contain_text("line 1 of")


async def test_an_output_that_is_followed_does_not_speak_with_each_line(lab: Stack, person: Person) -> None:
    ada, gate = await person("ada"), closed_gate(lab)
    script = f"seq -f 'line %.0f of 300' 1 300\n{gate.wait}printf 'one\\ntwo\\n'\nsleep 60"
    job = await _submitted(ada, script, name="followed")
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs/{job}")
    output, follow = page.get_by_role("log"), page.get_by_role("checkbox", name="Follow")
    await expect(output).to_contain_text("line 300 of 300")
    await expect(output).to_have_attribute("aria-live", "off")
    # Not all lines are in the page.
    await expect(output).to_have_accessible_description(
        re.compile(r"^Lines \d{2,3} to 300 of 300; scroll for the rest$")
    )
    assert not await violations(page)

    # Those before may have come by the stream, too.
    said = page.get_by_role("status").filter(has_text=re.compile(r"^(2|302) new lines of output$"))
    gate.open()
    await expect(output).to_contain_text("two")
    await expect(said).to_have_count(1)

    # As when rows at the beginning go: only a person who scrolls ends the following.
    await output.evaluate(_MOVED_UP)
    await expect(follow).to_be_checked()
    await output.hover()
    await page.mouse.wheel(0, -300)
    await expect(follow).not_to_be_checked()
    await follow.check()
    await page.get_by_label("Find in the loaded part").fill("line 299")
    await expect(page.get_by_role("status").filter(has_text="1 line matches. Follow is off")).to_have_count(1)
    await expect(follow).not_to_be_checked()
    await ada.user.cancel(job)


async def test_a_filtered_list_is_in_its_address_and_many_are_cancelled_once(person: Person) -> None:
    ada = await person("ada")
    for _ in range(3):
        await _submitted(ada, "sleep 300", name="many-at-once", hold=True)
    await _submitted(ada, "true", name="another", hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs")
    await page.get_by_label("Name or job ID").fill("many-at-once")
    await expect(page).to_have_url(re.compile("find=many-at-once"))
    await page.reload()
    await expect(page.get_by_text("3 of ")).to_be_visible()
    assert not await violations(page)

    await page.get_by_role("button", name="Actions on these 3 jobs").click()
    await expect(page.get_by_text("3 jobs will be cancelled")).to_be_visible()
    await page.get_by_role("button", name="Cancel 3 jobs").dblclick()

    await expect(page.get_by_text("3 done, 0 failed, 0 left")).to_be_visible()
    await page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    await expect(page.get_by_role("cell", name="Cancelled")).to_have_count(3)
    await expect(page.get_by_role("status").filter(has_text="3 jobs cancelled")).to_be_visible()


async def test_selected_rows_alone_are_acted_on_and_stay_selected_while_others_come(person: Person) -> None:
    ada = await person("ada")
    jobs = [await _submitted(ada, "sleep 300", name="selected-alone", hold=True) for _ in range(3)]
    array = await _submitted(ada, "true", name="selected-alone", array="0-3", hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs?find=selected-alone")
    await expect(page.get_by_text("4 of ")).to_be_visible()
    every = page.get_by_role("checkbox", name="Select all jobs that match")
    of_array = page.get_by_role("checkbox", name=f"Select all tasks of selected-alone ({array})")
    first, second, third = (page.get_by_role("checkbox", name=f"Select selected-alone ({job})") for job in jobs)

    # The newest are on top: the array, and below it the third.
    await go_to(page, of_array)
    await page.keyboard.press("Space")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(second).to_be_focused()
    await page.keyboard.press("Space")
    await expect(every).to_have_js_property("indeterminate", True)
    later = await _submitted(ada, "true", name="selected-alone", hold=True)
    await expect(page.get_by_role("checkbox", name=f"Select selected-alone ({later})")).not_to_be_checked()
    await expect(second).to_be_checked()
    assert not await violations(page)
    await expect(page.get_by_role("status").filter(has_text="2 jobs selected")).to_have_count(1)
    await press(page, page.get_by_role("button", name="Actions on 2 selected jobs"))
    await page.get_by_role("button", name="Cancel 2 jobs").press("Enter")
    await expect(page.get_by_text("2 done, 0 failed, 0 left")).to_be_visible()
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("button", name="Actions on these ")).to_be_focused()
    await expect(page.get_by_role("status").filter(has_text="2 jobs cancelled")).to_have_count(1)
    await expect(page.get_by_role("cell", name="Cancelled", exact=True)).to_have_count(2)
    await expect(page.get_by_role("cell", name="Waiting", exact=True)).to_have_count(3)
    await expect(first).not_to_be_checked()

    # All that match, but one; other filters begin without a selection.
    await every.check()
    await third.uncheck()
    await expect(page.get_by_role("button", name=re.compile(r"Actions on \d+ selected jobs"))).to_be_visible()
    await page.get_by_label("Name or job ID").fill(jobs[0])
    await expect(first).not_to_be_checked()
    await expect(page.get_by_role("button", name="Actions on this job")).to_be_visible()


async def test_a_day_filters_as_soon_as_it_is_whole_and_is_that_of_the_sum(person: Person) -> None:
    ada = await person("ada")
    await _submitted(ada, "true", name="of-today", hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs")
    await page.get_by_role("button", name="More filters").click()
    await page.get_by_label("Submitted from").focus()

    # Neither Enter, nor another field.
    await page.keyboard.type("11272020")
    await expect(page).to_have_url(re.compile("since=2020-11-27"))
    await expect(page.get_by_text("submitted since 2020-11-27")).to_be_visible()


async def test_an_array_is_one_row_and_opens_with_the_keyboard(person: Person) -> None:
    ada = await person("ada")
    array = await _submitted(ada, "true", name="folded", array="0-3", hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs?find=folded")
    toggle = page.get_by_role("button", name=f"Tasks of folded ({array}): 4")
    await expect(toggle).to_have_attribute("aria-expanded", "false")
    await toggle.focus()
    await page.keyboard.press("Enter")

    await expect(toggle).to_have_attribute("aria-expanded", "true")
    await expect(page.get_by_text(f"{array}_[0-3]")).to_be_visible()


async def test_an_array_lists_its_tasks_and_leads_to_the_one_that_failed(person: Person) -> None:
    ada = await person("ada")
    script = "[ $SLURM_ARRAY_TASK_ID != 2 ] || { echo task two; exit 7; }"
    array = await _submitted(ada, script, name="one-of-three", array="1-3", hold=True)
    page = ada.page
    await page.goto(f"/c/{ada.user.cluster}/jobs/{array}")
    await expect(page.get_by_text("3 waiting", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
    await page.evaluate(ANNOUNCED)
    await page.get_by_role("button", name="Release").click()
    tasks = page.get_by_role("table", name="Tasks of the array")
    await expect(tasks.get_by_role("row").nth(1)).to_contain_text(re.compile(f"{array}_2.*Failed.*7"))
    await expect(tasks.get_by_role("row")).to_have_count(4)
    await expect(page.get_by_role("status").filter(has_text="All tasks ended: 2 done, 1 failed")).to_have_count(1)
    assert await _announced_states(page) == [], "no state of one task is said of all"
    await expect(page.get_by_text("2 done", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    assert not await violations(page)

    await tasks.get_by_role("link", name=f"{array}_2").click()
    await expect(page.get_by_role("log")).to_contain_text("task two")
