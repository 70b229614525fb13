"""What repeats one thing in an input, and what is made of the times it takes."""

from __future__ import annotations

import json
import pickle
from random import Random
from xml.etree import ElementTree

import pytest

from tests.harness.endurance.growth import Growth
from tests.harness.endurance.inputs import _repeating
from tests.harness.endurance.repetition import copies, repeated
from tests.harness.endurance.text_mutations import MOST_BYTES

TEXT = b"GPU0 is at 0000:07:00.0\nGPU1 is at 0000:0a:00.0\n"
DOCUMENT = json.dumps({"ranks": [{"rank": 0}, {"rank": 1}], "size": 2}).encode()
TREE = b'<system><cpu id="1"><gpu dev="0" /><gpu dev="1" /></cpu></system>'
DUMP = pickle.dumps({"entries": [{"seq": 1}, {"seq": 2}]})


@pytest.mark.parametrize("seed", range(20))
def test_a_number_counts_up_and_keeps_its_width(seed: int) -> None:
    made = copies(b"rank 07", Random(seed), 3)
    assert made in ([b"rank 08", b"rank 09", b"rank 10"], [b"rank 07"] * 3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("name", "data"), [("a.txt", TEXT), ("a.json", DOCUMENT), ("a.xml", TREE), ("dump_3", DUMP)]
)
def test_it_grows_by_what_is_repeated_and_stays_what_it_is(
    name: str, data: bytes, seed: int
) -> None:
    few, many = (repeated(name, data, Random(seed), times) for times in (100, 200))
    assert len(data) < len(few) < len(many) < 2.2 * len(few)
    if name == "a.json":
        json.loads(many)
    elif name == "a.xml":
        ElementTree.fromstring(many)
    elif name == "dump_3":
        pickle.loads(many)


@pytest.mark.parametrize(
    ("seconds", "exponent"),
    [((0.1, 0.2, 0.6, 1.1, 2.1), 1.0), ((0.1, 0.2, 1.1, 4.1), 2.0), ((0.1, 0.2, 0.3), None)],
)
def test_how_fast_it_grows_is_seen_behind_the_start(
    seconds: tuple[float, ...], exponent: float | None
) -> None:
    points = tuple((place and 50 << place, 0, value, 0) for place, value in enumerate(seconds))
    found = Growth(0, "", "", "", points).exponent
    assert found == (None if exponent is None else pytest.approx(exponent, abs=0.1))


@pytest.mark.parametrize("name", ["a.json", "a.xml", "a.tar.gz", "dump_3", "a.txt"])
def test_what_is_broken_already_is_repeated_as_a_text(name: str) -> None:
    assert repeated(name, b"\x1f\x8b no\n", Random(1), 3).count(b"no") == 4


def test_what_is_written_shorter_is_not_repeated_without_end() -> None:
    spread = json.dumps({"ranks": [{"rank": 7}] * 50}, indent=200).encode()
    for seed in range(8):
        assert len(_repeating("a.json")(spread, Random(seed))) < 2 * MOST_BYTES
