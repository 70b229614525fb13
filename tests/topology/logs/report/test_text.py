"""Bytes of a log as short printable text, and what NCCL's integers stand for."""

from __future__ import annotations

import pytest

from gputop.topology.logs.report.text import LIMIT, bus_id, plain, shape


@pytest.mark.parametrize(
    ("digits", "address"),
    [
        ("60", "0000:00:06.0"),
        ("ca000", "0000:ca:00.0"),
        ("1000ca000", "1000:ca:00.0"),
        ("", None),
        ("-60", None),
        ("g0", None),
        (f"{1 << 52:x}", None),
    ],
)
def test_an_integer_of_nccl_is_a_pci_address(digits: str, address: str | None) -> None:
    assert bus_id(digits) == address


def test_text_is_printable_and_short() -> None:
    assert plain(b"NET/IB : \x1b[31mmlx5_0\xff") == "NET/IB : \ufffd[31mmlx5_0\ufffd"
    assert len(plain(b"x" * 10 * LIMIT)) == LIMIT


def test_lines_that_differ_in_counts_have_one_shape_and_codes_of_errors_tell_them_apart() -> None:
    assert shape(b"opened 0x7f01 after 12.5 s") == shape(b"opened 0x9a after 3 s")
    assert shape(b"nccl-abcdef is full") == shape(b"nccl-uvwxyz is full")
    assert shape(b"Cuda failure 2") != shape(b"Cuda failure 999")
