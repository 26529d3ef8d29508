import pytest
from clusterra_proxy.slurmrestd.notation.comment import Comment
from hypothesis import given
from hypothesis import strategies as st

ASCII = st.characters(codec="ascii")
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]))
TRACES = st.one_of(st.just(""), st.from_regex("00-[1-9a-f]{32}-[1-9a-f]{16}-0[01]", fullmatch=True, alphabet=ASCII))


def _optional(pattern: str) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), st.from_regex(pattern, fullmatch=True, alphabet=ASCII))


OURS = st.builds(
    Comment,
    user=_optional("[a-z_][a-z0-9_-]{0,30}"),
    uid=_optional("[1-9][0-9]{3,9}"),
    user_email=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=320),
    key=_optional("[A-Za-z0-9_-]{8,64}"),
    trace=TRACES,
    template=_optional("[a-z0-9][a-z0-9-]{0,63}"),
)


@given(OURS)
def test_a_comment_parses_to_the_same_values(comment: Comment) -> None:
    assert Comment.parse(str(comment)) == comment


@pytest.mark.parametrize(
    "text",
    [
        "uid=" + "9" * 5000,
        "uid=\u0663;key=short;user=A",
        "key=" + "k" * 65,
        "user=root%0a",
        "user=%ff%fe;trace=00-zz",
        "template=" + "t" * 65,
        "template=Align",
        "template=-a;template=a%0a",
        "template=../a",
        "user=alice;uid=5001;user_email=" + "x" * 9000,
    ],
)
def test_values_that_the_proxy_cannot_have_written_are_empty(text: str) -> None:
    assert Comment.parse(f"clusterra:{text}") == Comment()


@given(st.builds(Comment, user=WORDS, uid=WORDS, user_email=WORDS, key=WORDS, trace=TRACES))
def test_a_comment_is_one_line_of_plain_ascii(comment: Comment) -> None:
    text = str(comment)
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("\"'\\|<> ")


def test_a_comment_is_readable() -> None:
    comment = Comment(user="alice", uid="5001", user_email="a@example.org")
    assert str(comment) == "clusterra:user=alice;uid=5001;user_email=a@example.org"


@pytest.mark.parametrize("text", ["", "mine", "user=alice", "Clusterra:user=alice"])
def test_a_users_own_comment_gives_no_values(text: str) -> None:
    assert Comment.parse(text) == Comment()


def test_unknown_names_are_skipped() -> None:
    assert Comment.parse("clusterra:run_id=7;user=alice;=x;;y") == Comment(user="alice")


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    Comment.parse(text)
    Comment.parse(f"clusterra:{text}")
