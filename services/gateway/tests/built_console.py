"""A small built console, as Vite writes one: a page, and files with compressed ones beside them."""

import gzip
from pathlib import Path

PAGE = '<!doctype html>\n<meta nonce="CSP_NONCE"><script nonce="CSP_NONCE" src="/assets/index-1.js"></script>\n'
SCRIPT_NAME = "index-1.js"
SCRIPT = b"console.log(1);\n" * 100


def written(folder: Path) -> Path:
    """Writes it to a new folder."""
    assets = folder / "assets"
    assets.mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "secret.txt").write_text("not served")
    (assets / SCRIPT_NAME).write_bytes(SCRIPT)
    (assets / f"{SCRIPT_NAME}.br").write_bytes(b"as brotli")
    (assets / f"{SCRIPT_NAME}.gz").write_bytes(gzip.compress(SCRIPT))
    (assets / "index-1.css").write_bytes(b"p { color: red }")
    (assets / "font-1.woff2").write_bytes(b"\0font")
    (assets / "icon-1.svg").write_bytes(b"<svg/>")
    (assets / "data.unknown").write_bytes(b"\0")
    return folder
