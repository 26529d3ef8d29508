import pytest
from clusterra_proxy.slurmrestd.comment import Comment
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]))


@given(st.builds(Comment, user=WORDS, uid=WORDS, user_email=WORDS, key=WORDS))
def test_what_is_noted_is_read_back(comment: Comment) -> None:
    assert Comment.parse(str(comment)) == comment


@given(st.builds(Comment, user=WORDS, uid=WORDS, user_email=WORDS, key=WORDS))
def test_a_comment_is_one_plain_line(comment: Comment) -> None:
    text = str(comment)
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("\"'\\|<> ")


def test_it_reads_well() -> None:
    comment = Comment(user="alice", uid="5001", user_email="a@example.org")
    assert str(comment) == "clusterra:user=alice;uid=5001;user_email=a@example.org"


@pytest.mark.parametrize("text", ["", "mine", "user=alice", "Clusterra:user=alice"])
def test_other_comments_are_empty(text: str) -> None:
    assert Comment.parse(text) == Comment()


def test_unknown_keys_are_passed_over() -> None:
    assert Comment.parse("clusterra:run_id=7;user=alice;=x;;y") == Comment(user="alice")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    Comment.parse(text)
    Comment.parse(f"clusterra:{text}")
