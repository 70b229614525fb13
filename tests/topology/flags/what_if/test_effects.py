"""Differences between two predictions, and why there is none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec
import pytest

from gputop.printing.render import blocks_of, texts
from gputop.topology.flags.catalogue.catalogue import Flag, catalogue
from gputop.topology.flags.values.values import read_value
from gputop.topology.flags.what_if.changes import export_line
from gputop.topology.flags.what_if.effects import MIB, SIZES, compare, effect_of
from gputop.topology.flags.what_if.in_words import (
    change,
    hops_in_words,
    order_in_words,
    pairs_in_words,
)
from gputop.topology.flags.what_if.study import Study, versions_named
from gputop.topology.flags.what_if.wording import no_effect, sections
from gputop.topology.model.versions import Library, LibraryName
from gputop.topology.nccl.decide.summary import duration
from gputop.topology.nccl.prediction import (
    AlgorithmChoice,
    DomainView,
    Graphs,
    PairDecision,
    Prediction,
    SearchGraph,
)
from gputop.topology.nccl.wording import message_size
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.hostile_names import HARMLESS, HOSTILE


def pair(src: int, dst: int, path: str = "PIX", transport: str = "P2P") -> PairDecision:
    label = {"P2P": "P2P/CUMEM", "SHM": "SHM/direct/direct", "NET": f"NET/IB/{src}"}[transport]
    return PairDecision(
        src=src,
        dst=dst,
        src_bus_id=f"0000:0{src}:00.0",
        dst_bus_id=f"0000:0{dst}:00.0",
        path=path,
        hops=2,
        bandwidth_gbs=24.0,
        transport=transport,
        label=label,
        labels=(label,),
    )


def made(*pairs: PairDecision, channels: int = 2, time_us: float = 100.0) -> Prediction:
    ring = SearchGraph(
        pattern=4,
        channels=channels,
        bw_intra=12.0,
        bw_inter=12.0,
        type_intra="PIX",
        type_inter="PIX",
        same_channels=1,
        cross_nic=0,
        orders=((0, 1, 2),),
    )
    ranks = tuple(sorted({p.src for p in pairs} | {p.dst for p in pairs}))
    return Prediction(
        library=Library(name=LibraryName.NCCL, version="2.28.9"),
        environment={},
        pairs=pairs,
        views=(DomainView(ranks=ranks),),
        graphs=Graphs(ring=ring),
        choices=tuple(
            AlgorithmChoice(
                collective="AllReduce",
                bytes=bytes_,
                algorithm="RING",
                protocol="SIMPLE",
                channels=(0, 2 * channels - 1),
                time_us=time_us * bytes_ / MIB,
            )
            for bytes_ in SIZES
        ),
        coll_channels=2 * channels,
    )


BOTH = (pair(0, 1), pair(1, 0), pair(0, 2, "PHB", "SHM"), pair(2, 0, "PHB", "SHM"))
BASE = made(*BOTH, pair(1, 2, "PHB", "SHM"), pair(2, 1, "PHB", "SHM"))


def test_a_prediction_against_itself_changes_nothing() -> None:
    effect = effect_of(BASE, BASE)
    assert effect.nothing
    assert effect.pairs_total == 3
    assert [time.share for time in effect.times] == [1.0] * len(SIZES)


def test_pairs_that_change_alike_stand_together_and_count_once() -> None:
    after = made(*(pair(a, b, "PHB", "P2P") for a in range(3) for b in range(3) if a != b))
    effect = effect_of(BASE, after)
    assert effect.pairs_changed == 3
    assert [(g.before.path, g.after.transport, g.pairs) for g in effect.pairs] == [
        ("PHB", "P2P", ((0, 2), (1, 2))),
        ("PIX", "P2P", ((0, 1),)),
    ]


def test_which_nic_a_label_names_makes_no_group_of_its_own() -> None:
    after = made(*(pair(a, b, "NET", "NET") for a in range(3) for b in range(3) if a != b))
    assert len(effect_of(BASE, after).pairs) == 2
    assert effect_of(BASE, after).pairs_changed == 3


def test_channels_times_and_choices_are_compared() -> None:
    effect = effect_of(BASE, made(*BASE.pairs, channels=1, time_us=150.0))
    assert effect.channels == (4, 2)
    assert [g.graph for g in effect.graphs] == ["ring"]
    assert effect.graphs[0].before == "2 x 12 PIX"
    assert effect.choices[0].after == "Ring Simple, 2 channels"
    assert effect.times[0].share == pytest.approx(1.5)
    assert effect.times_changed
    assert not effect.nothing


def test_a_failure_has_no_time() -> None:
    effect = effect_of(BASE, msgspec.structs.replace(BASE, failure="NCCL would stop: no transport"))
    assert effect.failure == (None, "NCCL would stop: no transport")
    assert effect.times[0].after_us is None
    assert not effect.nothing
    comparison = compare(
        BASE, msgspec.structs.replace(BASE, failure="no"), {"NCCL_SHM_DISABLE": "1"}
    )
    lines = texts(blocks_of(sections(comparison)), 80)
    assert "The start fails: no." in " ".join(lines)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(0, 1), (2, 3)], "0-1 2-3"),
        ([(1, 0)], "0-1"),
        ([(a, b) for a in range(4) for b in range(4, 8)], "0..3 with 4..7"),
        ([(a, b) for a in range(8) for b in range(a)], "0..7 among themselves"),
        ([(0, 2), (0, 3), (1, 2), (1, 3), (4, 6), (4, 7), (5, 6), (5, 7)],
         "0,1 with 2,3; 4,5 with 6,7"),
        ([], ""),
        ([(0, n) for n in (1, 2, 4)], "0 with 1,2,4"),
        ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], "0-1 0-4 1-2 2-3 3-4"),
    ],
)  # fmt: skip
def test_pairs_in_words(pairs: list[tuple[int, int]], words: str) -> None:
    assert pairs_in_words(pairs) == words


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([0, 1, 2, 3, 7, 6, 5, 4], "0-1-2-3-7-6-5-4"),
        (range(63), "0..62"),
        ([*range(8), *range(16, 24), *range(8, 16), 25, 24], "0..7-16..23-8..15-25-24"),
        (range(62, -1, -1), "62-61-60-59-58-57-56-55-54-53-52-51-50-49-48-47-... (63 ranks)"),
    ],
)
def test_the_order_of_many_ranks_is_reported_by_runs(order: Sequence[int], words: str) -> None:
    assert order_in_words(order) == words


def test_figures_in_words() -> None:
    assert hops_in_words(BASE) == "1 hop PIX by P2P, 2 PHB by SHM"
    assert [duration(x) for x in (None, 28.01, 180.2, 1556.0, 23576.0, 240000.0)] == [
        "not known", "28.0 us", "180 us", "1.56 ms", "23.6 ms", "240 ms",
    ]  # fmt: skip
    assert [change(x) for x in (None, 1.001, 1.12, 0.5, 3.0, 0.9)] == [
        "not known", "same", "12 % longer", "2.0 x shorter", "3.0 x longer", "10 % shorter",
    ]  # fmt: skip
    assert [message_size(x) for x in (MIB, 1024 * MIB, 100)] == ["1 MiB", "1 GiB", "100 B"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_name_or_value_is_in_the_line_to_copy(name: str) -> None:
    assert export_line({"NCCL_ALGO": "Ring", name: "1"}) == ""
    assert export_line({"NCCL_ALGO": "Ring", name: None}) == ""
    line = export_line({"NCCL_ALGO": name})
    if HARMLESS.fullmatch(name):
        assert shlex.split(line) == ["export", f"NCCL_ALGO={name}"]
    else:
        assert line == ""


def test_the_line_to_copy_is_safe_in_a_shell() -> None:
    changes = {"NCCL_NET": "AWS Libfabric", "NCCL_ALGO": None, "NCCL_HOSTID": "it's"}
    line = export_line(changes)
    assert line == "unset NCCL_ALGO; export NCCL_HOSTID='it'\"'\"'s' NCCL_NET='AWS Libfabric'"
    assert export_line({**changes, "NCCL_HOSTID": "$(reboot)"}) == ""
    assert export_line({}) == ""
    assert export_line({"A": ""}) == "export A=''"


@pytest.mark.parametrize(
    ("demo", "name", "value", "why"),
    [
        ("hgx-h100-8", "NCCL_P2P_LEVEL", "PHB", "all 28 pairs are NVL"),
        ("hgx-h100-8", "NCCL_P2P_LEVEL", "nvl", "written exactly"),
        ("hgx-h100-8", "NCCL_SHM_DISABLE", "1", "no pair uses shared memory (28 by P2P)"),
        ("hgx-h100-8", "NCCL_SHM_DISABLE", "yes", "only 1 counts"),
        ("hgx-h100-8", "NCCL_NVB_DISABLE", "1", "no path of this node goes over NVLink"),
        ("pcie-l40s-8", "NCCL_NVLS_ENABLE", "0", "NVLS needs Hopper"),
        ("pcie-l40s-8", "NCCL_P2P_LEVEL", "PXB", "it is the default"),
        ("pcie-l40s-8", "NCCL_CROSS_NIC", "0", "inside one node"),
        ("pcie-l40s-8", "NCCL_BUFFSIZE", "8388608", "same algorithm"),
        ("pcie-l40s-8", "NCCL_IB_TIMEOUT", "22", "does not model it"),
        ("pcie-l40s-8", "TORCH_NCCL_BLOCKING_WAIT", "1", "does not enter into the decisions"),
        ("pcie-l40s-8", "NCCL_MAX_CTAS", "32", "channels found are within it"),
        ("mi300x-8", "NCCL_MAX_CTAS", "4", "of RCCL 2.22.3 are not followed"),
        ("mi300x-8", "NCCL_P2P_LEVEL", "NVL", "XGMI"),
    ],
)
def test_the_reason_for_no_effect_fits_the_node(demo: str, name: str, value: str, why: str) -> None:
    study = Study(DemoFeed(demo, version="0").at(0))
    one = study.compare({}, {name: value})
    flag = catalogue().flag(name)
    assert flag is not None
    reading = one.changes[0].reading
    assert reading is not None
    assert one.effect.nothing
    assert why in no_effect(flag, reading, one).why


@pytest.mark.parametrize(
    ("demo", "name", "value", "known"),
    [
        ("mi300x-8", "NCCL_MIN_NCHANNELS", "32", False),
        ("mi300x-8", "NCCL_BUFFSIZE", "8388608", True),
        ("hgx-h100-8", "NCCL_DEBUG", "INFO", False),
        ("hgx-h100-8", "TORCH_NCCL_BLOCKING_WAIT", "1", False),
        ("mi300x-8", "NCCL_P2P_LEVEL", "nvl", True),
        ("mi300x-8", "NCCL_NET_GDR_LEVEL", "SYS", True),
        ("pcie-l40s-8", "NCCL_BUFFSIZE", "8388608", True),
    ],
)
def test_what_is_not_predicted_is_not_called_without_effect(
    demo: str, name: str, value: str, known: bool
) -> None:
    one = Study(DemoFeed(demo, version="0").at(0)).compare({}, {name: value})
    text = " ".join(" ".join(texts(blocks_of(sections(one)), 80)).split())
    assert (f"{name}: nothing changes here" in text) is known
    assert (f"{name}: what it does is not predicted" in text) is not known


def test_fewer_gpus_are_reported_and_no_longer_counted() -> None:
    one = Study(DemoFeed("hgx-h100-8", version="0").at(0)).compare(
        {}, {"CUDA_VISIBLE_DEVICES": "0,1,2"}
    )
    text = " ".join(" ".join(texts(blocks_of(sections(one)), 80)).split())
    assert "3 GPUs take part instead of 8" in text
    assert "none of 3 pairs that are left changes its path or transport" in text
    assert "another order of GPUs" not in text
    assert "the NIC is not used" not in text
    pair = " ".join(
        texts(blocks_of(sections(NODE.compare({}, {"CUDA_VISIBLE_DEVICES": "0,1"}))), 80)
    )
    assert "the one pair that is left keeps its path and transport" in pair
    alone = " ".join(
        texts(blocks_of(sections(NODE.compare({}, {"CUDA_VISIBLE_DEVICES": "0"}))), 80)
    )
    assert "1 GPU takes part instead of 8" in alone


def test_a_what_if_says_what_changes_and_how_to_set_it() -> None:
    study = Study(DemoFeed("pcie-l40s-8", version="0").at(0))
    one = study.compare({}, {"NCCL_P2P_LEVEL": "PHB"})
    text = "\n".join(texts(blocks_of(sections(one)), 80))
    assert "8 of 28 pairs change" in text
    assert "8 PHB pairs: SHM -> P2P: 0,1 with 2,3; 4,5 with 6,7" in text
    assert "export NCCL_P2P_LEVEL=PHB" in text
    assert max(map(len, text.splitlines())) <= 80


def test_taking_a_variable_away_is_a_change_too() -> None:
    feed = DemoFeed("pcie-l40s-8", version="0").at(0)
    study = Study(feed, values={"NCCL_P2P_DISABLE": "1"})
    one = study.compare({}, {"NCCL_P2P_DISABLE": None})
    assert one.effect.pairs_changed == 4
    assert one.export == "unset NCCL_P2P_DISABLE"
    assert (
        study.compare({"NCCL_P2P_DISABLE": None}, {"NCCL_P2P_DISABLE": "1"}).effect.pairs_changed
        == 4
    )


MODELLED = [
    flag
    for flag in catalogue().flags
    if flag.kind != "none" and flag.of_library and flag.type not in ("path", "string", "devices")
]


@pytest.mark.parametrize("flag", MODELLED, ids=lambda flag: flag.name)
def test_what_counts_as_ignored_changes_no_prediction(flag: Flag) -> None:
    base = NODE.baseline()
    for value in ("garbage", "true", "", "9" * 30, "nvl"):
        reading = read_value(flag, value, base.library)
        after = NODE.predict({flag.name: value})
        if reading.ignored:
            assert effect_of(base, after).nothing, value
        if reading.fatal:
            assert after.failure, value
        elif base.failure is None and after.failure is not None:
            raise AssertionError(f"{value!r} ends the start and no reading says so")


NODE = Study(DemoFeed("pcie-l40s-8", version="0").at(0))


def test_a_name_that_nothing_reads_changes_nothing() -> None:
    after = NODE.predict({"NCCL_P2P_DISABLED": "1", "NCCL_NO_SUCH_FLAG": "1"})
    assert effect_of(NODE.baseline(), after).nothing


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("2.30", ("2.30.7",)),
        ("NCCL 2.3", ("2.32.3", "2.31.2", "2.30.7")),
        ("nccl=2.27.7", ("2.27.7",)),
        ("v2.27.4", ("2.27.4",)),
        ("2.28.9", ()),
        ("NCCL_ALGO", ()),
        ("0-5", ()),
        ("41003", ()),
    ],
)
def test_a_version_is_found_by_how_it_begins(typed: str, found: tuple[str, ...]) -> None:
    library = Library(name=LibraryName.NCCL, version="2.28.9")
    assert versions_named(library, typed) == found
