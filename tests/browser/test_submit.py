"""Submit: a script and its form are the same text, drafts survive a reload, one job comes of it."""

import re

from clusterra_lab.machine.process import until
from clusterra_lab.stack.stack import Stack
from staged_files import staging_over, uploaded

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import Page, expect

JOB = re.compile(r"/c/main/jobs/[0-9]+$")
UNCOVERED = """(element) => {
  const { left, top, width, height } = element.getBoundingClientRect();
  const seen = document.elementFromPoint(left + width / 2, top + height / 2);
  return seen === element || element.contains(seen);
}"""
"""Whether what is seen in the middle of an element is the element."""
HOSTILE_NAME = 'my "job" \u202e<b>x</b>'


async def open_submit(page: Page, search: str = "") -> None:
    await page.goto(f"/c/main/submit{search}")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def test_a_script_and_its_form_are_one_and_a_reload_keeps_them(person: Person) -> None:
    page = (await person("ada")).page
    await open_submit(page)
    editor = page.get_by_label("Script", exact=True)
    await expect(editor).to_contain_text("#SBATCH --time=10")
    await page.get_by_label("Time limit").fill("7")
    await page.get_by_label("Name", exact=True).fill(HOSTILE_NAME)
    await expect(editor).to_contain_text("#SBATCH --time=7")
    await page.get_by_label("Memory").fill("4Q")
    await expect(page.get_by_text("Line 5: --mem must be a size")).to_be_visible()
    await expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    await page.get_by_label("Memory").fill("100M")
    button = page.get_by_role("button", name=re.compile(r"Submit · at most .* USD · start"))
    await expect(button).to_be_visible()
    assert await violations(page) == []

    await page.reload()
    await expect(page.get_by_label("Time limit")).to_have_value("7")
    await expect(page.get_by_label("Name", exact=True)).to_have_value(HOSTILE_NAME)
    await button.dblclick()
    await page.wait_for_url(JOB)
    await open_submit(page)
    await expect(page.get_by_label("Time limit")).to_have_value("10")


async def test_the_form_of_a_template_makes_a_job(person: Person) -> None:
    page = (await person("ada")).page
    await open_submit(page, "?template=array-csv")
    await page.get_by_label("rows", exact=False).first.fill("sample,size\na,1\nb,2\n")
    await page.get_by_label("commands", exact=False).first.fill('echo "$ARRAY_ROW_SAMPLE"')
    await expect(page.get_by_text("2 rows: 2 array tasks")).to_be_visible()
    await expect(page.get_by_text("An array of 2 tasks")).to_be_visible()
    await page.get_by_role("button", name=re.compile("Submit ·")).click()
    await page.wait_for_url(JOB)


async def test_a_job_of_a_template_is_watched_to_its_output_and_its_end(person: Person) -> None:
    page = (await person("ada")).page
    await open_submit(page, "?template=shell")
    await page.get_by_label("commands", exact=False).first.fill('echo "<b>$((6 * 7))</b> from a form"')
    await page.get_by_role("button", name=re.compile("Submit ·")).click()
    await page.wait_for_url(JOB)
    await expect(page.get_by_role("log")).to_contain_text("<b>42</b> from a form")
    await expect(page.get_by_role("list", name="Stages of the job")).to_contain_text("ended")


async def test_a_job_is_run_again_with_its_script_by_the_persons_own_submit(person: Person) -> None:
    ada = await person("ada")
    script = "#!/bin/sh\n#SBATCH --job-name=again --time=6\necho '<b>again</b>'\n"
    job = (await ada.user.submit(script, {"hold": True})).job_id
    page = ada.page
    await page.goto(f"/c/main/jobs/{job}?tab=script")
    shown = page.get_by_label("Script", exact=True).and_(page.locator("pre"))
    retry = page.get_by_role("button", name="Try again").first

    async def kept() -> bool:
        """Slurm's accounting has a script some seconds after the submit."""
        if await retry.is_visible():
            await retry.click()
        return bool(await shown.is_visible())

    await until(kept, seconds=90, what="the script", every=0.5)
    await expect(shown).to_have_text(script)
    assert await violations(page) == []

    rerun = page.get_by_role("link", name="Rerun")
    written = page.get_by_label("Script", exact=True)
    await rerun.click()
    await expect(page).to_have_url(re.compile("/c/main/submit$"))
    await expect(written).to_contain_text("echo '<b>again</b>'")

    await page.get_by_label("Time limit").fill("7")
    await expect(written).to_contain_text("--time=7")
    await page.goto(f"/c/main/jobs/{job}")
    await rerun.click()
    question = page.get_by_role("dialog", name="Replace your draft?")
    await expect(question).to_be_visible()
    assert await violations(page) == []
    await question.get_by_role("button", name="Keep my draft").click()
    await expect(page).to_have_url(re.compile("/c/main/submit$"))
    await expect(written).to_contain_text("--time=7")

    await page.goto(f"/c/main/jobs/{job}")
    await rerun.click()
    await question.get_by_role("button", name="Replace it").click()
    await expect(page).to_have_url(re.compile("/c/main/submit$"))
    await expect(page.get_by_label("Time limit")).to_have_value("6")
    await page.get_by_role("button", name=re.compile("Submit ·")).click()
    await page.wait_for_url(JOB)
    assert not page.url.endswith(f"/{job}")
    await ada.user.cancel(job)


