"""A failure that ROCm words is answered without the words and tools of NVIDIA, and the reverse."""

from __future__ import annotations

import re

import pytest

from gputop.topology.diagnosis.symptoms.explain import table
from tests.topology.diagnosis.symptoms.test_unmarked_text import read

OURS = re.compile(
    r"nvidia-smi|(?<!_)CUDA(?!_)|CUDA_(?:LAUNCH|VISIBLE)|\bXid\b|NVRM|compute-sanitizer|\bNCCL \d"
)
SAID = (
    "out of memory", "invalid device function", "no kernel image is available for execution on the "
    "device", "an illegal memory access was encountered", "unspecified launch failure",
    "invalid argument", "invalid device ordinal", "initialization error", "unknown error",
    "peer access is not supported between these two devices", "operation not permitted",
    "invalid resource handle", "driver shutting down", "device kernel image is invalid",
)  # fmt: skip
"""What both say alike."""


@pytest.mark.parametrize("words", SAID)
@pytest.mark.parametrize("head", ["RuntimeError: HIP error: {}", "Test HIP failure a.cu:12 '{}'"])
def test_an_error_of_hip_is_answered_in_its_words(head: str, words: str) -> None:
    for one in read(head.format(words)).findings:
        steps = (*one.fix, *(fix for other in one.candidates for fix in other.fix))
        told = (
            one.title,
            one.cause,
            *one.look,
            *(f"{fix.text} {fix.command}" for fix in steps),
            *(f"{other.cause} {other.needs}" for other in one.candidates),
        )
        assert [text for text in told if OURS.search(text)] == []


@pytest.mark.parametrize("words", SAID)
def test_an_error_of_cuda_is_answered_as_the_table_has_it(words: str) -> None:
    rows = {row.id: row for row in table()}
    for one in read(f"RuntimeError: CUDA error: {words}").findings:
        if one.id in rows and not rows[one.id].titled:
            assert one.title.startswith(rows[one.id].title)
