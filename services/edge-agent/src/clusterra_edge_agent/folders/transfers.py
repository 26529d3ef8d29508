"""HTTP requests to the bucket by presigned URLs, from and to open files. Blocks: call it in a thread.

A URL is a secret, so no error repeats one.
"""

import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, override

BLOCK_BYTES = 1024 * 1024
TIMEOUT_SECONDS = 15.0
"""How long the bucket may be silent. The agent ends no sooner than that."""
_MAX_ERROR_BYTES = 64 * 1024
_CODE = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")
_TRANSIENT = frozenset({"RequestExpired", "RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable"})
_OVERLOADED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

type Moved = Callable[[int], None]
"""Is told of bytes that were copied. It may raise to end the copy."""


class TransferFailed(Exception):
    """The bucket did not take or give the bytes. The text is for the owner of the file to read."""

    def __init__(self, detail: str, *, transient: bool, outage: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.transient = transient
        self.outage = outage
        """Whether the bucket fails whatever file it is asked for."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(self, *_: Any) -> None:
        """A signed request is sent to the server that it was signed for, and to no other."""
        return


_opener = urllib.request.build_opener(_NoRedirects)


def upload(file: int, offset: int, length: int, url: str, headers: Mapping[str, str], moved: Moved) -> None:
    """Upload a part of an open file. Raises TransferFailed, and what `moved` raises."""
    given = {"Content-Type": "application/octet-stream", **headers, "Content-Length": str(length)}
    # Of no bytes there is no iterator: urllib would send none of the headers that say so.
    body = _blocks(file, offset, length, moved) if length else b""
    request = urllib.request.Request(_checked(url), data=body, headers=given, method="PUT")  # noqa: S310 - checked
    with _answered(request) as answer:
        _read(answer, _MAX_ERROR_BYTES)


def download(file: int, begin: int, size: int, url: str, etag: str, moved: Moved) -> None:
    """Download an object of `size` bytes from the byte `begin` on into an open file.

    Raises TransferFailed, OSError, and what `moved` raises.
    """
    headers = {"If-Match": etag} if etag else {}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    request = urllib.request.Request(_checked(url), headers=headers)  # noqa: S310 - checked
    with _answered(request) as answer:
        if begin and answer.status != HTTPStatus.PARTIAL_CONTENT:
            raise TransferFailed("the bucket does not go on in the middle of a file", transient=True)
        at = begin
        while block := _read(answer, BLOCK_BYTES):
            if at + len(block) > size:
                raise TransferFailed("the object is larger than it was", transient=True)
            view = memoryview(block)
            while view:
                written = os.pwrite(file, view, at)
                at += written
                view = view[written:]
            moved(len(block))
        if at != size:
            raise TransferFailed("the bucket broke off", transient=True)


def _blocks(file: int, offset: int, length: int, moved: Moved) -> Iterator[bytes]:
    while length:
        block = os.pread(file, min(BLOCK_BYTES, length), offset)
        if not block:
            raise TransferFailed("the file became shorter while it was copied", transient=False)
        yield block
        moved(len(block))
        offset += len(block)
        length -= len(block)


def _read(answer: http.client.HTTPResponse, most: int) -> bytes:
    try:
        return answer.read(most)
    except (http.client.HTTPException, OSError) as error:
        raise TransferFailed(f"the bucket broke off ({type(error).__name__})", transient=True) from None


def _answered(request: urllib.request.Request) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = _opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            try:
                body = error.read(_MAX_ERROR_BYTES)
            except (http.client.HTTPException, OSError):
                body = b""
            raise _failure(error.code, body) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        detail = f"the bucket does not answer ({type(reason).__name__})"
        # A connection that breaks while a file is sent may be a fault of this file, such as its size.
        outage = not isinstance(reason, ConnectionResetError | BrokenPipeError | http.client.HTTPException)
        raise TransferFailed(detail, transient=True, outage=outage) from None
    return answer


def _failure(status: int, body: bytes) -> TransferFailed:
    found = _CODE.search(body)
    code = found[1].decode() if found else str(status)
    transient = code in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in (403, 408, 412, 429)
    return TransferFailed(f"the bucket refuses it ({code})", transient=transient, outage=status in _OVERLOADED)


def _checked(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise TransferFailed("the URL is none of a bucket", transient=False)
    return url
