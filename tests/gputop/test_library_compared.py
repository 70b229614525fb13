"""What public projects ask by hand, beside the same question put to the library."""

from __future__ import annotations

import pytest

from tests.support.foreign_checks import (
    CHECKS,
    NO_LOGIC,
    RAISES,
    Answer,
    answers_of,
    nodes,
    table,
)
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "library-compared.md"
H200, L40S = "torchrun-h200-2gpu/snapshot.json", "pcie-l40s-8"
GB200 = "nvidia-public/gb200-4-topo.txt"


@pytest.mark.parametrize(
    ("place", "name", "theirs", "ours"),
    [
        ("TensorRT-LLM before 17060", H200, RAISES, True),
        ("TensorRT-LLM before 19210", H200, False, True),
        ("DeepEP 205", L40S, True, False),
        ("DeepEP 730", H200, True, True),
        ("SkyRL 108", "p2p-refused-geforce", "P2P and SHM off", ""),
        ("axolotl 3132", L40S, False, True),
        ("HAMi before 2103", H200, False, True),
        ("torchcomms before 3612", H200, True, False),
        ("SGLang before 31317", GB200, 0, None),
        ("vLLM 38635", GB200, 2, None),
        ("nvidia-resiliency-ext 145", "silent-nvlink-12-of-18", False, True),
        ("nvidia-resiliency-ext 145", "nvlink-missing", True, False),
    ],
)
def test_what_they_say_and_what_it_is(place: str, name: str, theirs: Answer, ours: Answer) -> None:
    (check,) = (check for check in CHECKS if check.place == place)
    assert answers_of(check, nodes()[name]()) == (theirs, ours)


def test_the_page_has_all_fourteen_places() -> None:
    text = PAGE.read_text("utf-8")
    assert len(CHECKS) + len(NO_LOGIC) == 14
    assert all(f"| {check.place} |" in text for check in CHECKS)
    assert all(f"- {place}: " in text for place, _ in NO_LOGIC)


@pytest.mark.grid
def test_the_page_is_what_the_scripts_print() -> None:
    assert PAGE.read_text("utf-8") == table(), "python -m tests.support.foreign_checks writes it"
