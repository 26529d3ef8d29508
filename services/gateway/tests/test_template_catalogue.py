"""The catalogue of the installation is read once, and again only after a change."""

from pathlib import Path

from clusterra_gateway.templates.library import load_catalogue
from template_definition import OWN


def test_a_catalogue_that_has_not_changed_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "greet.yaml").write_text(OWN)

    first, second = load_catalogue(tmp_path), load_catalogue(tmp_path)

    assert first["greet"] is second["greet"]


def test_a_catalogue_is_read_again_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "greet.yaml").write_text(OWN)
    before = load_catalogue(tmp_path)
    (tmp_path / "greet.yaml").write_text(OWN.replace("name: Greet", "name: Greeting"))
    (tmp_path / "meet.yaml").write_text(OWN.replace("id: greet", "id: meet"))

    after = load_catalogue(tmp_path)

    assert (before["greet"].name, sorted(before)) == ("Greet", ["greet"])
    assert (after["greet"].name, sorted(after)) == ("Greeting", ["greet", "meet"])
