"""What each value of a variable would do here, as rows; and the change that gives P2P."""

from __future__ import annotations

import pytest

from gputop.topology.explain.value_rows import ValueRow, in_one_line, reached, value_rows
from gputop.topology.flags.account.account import account
from gputop.topology.flags.catalogue.catalogue import SHELVES, catalogue
from gputop.topology.flags.what_if.outcomes import VALUES
from gputop.topology.flags.what_if.remedy import remedy
from gputop.topology.flags.what_if.study import Stopped, Study
from tests.support.app import demo_report
from tests.support.command import gputop_here


def rows(demo: str, name: str) -> tuple[ValueRow, ...]:
    report = demo_report(demo)
    flag = catalogue().flag(name)
    assert flag is not None
    return value_rows(flag, Study(report.snapshot, made=report.prediction), report.node)


def test_a_level_of_p2p_has_its_pairs_and_their_transports() -> None:
    found = {row.value: row for row in rows("pcie-l40s-8", "NCCL_P2P_LEVEL")}
    assert list(found) == ["not set", "LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    assert [row.pairs for row in found.values()] == [
        "4 of 28", "0 of 28", "0 of 28", "4 of 28", "4 of 28", "12 of 28", "28 of 28"
    ]  # fmt: skip
    assert found["not set"].here
    assert found["not set"].transports[0] == "·PSSSSSS"
    assert found["PHB"].transports[0] == "·PPPSSSS"
    assert found["PHB"].medium == found["PHB"].large == "not known", "the model asks no transport"
    assert found["LOC"].large == "not known"
    assert in_one_line(tuple(found.values())) == (
        "=LOC =NVL: P2P 0 of 28 pairs, all-reduce 1 GiB ~5.67 to 25.8 GB/s → not known · "
        "=PHB: P2P 12 of 28 pairs, all-reduce 1 GiB ~5.67 to 25.8 GB/s → not known · "
        "=SYS: P2P 28 of 28 pairs, all-reduce 1 GiB ~5.67 to 25.8 GB/s → ~11.0 to 25.8 GB/s"
    )


def test_pairs_that_another_gpu_relays_are_told_apart() -> None:
    first = rows("dgx-1v", "NCCL_P2P_DISABLE")[0]
    assert (first.pairs, first.relayed) == ("28 of 28", 12)
    assert first.transports[0] == "·PPPPRRR"
    assert first.by == "Ring Simple"


def test_the_price_of_no_p2p_is_the_range_of_the_model_of_cost() -> None:
    without, off = rows("hgx-h100-8", "NCCL_P2P_DISABLE")
    assert (without.large, off.large) == ("473 GB/s", "39.9 to 230 GB/s")
    assert off.medium.startswith("2.08 ms to ")
    assert off.clauses[0] == "P2P for 0 of 28 pairs (28 today)"


def test_an_estimate_is_marked_and_the_command_has_the_same_figures() -> None:
    report = demo_report("mi300x-8")
    study = Study(report.snapshot, made=report.prediction)
    off = catalogue().flag("NCCL_P2P_DISABLE")
    buffers = catalogue().flag("NCCL_BUFFSIZE")
    assert off is not None
    assert buffers is not None
    table = reached(value_rows(off, study, report.node), study).table
    assert table == (
        ("value", "busbw (~ estimate)"),
        ("not set", "333 GB/s"),
        ("1", "~11.3 to 41.6 GB/s"),
    )
    assert reached(value_rows(buffers, study, report.node), study).empty
    printed = gputop_here("flags", "NCCL_P2P_DISABLE", "--demo", "mi300x-8").stdout
    assert "1        ~11.3 to 41.6 GB/s" in printed


def test_the_time_of_a_value_is_the_one_of_the_page_on_its_variable() -> None:
    for demo, name in (("pcie-l40s-8", "NCCL_P2P_DISABLE"), ("hgx-h100-8", "NCCL_P2P_LEVEL")):
        report = demo_report(demo)
        study = Study(report.snapshot, made=report.prediction)
        flag = catalogue().flag(name)
        assert flag is not None
        page = next(part for part in account(flag, study) if part.title.startswith(VALUES))
        said = {value: row[-1] for row in page.table[1:] for value in row[0].split()}
        for row in value_rows(flag, study, report.node)[1:]:
            assert row.medium
            assert said[row.value].startswith(row.medium.split()[0])
    assert "not known" not in said.values()


def test_a_cost_that_is_not_known_has_a_reason() -> None:
    report = demo_report("pcie-l40s-8")
    flag = catalogue().flag("NCCL_P2P_LEVEL")
    assert flag is not None
    study = Study(report.snapshot, made=report.prediction)
    page = reached(value_rows(flag, study, report.node), study)
    assert ("LOC", "not known") in page.table
    assert page.paragraphs


def test_what_cannot_run_fails_in_words() -> None:
    by = {row.value: row for row in rows("pcie-l40s-8", "NCCL_ALGO")}
    assert by["NVLS"].large == "fails"
    assert by["Tree"].large == "~16.1 GB/s"
    assert rows("hgx-h100-8", "NCCL_DEBUG") == ()


def test_every_variable_is_said_in_short_and_has_its_group() -> None:
    for flag in catalogue().flags:
        assert 8 < len(flag.in_short) <= 66, flag.name
        assert not flag.in_short.endswith((".", ":", ";", ",")), flag.name
        assert flag.shelf in SHELVES


def test_the_change_that_gives_p2p_is_the_least_one() -> None:
    report = demo_report("pcie-l40s-8")
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    study = Study(report.snapshot, made=report.prediction)
    far, near = remedy(study, gpus[0], gpus[5]), remedy(study, gpus[0], gpus[2])
    assert far is not None
    assert near is not None
    assert (far.in_words, far.gained, far.lost) == ("NCCL_P2P_LEVEL=SYS", 24, 0)
    assert (near.in_words, near.gained) == ("NCCL_P2P_LEVEL=PHB", 8)
    assert remedy(study, gpus[0], gpus[1]) is None, "it has P2P"
    off = Study(report.snapshot, values={"NCCL_P2P_DISABLE": "1"})
    taken = remedy(off, gpus[0], gpus[1])
    assert taken is not None
    assert taken.in_words == "NCCL_P2P_DISABLE unset"
    with pytest.raises(Stopped):
        remedy(study.stop_when(lambda: True), gpus[0], gpus[5])
