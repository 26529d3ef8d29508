"""Reads the definitions of a folder."""

from dataclasses import dataclass
from pathlib import Path

from clusterra_templates.definitions import Definition
from clusterra_templates.loading import MAX_BYTES, load
from clusterra_templates.problems import TemplateInvalid

MAX_FILES = 500


@dataclass(frozen=True)
class Folder:
    """The definitions of a folder, by their ids, and what is wrong with the files that have none."""

    definitions: dict[str, Definition]
    problems: tuple[str, ...]


def load_folder(folder: Path) -> Folder:
    """Read all `*.yaml` files of a folder. A bad file is one problem; the others are read. Raises OSError."""
    definitions: dict[str, Definition] = {}
    problems: list[str] = []
    files = sorted(folder.glob("*.yaml"))
    if len(files) > MAX_FILES:
        problems.append(f"{folder} has more than {MAX_FILES} files: the rest is left out")
    for file in files[:MAX_FILES]:
        try:
            with file.open("rb") as opened:
                text = opened.read(MAX_BYTES + 1).decode()
            definition = load(text)
        except (TemplateInvalid, UnicodeDecodeError) as error:
            problems.append(f"{file}: {error}")
            continue
        if definition.id != file.stem:
            problems.append(f"{file}: its id is {definition.id}, so its name must be {definition.id}.yaml")
        else:
            definitions[definition.id] = definition
    return Folder(definitions, tuple(problems))
