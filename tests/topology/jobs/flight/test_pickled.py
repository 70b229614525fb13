"""Pickles of plain data are read, and nothing in a pickle is ever run."""

import os
import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.jobs.flight import pickled
from gputop.topology.jobs.flight.pickled import PickleError, load

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=20)
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4)
    | st.tuples(inner, inner, inner, inner, inner)
    | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_is_what_pickle_itself_would_give(value: Any, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == value


class Dangerous:
    """What would run a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch /nonexistent/never",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_would_run_something_is_refused(protocol: int) -> None:
    with pytest.raises(PickleError, match="not among those of plain data"):
        load(pickle.dumps({"entries": [Dangerous()]}, protocol))


ALLOWED = set("N\x88\x89JKMGX\x8c}])\x85\x86\x87\x8a(eutas\x80\x95qr\x94hj.")


@pytest.mark.parametrize(
    "opcode", [op.code for op in pickletools.opcodes if op.code not in ALLOWED]
)
def test_every_other_opcode_of_python_is_refused(opcode: str) -> None:
    with pytest.raises(PickleError, match="not among those of plain data"):
        load(
            b"\x80\x02N"
            + opcode.encode("latin1")
            + b"\x01\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n."
        )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "ends early"),
        (b"\x80\x02", "ends early"),
        (b"\x80\x02.", "does not end with one value"),
        (b"\x80\x02(.", "does not end with one value"),
        (b"\x80\x02NN.", "does not end with one value"),
        (b"\x80\x09N.", "protocol"),
        (b"\x80\x02X\xff\xff\xff\xffab.", "ends early"),
        (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".", "an integer of 255 bytes"),
        (b"\x80\x02h\x05.", "broken"),
        (b"\x80\x02e.", "broken"),
        (b"\x80\x02N(Ne.", "broken"),
        (b"\x80\x02}(Nu.", "broken"),
        (b"\x80\x02}(]Nu.", "broken"),
        (b"\x80\x02(q\x00.", "broken"),
        (b"\x80\x02((\x86.", "broken"),
        (b"\x80\x02)\x85" + b"\x85" * 200 + b".", "levels deep"),
        (b"\x80\x02]q\x00(h\x00e.", "levels deep"),
        (b"\x80\x02}(" + b")" + b"\x85" * 100_000 + b"Nu.", "broken"),
    ],
)
def test_broken_and_hostile_pickles_get_one_line(data: bytes, said: str) -> None:
    with pytest.raises(PickleError, match=said) as refused:
        load(data)
    assert "\n" not in str(refused.value)


def test_a_pickle_that_doubles_itself_is_looked_through_once() -> None:
    level, value = b"]q\x00", b""
    for at in range(1, 40):
        level += b"]q" + bytes([at]) + b"(h" + bytes([at - 1]) + b"h" + bytes([at - 1]) + b"e"
    value = load(b"\x80\x02(" + level + b"t.")
    assert len(value) == 40
    assert pickled.depth_of(value) == 40


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled, "MOST_ITEMS", 10)
    with pytest.raises(PickleError, match="more than 10 values"):
        load(pickle.dumps(list(range(20)), 2))
    monkeypatch.setattr(pickled, "MOST_BYTES", 20)
    with pytest.raises(PickleError, match="MiB"):
        load(pickle.dumps(list(range(20)), 2))
