"""Compares files with ETags.

The ETag of a single-part upload is its MD5; of a multipart upload, the MD5 of the parts' MD5s and their count. With KMS
it is opaque.
"""

import hashlib
import re

from clusterra.files.local import Source

_MIB = 1024 * 1024
USUAL_CUTS = tuple(mib * _MIB for mib in (64, 16, 8, 5, 32, 128))
"""The sizes of parts that Clusterra and other programs use."""
_PARTS = re.compile(r"([0-9a-f]{32})-([1-9][0-9]{0,4})")


def plain_md5(etag: str) -> str | None:
    """The MD5 that an ETag is; None for that of a file of several parts."""
    bare = etag.strip('"').lower()
    return bare if re.fullmatch("[0-9a-f]{32}", bare) else None


def agrees(
    etag: str, source: Source, cuts: tuple[int, ...] = USUAL_CUTS, *, otherwise: bool | None = None
) -> bool | None:
    """Whether a source has the content of an ETag; None where nothing can be said. It reads the source.

    A cut that gives the right number of parts, but not their checksum, is no proof: the file may have been cut in
    another way. `otherwise` is returned for it.
    """
    expected = plain_md5(etag)
    if expected is not None:
        return _md5(source, 0, source.size).hex() == expected
    found = _PARTS.fullmatch(etag.strip('"').lower())
    if found is None:
        return None
    outcome: bool | None = None
    for cut in dict.fromkeys(cuts):
        if -(-source.size // cut) == int(found[2]):
            parts = b"".join(_md5(source, begin, min(cut, source.size - begin)) for begin in range(0, source.size, cut))
            if hashlib.md5(parts, usedforsecurity=False).hexdigest() == found[1]:
                return True
            outcome = otherwise
    return outcome


def _md5(source: Source, offset: int, size: int) -> bytes:
    found = hashlib.md5(usedforsecurity=False)
    for piece in source.chunks(offset, size):
        found.update(piece)
    return found.digest()
