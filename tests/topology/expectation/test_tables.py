"""The tables that figures are held against, and what is carried over from one model to another."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gputop.topology.expectation.collectives import COLLECTIVES
from gputop.topology.expectation.devices import HOST, MEMORY
from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.judgement import TYPICAL
from gputop.topology.expectation.pairs import QUANTITIES
from gputop.topology.expectation.references import published
from gputop.topology.hardware.specs import pcie_pairs, skus, table
from tests.support.expectation_made import collective, h200
from tests.tables import hold

SKUS: dict[str, Any] = table("specs")["sku"]


def realistic_fraction(entries: list[dict[str, Any]]) -> dict[str, float]:
    """The rule at the head of specs.toml: typical before best, most GPUs, NVLS before Ring."""
    found: dict[str, float] = {}
    for quantity in dict.fromkeys(entry["quantity"] for entry in entries):
        for kind in ("typical", "best"):
            some = [
                entry
                for entry in entries
                if (entry["quantity"], entry["kind"]) == (quantity, kind) and "fraction" in entry
            ]
            if some:
                most = max(entry.get("gpus", 0) for entry in some)
                some = [entry for entry in some if entry.get("gpus", 0) == most]
                nvls = [entry for entry in some if entry.get("algorithm") == "NVLS"]
                ring = [entry for entry in some if entry.get("algorithm") == "RING"]
                found[quantity] = (nvls or some)[0]["fraction"]
                if nvls and ring:
                    found[f"{quantity}_ring"] = ring[0]["fraction"]
                break
    return found


def _the_fractions_in_short_follow_from_the_entries(name: str) -> None:
    assert SKUS[name].get("realistic_fraction", {}) == realistic_fraction(SKUS[name]["realistic"])


def test_the_fractions_in_short_follow_from_the_entries() -> None:
    hold(_the_fractions_in_short_follow_from_the_entries, SKUS)


def _entries_are_of_a_form_that_is_read(name: str) -> None:
    for figure in skus()[name].figures:
        sizes = [size for size, _ in figure.curve]
        assert all(low < high for low, high in pairwise(sizes))
        assert bool(figure.curve) <= figure.quantity.endswith("_busbw")
        assert figure.mkn is None or figure.quantity.startswith("gemm_")
        if figure.curve:
            assert figure.curve[0][1] <= figure.measured <= 1.03 * figure.curve[-1][1]
        if figure.unit == "GB/s" and figure.kind == TYPICAL and figure.fraction is not None:
            assert figure.measured / (figure.peak or 1) == pytest.approx(figure.fraction, abs=6e-4)


def test_entries_are_of_a_form_that_is_read() -> None:
    hold(_entries_are_of_a_form_that_is_read, SKUS)


def test_every_quantity_that_is_judged_is_in_some_entry() -> None:
    known = {figure.quantity for sku in skus().values() for figure in sku.figures}
    asked = {name for name, _ in QUANTITIES.values()} | {name for name, _ in COLLECTIVES.values()}
    asked |= set(HOST.values()) | {name for names in MEMORY.values() for name in names}
    assert asked <= known


@pytest.mark.parametrize(
    ("sku", "quantity", "basis", "fraction"),
    [
        ("H200-SXM", "p2p_uni", "typical", 0.881),
        ("H100-SXM", "p2p_read", "estimate", 0.875),  # of the H200's links, which are the same
        ("H100-NVL", "p2p_uni", "typical", 0.855),
        ("A100-SXM4-80", "p2p_uni", "best", 0.922),
        ("B200", "p2p_uni", "estimate", 0.856),  # GB200's
        ("B200", "p2p_bidir", "estimate", 0.849),  # GB300's
        ("MI325X", "p2p_uni", "estimate", 0.75),  # MI300X's
        ("L40S", "h2d", "estimate", 0.835),
        ("A100-SXM4-80", "h2d", "typical", 0.835),
    ],
)
def test_what_another_model_reached_is_an_estimate(
    sku: str, quantity: str, basis: str, fraction: float
) -> None:
    found = published(sku, quantity)
    assert found is not None
    assert found.basis == basis
    assert found.fraction == pytest.approx(fraction, abs=1e-3)
    assert found.source


@pytest.mark.parametrize(
    ("sku", "quantity"),
    [("L40S", "p2p_uni"), ("V100-SXM2-32", "p2p_uni"), ("H100-SXM", "p2p_kernel_latency")],
)
def test_nothing_is_made_up(sku: str, quantity: str) -> None:
    assert published(sku, quantity) is None


def test_pass_lines_are_never_expected() -> None:
    for name, sku in skus().items():
        floors = {f.quantity for f in sku.figures} - {
            f.quantity for f in sku.figures if f.kind != "floor"
        }
        for quantity in floors & {"p2p_uni", "p2p_bidir", "h2d", "d2h"}:
            found = published(name, quantity)
            assert found is None or found.basis == "estimate"


def test_pairs_over_pcie_are_reported_by_relation() -> None:
    for item in pcie_pairs():
        assert item.width == 16
        assert item.figure.source
        ways = 2 if item.figure.quantity == "p2p_bidir" else 1
        line = table("links")["pcie"][f"gen{item.gen}"]["line_gbps"]["x16"]
        assert item.figure.peak == pytest.approx(ways * line, abs=0.01)
    assert {letters for item in pcie_pairs() for letters in item.relations} == {
        "PIX", "PXB", "PHB", "NODE", "SYS",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("quantity", "measured"),
    [
        ("all_reduce_busbw", 328.06),
        ("all_gather_busbw", 270.60),
        ("reduce_scatter_busbw", 273.64),
        ("all_to_all_busbw", 332.35),
        ("send_receive_busbw", 360.35),
        ("broadcast_busbw", 364.2),
    ],
)
def test_two_h200_are_held_against_two_h200(quantity: str, measured: float) -> None:
    """The probe's figures of 1 GiB on two H200, 2026-11; the table's are those of nccl-tests."""
    figures = [collective(share * measured, quantity, ranks=2) for share in (1.0, 0.7)]
    good, poor = judge(h200(), figures)
    assert good.band is not None
    assert (good.verdict, good.band.basis) == ("healthy", "typical")
    assert "2 GPUs" in good.band.scaled[0]
    assert poor.verdict == "low"
