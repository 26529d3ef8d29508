"""The command `clusterra-scaler` takes no arguments: an old command line must not start a service."""

import pytest
from clusterra_scaler.app import main


@pytest.mark.parametrize(("argument", "code"), [("simulate", 2), ("--help", 0)])
def test_an_argument_starts_no_service(
    argument: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["clusterra-scaler", argument])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == code
    assert "clusterra-scaler" in "".join(capsys.readouterr())
