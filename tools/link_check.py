"""Checks the links of all tracked Markdown files: `python tools/link_check.py`. It needs no network.

- A relative link must lead to a tracked file or folder, and its anchor to a heading there, by GitHub's rule.
- A path in backticks must exist: one whose first part is a folder at the root of the repository, such as
  `libs/contracts`, from there or from the document's folder; and any other that ends as a source file does, such as
  `packing/pack.py`, as the end of some tracked path.

Addresses with a scheme and paths with wildcards or placeholders are not checked.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

SOURCE_SUFFIXES = frozenset({".py", ".md", ".lua", ".svg", ".toml", ".yaml", ".yml", ".json"})

_PATH = re.compile(r"\.?\w[\w.-]*(?:/[\w.-]+)+/?")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_HTML_ANCHOR = re.compile(r"""<a\s[^>]*(?:id|name)=["']([^"']+)["']""")


@dataclass(slots=True)
class Document:
    """What of a Markdown file can be wrong, and what others may point at. Lines count from 1."""

    links: list[tuple[int, str]] = field(default_factory=list)
    code: list[tuple[int, str]] = field(default_factory=list)
    """The texts in backticks."""
    anchors: set[str] = field(default_factory=set)


def read(text: str) -> Document:
    """Reads a document. Code blocks are left out."""
    document = Document()
    headings: Counter[str] = Counter()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block":
            document.anchors.update(_HTML_ANCHOR.findall(token.content))
        if token.type != "inline":
            continue
        line = token.map[0] + 1 if token.map else 1
        for each in token.children or ():
            if each.type == "link_open":
                document.links.append((line, str(each.attrGet("href") or "")))
            elif each.type == "image":
                document.links.append((line, str(each.attrGet("src") or "")))
            elif each.type == "code_inline":
                document.code.append((line, each.content))
            elif each.type == "html_inline":
                document.anchors.update(_HTML_ANCHOR.findall(each.content))
        if before is not None and before.type == "heading_open":
            document.anchors.add(_anchor(token, headings))
    return document


def problems(files: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    """What is wrong in the Markdown files among `files`, as `path:line: what`.

    `files` are all paths of the repository, each with what reads its text.
    """
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    documents = {path: read(text()) for path, text in files.items() if path.endswith(".md")}
    known = files.keys() | folders
    for path, document in documents.items():
        for line, link in document.links:
            if wrong := _wrong_link(path, link, known, documents):
                yield f"{path}:{line}: {wrong}"
        for line, code in document.code:
            if _is_missing(path, code, known):
                yield f"{path}:{line}: there is no `{code}`"


def _anchor(heading: Token, headings: Counter[str]) -> str:
    """The anchor that GitHub gives a heading; `headings` counts those of the same text before it."""
    shown = "".join(each.content for each in heading.children or () if each.type in ("text", "code_inline"))
    anchor = _NOT_IN_ANCHORS.sub("", shown.strip().lower()).replace(" ", "-")
    headings[anchor] += 1
    return anchor if headings[anchor] == 1 else f"{anchor}-{headings[anchor] - 1}"


def _wrong_link(path: str, link: str, known: set[str], documents: Mapping[str, Document]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = _beside(path, unquote(parts.path)) if parts.path else path
    if target not in known:
        return f"the link {link} leads to no tracked file"
    if parts.fragment and target in documents and unquote(parts.fragment) not in documents[target].anchors:
        return f"the link {link} leads to no heading"
    return None


def _is_missing(path: str, code: str, known: set[str]) -> bool:
    if not _PATH.fullmatch(code):
        return False
    wanted = normpath(code)
    if wanted in known or _beside(path, code) in known:
        return False
    if wanted.split("/", 1)[0] in known:
        return True
    if PurePosixPath(wanted).suffix not in SOURCE_SUFFIXES:
        return False
    return not any(each.endswith(f"/{wanted}") for each in known)


def _beside(path: str, relative: str) -> str:
    """A path relative to a document's folder, from the root."""
    return normpath(str(PurePosixPath(path).parent / relative))


def main() -> int:
    """Prints all problems; 1 where there are any."""
    root = Path(__file__).parents[1]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    paths = [path for path in listed.split("\0") if path and (root / path).exists()]
    found = list(problems({path: (root / path).read_text for path in paths}))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
