"""The picture of a trace."""

import json
from xml.etree import ElementTree

import pytest
from trace_picture import of_a_job, picture, read, tree

JOB, DECISION, OTHER = "a" * 32, "b" * 32, "c" * 32


def span(name: str, trace: str, number: int, parent: int = 0, **more: object) -> dict[str, object]:
    ids = {"traceId": trace, "spanId": f"{number:016x}", "parentSpanId": f"{parent:016x}" if parent else ""}
    times = {"startTimeUnixNano": str(number * 10**9), "endTimeUnixNano": str((number + 3) * 10**9)}
    return {"name": name, **ids, **times, **more}


def line(service: str, *spans: dict[str, object]) -> str:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})


LINES = [
    line("proxy", span("job <queued>", JOB, 3, 2, events=[{"name": "registered", "timeUnixNano": str(4 * 10**9)}])),
    line("gateway", span("POST /v1/jobs/submit", JOB, 1), span("request", JOB, 2, 1)),
    line("scaler", span("decide", DECISION, 4, links=[{"traceId": JOB}]), span("decide", OTHER, 5)),
]


def test_a_job_s_picture_has_its_trace_and_the_decisions_linked_with_it() -> None:
    job, decision = of_a_job(read(LINES))

    assert [(depth, each.name) for depth, each in tree(job)] == [
        (0, "POST /v1/jobs/submit"),
        (1, "request"),
        (2, "job <queued>"),
    ]
    assert [each.trace for each in decision] == [DECISION]


def test_the_picture_is_valid_and_places_spans_by_their_time() -> None:
    root = ElementTree.fromstring(picture(of_a_job(read(LINES))))

    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    bars = [float(each.attrib["x"]) for each in root.iter("{http://www.w3.org/2000/svg}rect") if "x" in each.attrib]
    assert {"job <queued>", "decide", f"Trace of the job: {JOB}"} <= set(texts)
    assert bars[5:] == sorted(bars[5:])


def test_a_file_without_a_submit_is_refused() -> None:
    with pytest.raises(ValueError, match="submit"):
        of_a_job(read(LINES[2:]))
