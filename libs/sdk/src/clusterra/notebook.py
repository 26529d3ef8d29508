"""A job as a notebook shows it. What a job is called and what it writes are texts of others: all of it is escaped."""

from html import escape

from clusterra.models import JobRecord

SHOWN_LINES = 20
SHOWN_CHARACTERS = 20_000
_FIELDS = ("state", "reason", "nodes", "submitted_at", "started_at", "ended_at", "exit_code")


def job_html(record: JobRecord, output: str) -> str:
    """The fields of a job and the end of its output as HTML."""
    given = {name: getattr(record, name) for name in _FIELDS}
    texts = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in given.items()}
    rows = "".join(
        f"<tr><th style='text-align: left'>{name.replace('_', ' ')}</th>"
        f"<td style='text-align: left'>{visible(str(value))}</td></tr>"
        for name, value in texts.items()
        if value not in (None, "")
    )
    log = f"<pre>{visible(output[-SHOWN_CHARACTERS:])}</pre>" if output else ""
    return f"<div><b>Job {visible(record.job_id)}</b> {visible(record.name)}<table>{rows}</table>{log}</div>"


def problem_html(job_id: str, text: str) -> str:
    """A job that cannot be read now."""
    return f"<div><b>Job {visible(job_id)}</b><pre>{visible(text)}</pre></div>"


def visible(text: str) -> str:
    """Escaped text, with a replacement character for each that is not printable."""
    return escape("".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text))
