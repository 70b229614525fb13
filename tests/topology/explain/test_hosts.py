"""The text for several hosts."""

from __future__ import annotations

import pytest

from gputop.printing.render import blocks_of, texts
from gputop.topology.explain.hosts import answer, numbers, places_in_words, sections
from tests.topology.nccl.hosts.made import EIGHT, FOUR, over


def text(*arguments: object, **others: object) -> str:
    found = over(*arguments, **others)  # type: ignore[arg-type]
    return "\n".join(texts(blocks_of(sections(found)), 100))


def test_the_first_two_lines_answer() -> None:
    first, second, *rest = text(4, EIGHT).splitlines()
    assert first == "4 hosts, 32 GPUs: all-reduce 1 GiB 357.8 GB/s bus (predicted), bound by NICs"
    assert second == "  NET/IB with GPUDirect RDMA, rail to rail, Ring Simple in 5.81 ms"
    assert rest[0].startswith(
        "  NCCL 2.28.9: rings carry 384 GB/s from host to host; 8 NICs a host"
    )
    shown = "\n".join(rest)
    assert "  mlx5_0  48    0        0 1 8 9            mlx5_0\n" in shown
    assert "Rings: 0 > 1 > 2 > 3 > 0 on 16 channels" in shown
    assert "0 8 even 0 by mlx5_0 1 by mlx5_1" in [" ".join(line.split()) for line in rest]
    assert "  - channels 8-15: root 3; 1 has 2 0; 3 has 1\n" in shown
    assert "NVLS: the same two trees, each between 8 GPUs of a host" in shown


def test_many_hosts_take_no_more_room_than_few() -> None:
    few, many = text(9, EIGHT), text(200, EIGHT)
    assert len(many.splitlines()) < len(few.splitlines()) + 10
    assert "Rings: 0 > ... > 199 > 0 on 16 channels" in many
    assert "with children" in many


def test_a_relay_and_a_missing_nic_are_named() -> None:
    shown = text(4, FOUR, missing=((1, "mlx5_2"),))
    assert "rails cross, relays (PXN)" in shown
    assert "  Without mlx5_2 on host 1: 6 rings instead of 8, 144 GB/s from host to host" in shown
    assert "over 0 (PXN)" in shown
    assert "not on host" in shown
    assert "rings change rails between 0 and 1, 1 and 2\n" in shown
    assert "trees change rails too" in shown


def test_an_odd_number_of_hosts_is_explained() -> None:
    shown = " ".join(text(5, EIGHT).split())
    assert "rings change rails between 4 and 0: channels swap NICs" in shown
    assert "switches that join the NICs of one rail alone have no way there" in shown
    assert "NCCL_CROSS_NIC=0 keeps them on one" in shown
    assert "change rails" not in text(4, EIGHT)


def test_a_job_that_does_not_start_has_no_figures() -> None:
    missing = tuple((1, f"mlx5_{n}") for n in range(4))
    shown = text(3, FOUR, missing=missing)
    assert shown.startswith("3 hosts, 12 GPUs: the job would not start\n  ✗ host 1 has no NIC left")
    assert "GB/s" not in shown


def test_split_hosts_and_rccl() -> None:
    split = text(3, FOUR, env={"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
    assert "Each host counts as 4 nodes" in split
    rccl = over(3, FOUR, library="rccl-2.21.5")
    assert answer(rccl) == (
        "3 hosts, 12 GPUs: all-reduce 1 GiB 40 to 96 GB/s bus (estimate), from RCCL's count of its "
        "rings to the NICs; by that count bound by PCIe"
    )


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (range(4), "all"),
        ((0, 2), "even"),
        ((1, 3), "odd"),
        ((0, 1, 3), "0 1 3"),
        ((), ""),
    ],
)
def test_places(places: tuple[int, ...], words: str) -> None:
    assert places_in_words(places, 4) == words


def test_numbers_fold_runs_and_cut_what_is_long() -> None:
    assert numbers([0, 1, 2, 5, 7, 8]) == "0-2 5 7 8"
    assert numbers(range(0, 40, 2)).endswith("14 and 12 more")
