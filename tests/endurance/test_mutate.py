"""A small share of the mutated inputs, and what makes and judges them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.endurance import json_mutations
from tests.harness.endurance.inputs import mutated_input
from tests.harness.endurance.judging import Limits, breaches
from tests.harness.endurance.originals import formats, originals
from tests.harness.endurance.running import Ended, ended
from tests.harness.endurance.text_mutations import MOST_BYTES
from tests.support.places import ROOT


def test_a_share_of_the_mutated_inputs_keeps_the_contract(tmp_path: Path) -> None:
    """One of each format; the long run is the same with --count 10000.

    No limit of time: a busy machine is slow.
    """
    share = (
        "--count",
        str(len(formats())),
        "--seed",
        "2",
        "--processes",
        "1",
        "--cpu-seconds",
        "100",
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.harness.endurance",
            "mutate",
            *share,
            "--failures",
            str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_numbers_make_the_same_input(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(0, len(formats()), 4)
    first = [mutated_input(5, number) for number in numbers]
    monkeypatch.setattr("time.time", lambda: 4e9)
    originals.cache_clear()
    assert [mutated_input(5, number) for number in numbers] == first
    assert [made.form for made in first] == list(formats())[::4]
    assert mutated_input(6, 4).files != first[1].files


def test_a_command_in_a_fork_answers_as_any_other() -> None:
    answer = ended(["topo", "--demo", "hgx-h100-8"])
    assert answer.code == 0
    assert answer.out.startswith(b"\tGPU0\tGPU1")
    assert breaches(["topo"], answer, Limits(cpu_seconds=100)) == []
    assert ended(["topo", "--from", "no-such-file"]).code == 64


@pytest.mark.parametrize(
    ("command", "answer", "breach"),
    [
        (("topo",), (70, b"", b"our fault"), "exit 70"),
        (("topo",), (1, b"", b"slow"), "exit 1"),
        (("check",), (64, b"", b"usage"), "exit 64"),
        (("log",), (3, b"", b" \n"), "exit 3 without a word"),
        (("log",), (-9, b"", b""), "ended by signal 9"),
        (("flags",), (0, b"", b"Traceback (most recent call last)\nE: x"), "traceback: E: x"),
        (("topo",), (0, b"a\x1b[1m", b""), "stdout: control character U+001B"),
        (("topo",), (0, b"", "a\x9b".encode()), "stderr: control character U+009B"),
        (("topo",), (0, "a\u202e".encode(), b""), "stdout: control character U+202E"),
        (("topo",), (0, b"\xff", b""), "stdout: no UTF-8"),
        (("explain", "--json"), (0, b'{"a": NaN}', b""), "stdout: no JSON: NaN is no JSON"),
        (("topo", "nccl-xml"), (0, b"<a>", b""), "stdout: no XML: no element found"),
    ],
)
def test_each_breach_is_seen(
    command: tuple[str, ...], answer: tuple[int, bytes, bytes], breach: str
) -> None:
    (found,) = breaches(command, Ended(*answer, cpu_seconds=0, memory_bytes=0), Limits())
    assert found.startswith(breach)


def test_what_a_command_took_is_judged() -> None:
    answer = Ended(0, b"", b"", cpu_seconds=11, memory_bytes=600 * 10**6)
    assert breaches(["topo"], answer, Limits()) == ["11.0 s of CPU", "600 MB"]


def test_a_value_that_a_list_copied_is_put_in_as_often_as_fits() -> None:
    filled = json_mutations._filled(b"[" + b'"mark",' * 10_000 + b"1]", b'"mark"', b"0" * 100_000)
    assert len(filled) < 2 * MOST_BYTES
    assert b'"mark"' not in filled
