"""tests/ mirrors the source: the tests of a folder lie in the folder of the same path."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import PurePath

import pytest

from tests.support.places import ROOT

TOPS = ("gputop", "topology", "probes")
APART = {
    "bench": "holds the budget of the wire, and tests what `tests/harness/bench` is made of",
    "doors": "asks every door for the same facts: commands, JSON and screens",
    "device_kernels": "runs the probes' GPU kernels on the CPU, compiled as C++",
    "endurance": "gives the programs a share of the inputs of `tests/harness/endurance`",
    "engines": "tries the lines of docs/fleet.md and the parts of `tests/harness/engines`",
    "fakes": "programs and modules that stand in for real ones in processes that tests start",
    "harness": "what is run by hand: records of outputs, benchmarks, and tries that take hours",
    "house": "what holds for the repository as a whole, its documents and packages included",
    "pictures": "draws every screen for docs, by hand",
    "probe_ranks": "is put before the imports of every rank of a probe, to make ranks misbehave",
    "recordings": "nodes and logs as they were recorded, with where each is from",
    "rule_cases": "a sick or a healthy machine in each file, with what the rules say of it",
    "support": "what tests of several folders share",
    "threads": "what users posted in public, scored by what gputop answers",
    "versions": "runs tests under other Pythons than the one of the gate",
}
"""Folders of tests/ that mirror none of the source, and what each is for."""


def listed() -> list[str]:
    """Every file of the checkout, new ones included, as a path below it."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def breaches(names: Iterable[str]) -> set[str]:
    """What breaks the rule, each as a sentence."""
    paths = [PurePath(name) for name in names if name.endswith(".py")]
    code = {path.parent for path in paths if path.parts[0] in TOPS and path.stem != "__init__"}
    folders = {folder for path in code for folder in (path, *path.parents)}
    below = [
        PurePath(*path.parts[1:])
        for path in map(PurePath, names)
        if path.parts[0] == "tests" and len(path.parts) > 2 and path.parts[1] not in APART
    ]
    mirrored = {path.parent for path in below if "__snapshots__" not in path.parts}
    tested = {path.parent for path in below if path.match("test_*.py")}
    return {
        *(f"{folder} has no tests in tests/{folder}" for folder in code - tested),
        *(f"tests/{folder} mirrors no folder" for folder in mirrored - folders),
    }


def test_every_folder_has_its_tests_in_the_folder_of_the_same_path() -> None:
    assert breaches(listed()) == set()


def test_every_folder_that_mirrors_nothing_is_there() -> None:
    tops = {PurePath(name).parts[1] for name in listed() if name.startswith("tests/")}
    assert APART.keys() - tops == set()


SOUND = (
    "gputop/__init__.py",
    "gputop/app.py",
    "gputop/screens/log/entries.py",
    "topology/flags/__init__.py",
    "topology/flags/catalogue/flags.toml",
    "tests/conftest.py",
    "tests/support/app.py",
    "tests/recordings/a-node/README.md",
    "tests/gputop/test_app.py",
    "tests/gputop/__snapshots__/test_app/one.svg",
    "tests/gputop/screens/made.py",
    "tests/gputop/screens/log/test_entries.py",
)


@pytest.mark.parametrize(
    ("added", "breach"),
    [
        ("gputop/screens/terminal.py", "gputop/screens has no tests in tests/gputop/screens"),
        ("topology/flags/reading.py", "topology/flags has no tests in tests/topology/flags"),
        ("tests/topology/rules/test_x.py", "tests/topology/rules mirrors no folder"),
        ("tests/topology/flags/catalogue/test_x.py", "tests/topology/flags/catalogue mirrors no"),
        ("tests/fake_workers/hangs.py", "tests/fake_workers mirrors no folder"),
        ("tests/probes/lines.txt", "tests/probes mirrors no folder"),
    ],
)
def test_a_breach_is_found(added: str, breach: str) -> None:
    assert breaches(SOUND) == set()
    (found,) = breaches((*SOUND, added))
    assert found.startswith(breach)
