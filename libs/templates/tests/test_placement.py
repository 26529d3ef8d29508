"""Values stay values: the fuzzer runs the rendered scripts, and looks at what arrived.

Each property renders a script in which a value stands at some place, and lets a real bash read it.
"""

import subprocess
from string import printable

import pytest
from clusterra_sbatch.words import PREFIX
from clusterra_templates.problems import RenderRefused
from hypothesis import example, given
from hypothesis import strategies as st
from template_examples import rendered, with_script

PLACES = {
    "word": "show {{ x }}",
    "within a word": "show --name={{ x }}.txt",
    "double quotes": 'show "{{ x }}"',
    "single quotes": "show '{{ x }}'",
    "substitution": 'show "$(printf %s {{ x }})"',
    "quotes in a substitution": 'show "$(printf %s "{{ x }}")"',
    "array": 'list=(a {{ x }} b)\nshow "${list[1]}"',
    "subshell": "( show {{ x }} )",
    "behind a comment": "# it's a \"comment\nshow {{ x }}",
    "behind an apostrophe": 'echo "it\'s" >/dev/null; show {{ x }}',
    "behind a here-string": "cat <<< a >/dev/null; show {{ x }}",
    "behind arithmetic": "(( n = (1 << 2) + 3 )); show {{ x }}",
    "behind an expansion": 'y="${HOME:-"a b"}"; show {{ x }}',
    "behind a case": "case a in a) true;; esac; show {{ x }}",
}
"""Where each value must arrive whole."""
DOCUMENTS = {
    "literal": "cat > out <<'END'\nbefore {{ x }} after\nEND\nshow \"$(cat out)\"",
    "expanded": 'cat > out <<END\nbefore {{ x }} after\nEND\nshow "$(cat out)"',
    "tabs": 'cat > out <<-END\n\tbefore {{ x }} after\n\tEND\nshow "$(cat out)"',
}
REFUSING = {
    "eval": "eval echo {{ x }}",
    "second shell": "bash -c 'echo {{ x }}'",
    "arithmetic": "echo $(( {{ x }} + 1 ))",
    "backticks": "echo `echo {{ x }}`",
    "expansion": "echo ${y:-{{ x }}}",
    "test": "[[ {{ x }} -eq 1 ]] || true",
    "program": "bash <<'END'\necho {{ x }}\nEND",
    "comment": "# about {{ x }}\ntrue",
    "start of a comment": "#{{ x }}\ntrue",
    "delimiter": "cat <<{{ x }}\nEND",
    "dollar": "echo ${{ x }}",
    "backslash": "echo \\{{ x }}",
    "ansi": "echo $'{{ x }}'",
    "sed": "sed -n '{{ x }}p' /dev/null",
}
"""Where only plain values may stand, if any."""

SHOW = '#!/bin/bash\nshow() { printf \'%s\\0\' "$#" "$@"; }\n'
HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\n#SBATCH --uid=0\n",
    "x\ntouch pwned\n",
    "a[$(touch pwned)]",
    "END\ntouch pwned\n",
    "\\",
    "$HOME",
    "~",
    "*",
    "a  b",
    "",
    "-n",
    "é\u2028\u00a0",
    "#",
    "!",
    "EN",
    "\nEND",
    "if",
    "2",
    "x=1",
    "\ue0000\ue001",
)
values = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.sampled_from("$`'\"\\;|&<>(){}[]#!~*? \n\taEND0=-+@%^,./:\ue000\ue001é"), max_size=30),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
    st.lists(st.sampled_from(HOSTILE), max_size=3).map("".join),
    st.text(printable.replace("\r", "").replace("\x0b", "").replace("\x0c", ""), max_size=30),
)


def script_of(place: str, value: str, dialect: str) -> str:
    written = place.replace("{{ x }}", "{{ params.x }}" if dialect == "own" else "{{ .params.x }}")
    return rendered(with_script(SHOW + written, dialect=dialect), {"x": value}).script


def run(script: str, folder: str) -> list[str]:
    """The arguments that the function `show` got, behind their number."""
    checked = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False)
    assert checked.returncode == 0, (script, checked.stderr)
    done = subprocess.run(
        ["bash"],
        input=script.encode(),
        capture_output=True,
        check=False,
        cwd=folder,
        env={"HOME": "/h", "LC_ALL": "C.UTF-8"},
    )
    return done.stdout.decode().split("\0")[:-1]


def directives(script: str) -> list[str]:
    head: list[str] = []
    for line in script.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        head.append(line)
    return [line for line in head if line.startswith(PREFIX)]


