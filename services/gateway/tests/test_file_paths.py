"""Paths and keys of files: what a path may be, and that no path leaves its owner's files."""

import unicodedata

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.files.paths import (
    AREAS,
    MAX_KEY_BYTES,
    FilePath,
    KeySpace,
    NoSuchArea,
    PathRefused,
    file_path,
    folder_path,
)
from hypothesis import example, given
from hypothesis import strategies as st
from path_tricks import MALFORMED, OUTSIDE, TRICKS, VICTIM

ADA = "a" * 32
REF = ClusterRef(tenant="acme", cluster="main")
OWN = KeySpace(REF, ADA)

odd = st.sampled_from([*"/\\.% ~", "..", "%2e", "data", "shared", VICTIM, "users", "．", "／", "\u202e", "\u0301"])
texts = st.lists(st.one_of(odd, st.text(max_size=4)), max_size=12).map("".join)
paths = st.builds(lambda area, rest: f"{area}/{rest}", st.sampled_from(AREAS), texts)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_outside_of_the_areas_names_nothing(path: str) -> None:
    with pytest.raises(NoSuchArea):
        file_path(path)


@pytest.mark.parametrize("path", MALFORMED)
def test_a_malformed_path_is_refused_with_a_reason(path: str) -> None:
    with pytest.raises(PathRefused) as refused:
        OWN.key(file_path(path))

    assert not isinstance(refused.value, NoSuchArea)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("path", TRICKS)
def test_no_trick_is_a_folder_of_others(path: str) -> None:
    try:
        prefix = OWN.prefix(folder_path(path))
    except PathRefused:
        return

    # `data/x/` is no file, but a folder.
    assert prefix.startswith((f"acme/main/users/{ADA}/", "acme/main/shared/"))
    assert VICTIM not in prefix


@pytest.mark.parametrize(
    "path",
    [
        "data/x",
        "scripts/run 1/job.sh",
        "outputs/..x",
        "data/.hidden",
        "data/x..",
        "data/a..b",
        "data/100%",
        "data/50%, later",
        "data/½ of it",
        "data/Müller/データ/файл.csv",
        "data/notes….txt",
        "data/shared/users/x",
        "data/a+b=c&d;e:f@g!'()*~$,?#[]",
        "data/" + "x" * 255,
        "shared/refs/hg38.fa",
    ],
)
def test_a_usual_name_is_taken_as_it_is(path: str) -> None:
    taken = file_path(path)

    assert taken.shown == path
    assert OWN.path(OWN.key(taken)) == taken


def test_the_key_of_a_person_has_their_id_and_that_of_a_shared_file_has_not() -> None:
    assert OWN.key(file_path("data/x")) == f"acme/main/users/{ADA}/data/x"
    assert OWN.key(file_path("shared/x")) == "acme/main/shared/x"
    assert OWN.prefix(folder_path("data")) == f"acme/main/users/{ADA}/data/"
    assert OWN.prefix(folder_path("shared/refs/")) == "acme/main/shared/refs/"


def test_a_decomposed_name_is_the_same_file_as_its_composed_form() -> None:
    composed, decomposed = (unicodedata.normalize(form, "data/Müller.csv") for form in ("NFC", "NFD"))

    assert composed != decomposed
    assert file_path(decomposed) == file_path(composed)
    assert file_path(decomposed).shown == composed


def test_the_longest_key_is_taken_and_one_byte_more_is_not() -> None:
    room = MAX_KEY_BYTES - len(OWN.key(FilePath("data", "")).encode())
    longest = "/".join(["x" * 199] * 5)[: room - 1] + "x"
    longest += "x" * (room - len(longest))

    assert len(OWN.key(file_path(f"data/{longest}")).encode()) == MAX_KEY_BYTES
    with pytest.raises(PathRefused, match="1 bytes too long"):
        OWN.key(file_path(f"data/{longest}x"))


@pytest.mark.parametrize("member", ["", "ada", "../" + "a" * 29, "A" * 32, "a" * 33, "a" * 31 + "/"])
def test_a_malformed_member_id_has_no_keys(member: str) -> None:
    with pytest.raises(ValueError, match="32 hexadecimal"):
        KeySpace(REF, member)


@example(f"data/../../{VICTIM}/data/x")
@given(st.one_of(paths, texts))
def test_whatever_is_written_stays_below_its_owner_and_comes_back_the_same(text: str) -> None:
    try:
        path = file_path(text)
        key = OWN.key(path)
    except PathRefused:
        return

    root = "acme/main/" if path.area == "shared" else f"acme/main/users/{ADA}/"
    names = key.removeprefix(root).split("/")
    assert key.startswith(root)
    assert names[0] == path.area
    assert not {"", ".", ".."} & set(names)
    assert len(key.encode()) <= MAX_KEY_BYTES
    assert OWN.path(key) == path == file_path(path.shown)
    assert key == unicodedata.normalize("NFC", key)


@given(st.one_of(paths, texts))
def test_a_folder_stays_below_its_owner(text: str) -> None:
    try:
        prefix = OWN.prefix(folder_path(text))
    except PathRefused:
        return

    assert prefix.endswith("/")
    assert prefix.startswith((f"acme/main/users/{ADA}/", "acme/main/shared/"))
    assert "/../" not in prefix
    assert "//" not in prefix


@given(paths)
def test_two_members_never_share_a_key_outside_of_shared(text: str) -> None:
    other = KeySpace(REF, VICTIM)
    try:
        path = file_path(text)
        key = OWN.key(path)
    except PathRefused:
        return

    assert (other.key(path) == key) == (path.area == "shared")
    if path.area != "shared":
        with pytest.raises(NoSuchArea):
            other.path(key)


@given(st.text(max_size=40))
def test_a_key_of_others_has_no_path(rest: str) -> None:
    for key in (rest, f"acme/main/users/{VICTIM}/data/{rest}", f"acme/other/shared/{rest}", f"rival/main/{rest}"):
        with pytest.raises(NoSuchArea):
            OWN.path(key)
