"""What the console's page and its workers may load and reach: their headers of security."""

from collections.abc import Iterable
from types import MappingProxyType

MAX_ORIGINS = 50
"""The origins of buckets that a page may reach. A proxy in front of the gateway may refuse longer headers."""


def page_headers(nonce: str, bucket_origins: Iterable[str]) -> dict[str, str]:
    """The headers of the page. Files are sent to buckets and read from them by presigned URLs, past the gateway."""
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' 'nonce-{nonce}'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        " ".join(("connect-src 'self'", *bucket_origins)),
        "worker-src 'self'",
        "manifest-src 'self'",
        "media-src 'self' blob:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "object-src 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
        # With `no-referrer` browsers send `Origin: null` with a form.
        "Referrer-Policy": "same-origin",
    }


SCRIPT_HEADERS = MappingProxyType(
    {
        "Content-Security-Policy": "; ".join(
            (
                "default-src 'none'",
                "script-src 'self' 'wasm-unsafe-eval'",
                "connect-src 'self'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'none'",
            )
        )
    }
)
"""A worker has the policy of its own script, not that of the page. It may compute with WebAssembly."""