async def test_a_file_of_the_bucket_is_added_by_keyboard_with_the_focus_in_sight(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    await uploaded(lab, ada.user, "data/picked/points.csv", b"1,2\n")
    page = ada.page
    await open_submit(page)
    await page.get_by_role("button", name="Start over").click()
    await page.get_by_role("button", name="Add a file from the bucket").press("Enter")
    picker = page.get_by_role("dialog", name="Choose a file in the bucket")
    place, said = picker.get_by_role("heading", level=3), picker.get_by_role("status")
    await expect(place).to_be_focused()
    await expect(place).to_have_text("Bucket")
    await expect(said).to_have_text(re.compile(r"^\d+ entr(y|ies) in Bucket$"))

    # The button that opens a folder is gone with the folder that it was in.
    await picker.get_by_role("button", name="Folder data", exact=True).press("Enter")
    await expect(said).to_have_text(re.compile(r"^\d+ entr(y|ies) in data$"))
    await expect(place).to_be_focused()
    await picker.get_by_role("button", name="Folder picked", exact=True).press("Enter")
    await expect(said).to_have_text("1 entry in data/picked")
    await expect(place).to_be_focused()
    await expect(place).to_have_text("data/picked")
    assert await violations(page) == []

    await picker.get_by_role("button", name="points.csv").press("Enter")
    await expect(picker).to_have_count(0)
    file = page.get_by_role("textbox", name="Destination file")
    await expect(file).to_be_focused()
    await expect(file).to_have_value("points.csv")
    assert await file.evaluate(UNCOVERED)
    await expect(page.get_by_role("status").filter(has_text="data/picked/points.csv is copied")).to_have_count(1)
    await page.get_by_role("button", name="Add results").press("Enter")
    results = page.get_by_role("textbox", name="Results")
    await expect(results).to_be_focused()
    assert await results.evaluate(UNCOVERED)
    await page.get_by_role("button", name="Start over").click()


async def test_results_are_kept_and_found_from_the_page_of_the_job(lab: Stack, person: Person) -> None:
    ada = await person("ada")
    page = ada.page
    await open_submit(page)
    await page.get_by_role("button", name="Start over").click()
    await page.get_by_role("button", name="Add results").click()
    pattern = page.get_by_role("textbox", name="Results")
    await expect(pattern).to_be_in_viewport()
    await expect(page.get_by_text("Only files that match are kept")).to_be_in_viewport()
    await pattern.fill("*.txt")
    await page.get_by_label("Script", exact=True).click()
    await page.keyboard.press("Control+a")
    await page.keyboard.insert_text("#!/bin/sh\n#SBATCH --time=5\necho kept > kept.txt\n")
    assert await violations(page) == []
    await page.get_by_role("button", name=re.compile("Submit ·")).click()
    await page.wait_for_url(JOB)

    await staging_over(lab, ada.user, page.url.rsplit("/", 1)[1])
    await page.reload()
    await page.get_by_role("tab", name="Files").click()
    results = page.get_by_role("region", name="Results")
    await expect(results).to_contain_text("done · 1 file")
    assert await violations(page) == []
    await expect(results.get_by_role("list", name="Results are copied to these folders:")).to_contain_text(
        "*.txt → outputs/"
    )
    await results.get_by_role("list", name="Copied files").get_by_role("link", name="kept.txt").click()
    await expect(page).to_have_url(re.compile(r"/files\?path=outputs%2F.*&file=outputs%2F.*kept\.txt$"))
    await expect(page.get_by_role("dialog", name="kept.txt")).to_contain_text("kept")