@pytest.mark.parametrize("dialect", ["own", "go"])
@pytest.mark.parametrize("place", PLACES)
@given(value=values)
def test_a_value_arrives_whole(tmp_path_factory: pytest.TempPathFactory, place: str, dialect: str, value: str) -> None:
    folder = tmp_path_factory.mktemp("job")
    plain = directives(script_of(PLACES[place], "x", dialect))

    script = script_of(PLACES[place], value, dialect)
    got = run(script, str(folder))

    expected = value if place != "within a word" else f"--name={value}.txt"
    if "substitution" in place:
        expected = expected.rstrip("\n")  # as every command substitution does
    if dialect == "go" and not value:
        assert got[:1] in (["1"], ["0"])  # an empty value may leave no word
    else:
        assert got == ["1", expected], script
    assert directives(script) == plain
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", DOCUMENTS)
@given(value=values)
@example(value="\nEND\ntouch pwned")
def test_a_value_stays_in_its_document(tmp_path_factory: pytest.TempPathFactory, place: str, value: str) -> None:
    folder = tmp_path_factory.mktemp("job")

    lines = f"before {value} after".split("\n")
    if any((line.lstrip("\t") if place == "tabs" else line) == "END" for line in lines):
        with pytest.raises(RenderRefused, match="END"):
            script_of(DOCUMENTS[place], value, "own")
        return
    script = script_of(DOCUMENTS[place], value, "own")
    got = run(script, str(folder))

    expected = "\n".join(line.lstrip("\t") for line in lines) if place == "tabs" else "\n".join(lines)
    assert got == ["1", expected], script
    assert [file.name for file in folder.iterdir()] == ["out"]


@pytest.mark.parametrize("place", REFUSING)
@given(value=values)
def test_a_value_makes_no_program(tmp_path_factory: pytest.TempPathFactory, place: str, value: str) -> None:
    folder = tmp_path_factory.mktemp("job")

    try:
        script = script_of(REFUSING[place], value, "own")
    except RenderRefused:
        return
    run(script, str(folder))

    assert list(folder.iterdir()) == []
    assert directives(script) == directives(script_of("true", "x", "own"))


SNIPPETS = (
    '# it\'s "one" (comment `\n',
    "cat > /dev/null <<'EOF' && true\nit's $(\" `\nEOF\n",
    "cat > /dev/null <<-EOF; true\n\t\\$( it's \"\n\tEOF\n",
    "cat > /dev/null <<A <<'B'\n'\nA\n\"\nB\n",
    "f() { echo ${1#*/} ${#1} $# $$; }\n",
    "case x in (a|b) true;; x) echo ')' > /dev/null;; esac\n",
    "y=$((1 << 2)); (( y++ )) || true\n",
    'z="$(echo "$(echo \'a)\')" | cat)"\n',
    'z=${z:-\'}\'}; z="${z//\\"/x}"\n',
    "echo \\\" \\' \\# a#b 'a\\' > /dev/null\n",
    'cat <<< "a $(echo b)" > /dev/null\n',
    "echo a \\\n  b > /dev/null\n",
    "if [[ $z =~ ^(a|b)$ ]]; then true; fi\n",
    "printf '%s' $'it\\'s' > /dev/null\n",
    'w=`echo "it\'s"`\n',
    "for ((i=0; i<2; i++)); do true; done\n",
    "a=(1 2 'x y'); echo ${a[@]} > /dev/null\n",
)
"""Commands that print nothing, in which everything occurs that a shell may be misread at."""


@given(before=st.lists(st.sampled_from(SNIPPETS), max_size=4), place=st.sampled_from(sorted(PLACES)), value=values)
def test_a_value_arrives_whole_behind_any_commands(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], place: str, value: str
) -> None:
    folder = tmp_path_factory.mktemp("job")

    script = script_of("".join(before) + PLACES[place], value, "own")
    got = run(script, str(folder))

    expected = value if place != "within a word" else f"--name={value}.txt"
    assert got == ["1", expected.rstrip("\n") if "substitution" in place else expected], script
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("value", HOSTILE)
def test_go_quotes_are_quotes_of_the_shell(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    folder = tmp_path_factory.mktemp("job")
    text = with_script(SHOW + "show {{ .params.x | quote }}", dialect="go")

    got = run(rendered(text, {"x": value}).script, str(folder))

    assert got == ["1", value]


def test_words_are_quoted_one_by_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("job")
    text = with_script(SHOW + "show {{ params.x | words }}")

    got = run(rendered(text, {"x": "-v  $(id) 'a"}).script, str(folder))

    assert got == ["3", "-v", "$(id)", "'a"]


def test_json_is_a_value_of_python(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("job")
    text = with_script(SHOW + "show \"$(python3 - <<'END'\nprint({{ params.x | json }})\nEND\n)\"")
    value = "\"); import os; os.mkdir('pwned') #\\"

    with pytest.raises(RenderRefused):
        rendered(text.replace(" | json", ""), {"x": value})
    got = run(rendered(text, {"x": value}).script, str(folder))

    assert got == ["1", value]
    assert list(folder.iterdir()) == []
