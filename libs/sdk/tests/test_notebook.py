"""What a notebook shows of a job has no markup of the job's own."""

from html.parser import HTMLParser

from clusterra.models import JobRecord
from clusterra.notebook import job_html, problem_html
from hypothesis import given
from hypothesis import strategies as st

OURS = {"div", "b", "table", "tr", "th", "td", "pre"}
hostile = st.text(st.sampled_from("<>&\"'/ab=\x1b\0\n\u202e"), max_size=40)


class Tags(HTMLParser):
    """Collects the tags of a page and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert attrs in ([], [("style", "text-align: left")])

    def handle_data(self, data: str) -> None:
        self.text += data


@given(name=hostile, reason=hostile, output=hostile)
def test_texts_of_others_are_escaped(name: str, reason: str, output: str) -> None:
    record = JobRecord.model_validate(
        {
            "job_id": "7",
            "name": name,
            "user": "ada",
            "uid": 1,
            "state": "RUNNING",
            "reason": reason,
            "partition": "main",
            "submitted_at": "2026-11-26T00:00:00Z",
        }
    )
    parser = Tags()

    parser.feed(job_html(record, output) + problem_html("7", reason))
    parser.close()

    assert set(parser.tags) <= OURS
    assert "RUNNING" in parser.text
    assert all(each.isprintable() or each == "\n" for each in parser.text)
