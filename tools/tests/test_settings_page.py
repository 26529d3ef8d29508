"""The page of settings follows from the settings models."""

from pathlib import Path
from typing import Annotated, Literal

from clusterra_runtime.settings import ServiceSettings
from pydantic import Field
from settings_page import SERVICES, Row, page, rows

ROOT = Path(__file__).parents[2]


class Example(ServiceSettings):
    """Settings of no service."""

    name: str
    """Whom
    it is for."""
    mode: Literal["act", "shadow"] = "act"
    file: Path | None = None
    host: Annotated[str, Field(pattern="^a|b$")] | None = None
    words: tuple[str, ...] = ()
    folders: tuple[Path, ...] = (Path("/etc/a"), Path("/etc/b"))
    seconds: Annotated[float, Field(gt=0, le=10)] = 5.0
    """Either a|b."""
    loud: bool = False


def test_a_setting_is_shown_with_its_variable_type_default_and_meaning() -> None:
    shown = rows(Example, ["name", "mode", "file", "host", "words", "folders", "seconds", "loud"])

    assert shown == [
        Row("CLUSTERRA_NAME", "str", "required", "Whom it is for."),
        Row("CLUSTERRA_MODE", "`act` or `shadow`", "`act`", ""),
        Row("CLUSTERRA_FILE", "path", "none", ""),
        Row("CLUSTERRA_HOST", "str", "none", ""),
        Row("CLUSTERRA_WORDS", "tuple of str", "none", ""),
        Row("CLUSTERRA_FOLDERS", "tuple of path", '`["/etc/a", "/etc/b"]`', ""),
        Row("CLUSTERRA_SECONDS", "float (> 0, ≤ 10)", "`5`", "Either a|b."),
        Row("CLUSTERRA_LOUD", "bool", "`false`", ""),
    ]


def test_a_setting_of_a_base_class_keeps_its_meaning() -> None:
    (url,) = rows(Example, ["nats_url"])

    assert url.variable == "CLUSTERRA_NATS_URL"
    assert url.meaning


def test_the_page_names_every_setting_of_every_service() -> None:
    whole = page()

    for model in SERVICES.values():
        assert all(f"| `CLUSTERRA_{name.upper()}` |" in whole for name in model.model_fields)


def test_the_committed_page_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "operations" / "settings.md").read_text()

    assert committed == page(), "run `make docs`"
