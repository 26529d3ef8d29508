"""`--export` gives a job the variables that sbatch gives it. Each expectation of the table was measured on sbatch."""

import pytest
from clusterra_sbatch.environment import DEFAULT_PATH, Export
from hypothesis import given
from hypothesis import strategies as st

GIVEN = ("PATH=/bin", "A=1", "AB=2", "NONE=n")


@pytest.mark.parametrize(
    ("text", "exported"),
    [
        ("", (DEFAULT_PATH,)),
        ("ALL", GIVEN),
        ("all", GIVEN),
        ("NONE", (DEFAULT_PATH,)),
        ("nil", (DEFAULT_PATH,)),
        ("NONE,A", ("NONE=n", "A=1")),
        ("a", (DEFAULT_PATH,)),
        ("A", ("A=1",)),
        ("A=3,ALL", ("A=1", "PATH=/bin", "AB=2", "NONE=n")),
        ("ALL,A=3", ("PATH=/bin", "A=3", "AB=2", "NONE=n")),
        ("FOO='a,b',BAR=c", ("FOO='a,b'", "BAR=c")),
        ("'FOO=a,b',BAR=c", ("FOO=a,b", "BAR=c")),
        ('"FOO=a,b"', ("FOO=a,b",)),
        ('FOO="a,b"', ('FOO="a,b"',)),
        ("FOO=it's,B=1", ("FOO=it's,B=1",)),
        ("A,,AB=", ("A=1", "AB=")),
        ("A=b=c", ("A=b=c",)),
    ],
)
def test_a_value_exports_these_variables(text: str, exported: tuple[str, ...]) -> None:
    assert Export(text).apply(GIVEN) == exported


def test_variables_of_slurm_are_always_passed_on() -> None:
    environment = ("A=1", "SLURM_X=2", "SLURMY=3", "_SLURM_SPANK_OPTION_a=4", "MY_SLURM=5")

    assert Export("NONE").apply(environment) == environment[1:4]
    assert Export("A").apply(environment) == environment[:4]


names = st.text("ABCxyz_", min_size=1, max_size=4).filter(lambda name: name.upper() not in {"ALL", "NONE", "NIL"})


@given(st.dictionaries(names, st.text("abc,= '", max_size=6).filter(lambda value: value.count("'") % 2 == 0)))
def test_what_stands_in_quotes_reaches_the_job_unchanged(values: dict[str, str]) -> None:
    text = ",".join(f'"{name}={value}"' for name, value in values.items())

    exported = Export(text).apply(GIVEN)

    assert exported == (tuple(f"{name}={value}" for name, value in values.items()) or (DEFAULT_PATH,))


@given(st.text("ALN,='\"x", max_size=12))
def test_any_value_gives_an_environment(text: str) -> None:
    exported = Export(text).apply(GIVEN)

    assert exported
    assert all("=" in item for item in exported)
