"""One cluster's files: its routes, presigned URLs, and requests to the bucket with their retries.

A presigned URL is a secret. It is in no error, no log and no text of an object here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clusterra.context import is_private
from clusterra.errors import BucketRefused, ClusterraError, FileChanged, NotClusterra, NotFound, Problem, Unreachable
from clusterra.exchange import TRYING_SECONDS, Answer, Direct, Failure, Request, Steps, direct
from clusterra.http.retrying import Attempts, reason_of
from clusterra.operations.api import Api, segment

MIN_ATTEMPTS = 5
"""The attempts of a request to the bucket that are made also where each takes long."""
_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_RETRIED = (403, 408, 429)
"""403 is also the answer to a URL that has expired; each attempt has a new one."""
_BROKEN_BODIES = frozenset({"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "InvalidDigest"})


@dataclass(frozen=True, slots=True)
class PresignedUrl:
    """A URL of the bucket, and the headers that its request must have."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The files of one cluster, as the caller has them."""

    api: Api
    cluster: str | None = None

    def on(self, rest: str = "") -> str:
        """A path of the API below the cluster's files. Raises ConfigError where no cluster is named."""
        return self.api.on(f"files{rest}", self.cluster)

    def download_url(self, path: str) -> Steps[PresignedUrl]:
        """The URL that downloads a file. Signing asks no bucket: the file may not exist."""
        return (yield from self._presign({"path": path, "method": "GET"}))

    def upload_url(self, path: str, size: int, sha256: str) -> Steps[PresignedUrl]:
        """The URL that uploads exactly these bytes as a file."""
        return (yield from self._presign({"path": path, "method": "PUT", "size": size, "sha256": sha256}))

    def part_url(self, upload: str, path: str, part: Mapping[str, Any]) -> Steps[PresignedUrl]:
        """The URL that uploads a part: its `number`, `size` and `sha256`."""
        body = {"path": path, "parts": [part]}
        answer = yield from self.api.ask(
            Request("POST", self.on(f"/uploads/{segment(upload)}/part-urls"), body=body, repeatable=True)
        )
        try:
            return _presigned(self.api.url, answer.json["urls"][0])
        except (ValueError, TypeError, LookupError):
            raise NotClusterra(self.api.url, answer.status, b"") from None

    def _presign(self, body: Mapping[str, Any]) -> Steps[PresignedUrl]:
        path = self.api.on("storage/presigned-url", self.cluster)
        answer = yield from self.api.ask(Request("POST", path, body=body, repeatable=True))
        try:
            return _presigned(self.api.url, answer.json)
        except (ValueError, TypeError, LookupError):
            # Not with the body, which may have the URL.
            raise NotClusterra(self.api.url, answer.status, b"") from None


def _presigned(gateway: str, answer: Any) -> PresignedUrl:
    """The URL in an answer. Raises Unreachable for one without TLS, though the gateway has it, and errors of shape."""
    url, headers = answer["url"], {str(name): str(value) for name, value in answer["headers"].items()}
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise TypeError
    if not all(each.isascii() and each.isprintable() for each in (url, *headers, *headers.values())):
        raise ValueError
    if is_private(gateway) and not is_private(url):
        raise Unreachable(_bucket(url), "its address is not HTTPS, as that of the gateway is: an operator sets it")
    # The length of the content follows from the content itself.
    return PresignedUrl(url, headers)


def send_to_bucket(
    path: str,
    signed: Callable[[], Steps[PresignedUrl]],
    request: Callable[[PresignedUrl], Direct],
    bytes_kept: Callable[[], int] = lambda: 0,
) -> Steps[Answer]:
    """The answer of the bucket to a request for the file at `path`: a success, or 416.

    Each attempt has a URL of its own. It gives up after MIN_ATTEMPTS and TRYING_SECONDS; both are counted anew when
    `bytes_kept`, the bytes that are safe, has grown. Raises NotFound, FileChanged, BucketRefused, Unreachable.
    """
    attempts, before = Attempts(at_least=MIN_ATTEMPTS), bytes_kept()
    while True:
        url = yield from signed()
        reply = yield from direct(request(url))
        if isinstance(reply, Answer) and (200 <= reply.status < 300 or reply.status == 416):
            return reply
        error = _error(path, url.url, reply)
        if bytes_kept() > before:
            before = bytes_kept()
            attempts.progressed()
        may_pass = _may_pass(reply, attempts.count + 1)
        if not (may_pass and (yield from attempts.failed(reason_of(reply, "the bucket"), TRYING_SECONDS))):
            raise error


def _may_pass(reply: Answer | Failure, attempt: int) -> bool:
    if isinstance(reply, Failure) or reply.status >= 500:
        return True
    if _code(reply) in _BROKEN_BODIES:
        return attempt < 3
    return reply.status in _RETRIED and (reply.status != 403 or attempt < 3)


def _error(path: str, url: str, reply: Answer | Failure) -> ClusterraError:
    if isinstance(reply, Failure):
        return Unreachable(_bucket(url), reply.error)
    if reply.status == 404:
        return NotFound(Problem(404, "/v1/problems/not-found", f"there is no file {path}"))
    code = _code(reply)
    if reply.status == 412 or code in _BROKEN_BODIES:
        return FileChanged(f"{path} was changed while it was copied: copy it again")
    return BucketRefused(reply.status, code)


def _bucket(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return f"the bucket at {scheme}://{host}"


def _code(answer: Answer) -> str:
    found = _CODE.search(answer.body)
    return found[1].decode() if found else ""
