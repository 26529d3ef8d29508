"""Spans of messages, with the names and attributes of OpenTelemetry's conventions for messaging."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import UnknownSubject

from clusterra_runtime import trace, tracing
from clusterra_runtime.tracing import Span, SpanKind

_SYSTEM = {"messaging.system": "nats"}


def requesting(subject: str) -> AbstractContextManager[Span]:
    """The client's span of a request, until its reply."""
    return _span(subject, "request", "send", SpanKind.CLIENT)


def publishing(subject: str) -> AbstractContextManager[Span]:
    """The span of the publication of a message."""
    return _span(subject, "publish", "send", SpanKind.PRODUCER)


def answering(subject: str, headers: Mapping[str, str] | None) -> AbstractContextManager[Span]:
    """Enter the trace of a request, with the server's span of its answer."""
    return _received(subject, headers, SpanKind.SERVER, {})


def processing(subject: str, headers: Mapping[str, str] | None, consumer: str = "") -> AbstractContextManager[Span]:
    """Enter the trace of a message, with the span of handling it."""
    group = {"messaging.consumer.group.name": consumer} if consumer else {}
    return _received(subject, headers, SpanKind.CONSUMER, group)


@contextmanager
def _received(
    subject: str, headers: Mapping[str, str] | None, kind: SpanKind, attributes: Mapping[str, str]
) -> Iterator[Span]:
    with trace.extract(headers), _span(subject, "process", "process", kind, attributes) as made:
        yield made


def _span(
    subject: str, name: str, operation: str, kind: SpanKind, attributes: Mapping[str, str] | None = None
) -> AbstractContextManager[Span]:
    if not tracing.recording():
        return tracing.NO_SPAN
    template, ids = described(subject)
    return tracing.span(
        f"{name} {template}",
        kind,
        {
            **_SYSTEM,
            "messaging.operation.name": name,
            "messaging.operation.type": operation,
            "messaging.destination.name": subject,
            "messaging.destination.template": template,
            **ids,
            **(attributes or {}),
        },
    )


def described(subject: str) -> tuple[str, dict[str, str]]:
    """The template of a subject, which has no ids, and the ids as attributes."""
    family, _, rest = subject.partition(".")
    if family == "dlq":
        template, ids = described(rest)
        return f"dlq.{template}", ids
    try:
        if family in subjects.TENANT_FAMILIES:
            return f"{family}.{{tenant}}", {tracing.TENANT: subjects.parse_tenant(subject).tenant}
        about = subjects.parse(subject)
    except UnknownSubject:
        return family, {}
    template = ".".join(part for part in (about.family, "{tenant}.{cluster}", about.rest) if part)
    return template, {tracing.TENANT: about.ref.tenant, tracing.CLUSTER: about.ref.cluster}
