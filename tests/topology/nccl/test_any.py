"""Any topology that parses gets an answer for every pair; nothing changes in silence."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.flags.catalogue.catalogue import catalogue, elsewhere
from gputop.topology.flags.values.values import read_value
from gputop.topology.model.versions import Library, LibraryName
from gputop.topology.nccl.decide.predict import NoGpusError
from gputop.topology.nccl.prediction import Prediction
from tests.topology.nccl.made import AMD, ARM, INTEL, SWITCH, cpu, decide, gpu, nic, switch, system

HIDDEN = "fffffff:ff:ff.0"
SPEEDS = ("", "2.5 GT/s", "16.0 GT/s PCIe", "32.0 GT/s", "32.0 GT/s PCIe", "Unknown", "64 GT/s")
VERSIONS = ("nccl-2.20.5", "nccl-2.23.4", "nccl-2.26.2", "nccl-2.28.9", "nccl-2.30.7")


@st.composite
def topologies(draw: st.DrawFn) -> tuple[str, int]:
    """A random node with one to five GPUs, and how many it has."""
    count = draw(st.integers(1, 5))
    switched = draw(st.booleans())
    sm = draw(st.sampled_from([60, 70, 80, 86, 90, 100]))
    numa = draw(st.integers(1, 3))
    inside: list[list[str]] = [[] for _ in range(numa)]
    for number in range(count):
        others = [n for n in range(count) if n != number]
        links = []
        if switched and draw(st.booleans()):
            links.append((HIDDEN, draw(st.integers(0, 18)), SWITCH))
        peers = draw(st.lists(st.sampled_from(others or [0]), max_size=2, unique=True))
        # A link may be named at one end alone, which the library cannot walk back.
        links += [(f"0000:{16 + n:02x}:00.0", draw(st.integers(0, 4)), "0x030200") for n in peers]
        made = gpu(
            16 + number,
            number,
            links,
            sm=sm,
            speed=draw(st.sampled_from(SPEEDS)),
            width=draw(st.sampled_from(["0", "4", "8", "16"])),
            gdr=draw(st.integers(0, 1)),
        )
        for level in range(draw(st.integers(0, 2))):
            made = switch(64 + 2 * number + level, made)
        inside[draw(st.integers(0, numa - 1))].append(made)
    for number in range(draw(st.integers(0, 3))):
        made = nic(128 + number, number, speed=draw(st.sampled_from([-1, 0, 25000, 400000])))
        inside[draw(st.integers(0, numa - 1))].append(made)
    kind = draw(st.sampled_from([INTEL, AMD, ARM]))
    return system(*(cpu(n, *parts, kind=kind) for n, parts in enumerate(inside))), count


@given(topologies(), st.sampled_from(VERSIONS))
def test_every_pair_is_answered(made: tuple[str, int], version: str) -> None:
    xml, count = made
    found = decide(xml, library=version)
    keys = [(pair.src, pair.dst) for pair in found.pairs]
    assert keys == [(a, b) for a in range(count) for b in range(count) if a != b]
    for pair in found.pairs:
        assert pair.transport in ("P2P", "SHM", "NET", "none")
        assert pair.steps
        assert pair.steps[-1].decides or any(step.decides for step in pair.steps)
    assert sorted(rank for view in found.views for rank in view.ranks) == list(range(count))
    for view in found.views:
        ring = view.graphs.ring
        assert ring is not None
        assert all(sorted(order) == sorted(view.ranks) for order in ring.orders)


VALUES = st.one_of(
    st.sampled_from(
        [
            "0",
            "1",
            "2",
            "-1",
            "true",
            "yes",
            "",
            " ",
            "NVL",
            "nvl",
            "SYS",
            "PHB",
            "3",
            "LL128",
            "Ring",
            "ring,tree",
            "^ring",
            "0x1",
            "1e9",
            "64",
            "999999999999999999999",
            "ALL",
            "MAX:2",
        ]
    ),
    st.text(st.characters(codec="ascii", exclude_characters="\x00"), max_size=12),
)
PLAIN = system(
    cpu(0, switch(1, gpu(2, 0), gpu(3, 1), nic(8, 0))), cpu(1, gpu(4, 2), gpu(5, 3), nic(9, 1))
)


def decisions(found: Prediction) -> object:
    """All that a prediction decides, without the words about it."""
    return (
        [(p.path, p.hops, p.bandwidth_gbs, p.labels, p.read, p.via) for p in found.pairs],
        [
            (v.ranks, v.graphs, [(n.to, n.back, n.gdr_send, n.gdr_recv) for n in v.nets])
            for v in found.views
        ],
        found.choices,
        found.coll_channels,
        found.tuning,
    )


LIBRARIES = {
    version: Library(name=LibraryName(version.split("-")[0]), version=version.split("-")[1])
    for version in ("nccl-2.20.5", "nccl-2.28.9", "nccl-2.30.7", "rccl-2.21.5")
}


@cache
def before(version: str) -> Prediction:
    """What is decided without any variable."""
    return decide(PLAIN, library=version)


@given(
    st.sampled_from([flag.name for flag in catalogue().flags]),
    VALUES,
    st.sampled_from(sorted(LIBRARIES)),
)
def test_a_value_without_effect_changes_nothing(name: str, value: str, version: str) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    library = LIBRARIES[version]
    try:
        found = decide(PLAIN, {name: value}, library=version)
    except NoGpusError:
        assert name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
        return
    reading = read_value(flag, value, library)
    if reading.ignored:
        assert decisions(found) == decisions(before(version)), reading
        if name.startswith(("NCCL_", "RCCL_")):
            assert name in {one for one, _, _ in found.ignored}
    if decisions(found) != decisions(before(version)) or found.failure:
        assert flag.libraries or not flag.of_library


@given(st.from_regex(r"NCCL_[A-Z]{3,12}_[A-Z]{3,9}", fullmatch=True), VALUES)
def test_an_unknown_name_is_reported_and_changes_nothing(name: str, value: str) -> None:
    found = decide(PLAIN, {name: value})
    if catalogue().flag(name) is None and not elsewhere(name):
        assert decisions(found) == decisions(before("nccl-2.28.9"))
        assert name in {one for one, _, _ in found.ignored}
