"""Text without the head of a debug log, as people post it, is answered by what it says."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs, table, unexplained
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.recorded.sought import Vocabulary
from gputop.topology.toml import tomllib
from tests.threads.scoring import materials, threads

INNOCENT: dict[str, str] = {
    found["name"]: found["text"]
    for found in tomllib.loads(Path(__file__).with_name("innocent.toml").read_text())["innocent"]
}
"""What it is -> a text that uses the words of failures and says nothing bad."""


def read(text: str) -> ReadLog:
    return examine(
        read_log([line.encode() for line in text.splitlines()], signs=known_signs()), None
    )


@pytest.mark.parametrize("name", INNOCENT)
def test_the_same_words_in_innocent_text_say_nothing(name: str) -> None:
    answer = read(INNOCENT[name])
    assert not answer.findings
    assert not answer.unexplained


def test_what_only_sounds_like_a_failure_of_a_gpu_accuses_none() -> None:
    lines = (
        "pci 0000:00:1c.0: BAR 13: no space for [io  size 0x1000]",
        "pci 0000:31:00.0: BAR 7 [io  size 0x1000]: failed to assign",
        "pci 0000:31:00.0: VF BAR 0 [mem size 0x10000000 64bit pref]: can't assign; no space",
        "pci 0000:01:00.0: BAR 6: no space for [mem size 0x00080000 pref]",
        "pci 0000:02:00.0: BAR 0: failed to assign [mem size 0x00004000 64bit]",
        "DMAR: [INTR-REMAP] Request device [c1:00.0] fault index 0x8000 [fault reason 0x22]",
        "nvidia: cudaErrorNotReady, hipErrorNotReady, CUDA_ERROR_NOT_READY: again in 1 ms",
        "nvidia: cudaErrorPeerAccessAlreadyEnabled",
        "NCCL I gloo/transport/tcp/device.cc:231] pair of lo",
    )
    assert [line for line in lines if read(line).findings] == []
    window = "pci 0000:84:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]"
    assert [finding.id for finding in read(window).findings] == ["bar-unassigned"]


def test_the_log_is_called_silent_only_where_nothing_else_is_said() -> None:
    bare = "Test NCCL failure common.cu:1204 'unhandled cuda error'"
    (alone,) = read(bare).findings
    assert "does not say why" in alone.title
    assert "NCCL_DEBUG=INFO" in read(bare).next
    unknown = read(
        f"{bare}\nncclSystemError: System call failed.\nLast error:\nthe frobnicator is off"
    )
    (finding,) = unknown.findings
    assert "does not say why" not in finding.title
    assert [(note.line, note.text) for note in unknown.unexplained] == [
        (4, "the frobnicator is off")
    ]
    refused = "socketPollConnect: Connect to 10.0.0.1<4> failed: Connection refused"
    named = read(f"{bare}\nLast error:\n\n{refused}")
    assert [finding.id for finding in named.findings] == ["peer-unreachable"]
    assert named.next == ""


def test_a_failure_in_unknown_words_is_quoted() -> None:
    answer = read("torch: gpu 7 exploded, aborting\nncclInternalError: Internal check failed.")
    assert [note.line for note in unexplained(answer.log)] == [1]


def test_patterns_match_the_same_lines_with_and_without_the_look_for_texts() -> None:
    # The texts that are looked for first are only a short cut.
    signs = known_signs()
    rows = [row for row in table() if "OTHER" in row.levels]
    patterns = [re.compile(pattern) for row in rows for pattern in row.any]
    texts = [file.read_text() for name in threads() for file in materials(name)]
    for text in texts:
        for line in text.splitlines():
            slow = any(pattern.search(line.strip()) for pattern in patterns)
            raw = line.encode()
            possible = chain.from_iterable(signs.present(Vocabulary(raw)).values())
            assert (signs.excerpt(raw, possible) is not None) == slow, line


def test_a_long_line_shows_the_part_that_says_it() -> None:
    text = "x" * 3000 + " RuntimeError: CUDA error: mapping of buffer object failed " + "y" * 3000
    (finding,) = read(f"torch {text}").findings
    assert "mapping of buffer object failed" in finding.evidence[0].value
