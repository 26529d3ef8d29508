"""The order of test files: longest first, and files of one lab together."""

import json

from file_order import DURATIONS, NOTABLE_SECONDS, ROOT, lab_groups, places


def in_order(files: set[str], groups: dict[str, str], seconds: dict[str, float]) -> list[str]:
    place = places(files, groups, seconds)
    return sorted(files, key=place.__getitem__)


def test_files_start_by_falling_duration_and_unknown_ones_last() -> None:
    seconds = {"a.py": 3.0, "b.py": 60.0}

    assert in_order({"new.py", "a.py", "b.py"}, {}, seconds) == ["b.py", "a.py", "new.py"]


def test_files_of_one_lab_count_together() -> None:
    seconds = {"alone.py": 50.0, "first.py": 30.0, "second.py": 40.0}
    groups = {"first.py": "lab", "second.py": "lab"}

    place = places(seconds, groups, seconds)

    assert place["first.py"] == place["second.py"] < place["alone.py"]


def test_the_files_of_a_lab_are_divided_by_their_durations() -> None:
    seconds = {"a.py": 250.0, "b.py": 150.0, "c.py": 125.0}

    groups = lab_groups(dict.fromkeys(seconds, "lab"), seconds)

    assert groups == {"a.py": "lab-1", "b.py": "lab-2", "c.py": "lab-2"}


def test_files_of_a_lab_that_take_little_time_stay_together() -> None:
    seconds = {"a.py": 150.0, "b.py": 50.0, "c.py": 500.0}

    groups = lab_groups({"a.py": "lab", "b.py": "lab", "c.py": "other"}, seconds)

    assert groups == {"a.py": "lab", "b.py": "lab", "c.py": "other-1"}


def test_recorded_files_exist_and_are_notable() -> None:
    recorded = json.loads(DURATIONS.read_text())

    assert all((ROOT / file).is_file() for file in recorded)
    assert all(seconds >= NOTABLE_SECONDS for seconds in recorded.values())
