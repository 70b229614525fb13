from __future__ import annotations

import re

import msgspec
import pytest

from gputop.topology.logs.comparing.compare import compare
from gputop.topology.logs.comparing.compare_graphs import ring_items
from gputop.topology.logs.comparing.overlay import (
    Rebuilt,
    architecture,
    capability,
    count_of,
    lanes,
    lay,
    rebuild,
    snapshot_of,
)
from gputop.topology.logs.comparing.placing import hosts_of
from gputop.topology.logs.reading.read import read_file, read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.logs.report.settings import settings_from
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded import load
from tests.support.nccl.logs import cases, lines_of
from tests.support.places import CAPTURES

TOPOLOGY = CAPTURES / "hgx-h200-4gpu-vm" / "nccl-topo.xml"
NOT_EVERY_RANK = "the log shows 1 of 4 GPUs"


def h200(name: str = "default") -> LogReport:
    return read_log(lines_of(f"h200-{name}"), name=name)


def predicted(log: LogReport, **changes: str) -> Prediction:
    built = rebuild(log)
    assert isinstance(built, Rebuilt)
    values = {**settings_from(log), **changes}
    return predict(snapshot_of(built), Settings(values), library="nccl-2.28.9")


@pytest.mark.parametrize("name", ["default", "p2pdis", "net", "cumem0", "lvlphb"])
def test_a_log_alone_is_predicted_and_agrees(name: str) -> None:
    overlay = lay(h200(name), None)
    agreement = overlay.agreement
    assert agreement.comparable
    assert not agreement.differing
    assert agreement.agree >= 60
    assert not agreement.outside
    topics = {item.topic for item in agreement.items}
    assert {"graph", "tuning", "choice", "channels", "nodes"} <= topics
    assert "the machine is rebuilt from the log's own System block" in overlay.assumptions
    assert msgspec.json.encode(overlay)


@pytest.mark.beside
def test_emulated_logs_agree_with_their_own_prediction() -> None:
    """The tuning table is that of the real device, sm 90; the rest follows the file."""
    compared = 0
    for case, path in cases():
        agreement = lay(read_file(path), None).agreement
        if not agreement.comparable:
            assert "SHM_DISABLE" in case["case"]
            assert agreement.why_not is not None
            assert agreement.why_not.startswith(NOT_EVERY_RANK)
            continue
        compared += 1
        rest = [item for item in agreement.differing if getattr(item, "topic", "") != "tuning"]
        assert not rest, (case["case"], rest)
    assert compared >= 3


@pytest.mark.skipif(not TOPOLOGY.exists(), reason="needs shared/captures")
@pytest.mark.beside
def test_the_machine_s_own_topology_agrees_too() -> None:
    snapshot = load.load([str(TOPOLOGY)]).snapshot
    overlay = lay(h200(), snapshot)
    assert overlay.agreement.comparable
    assert not overlay.agreement.differing
    assert overlay.node == "nccl-topo.xml"


def test_another_environment_is_named_as_the_reason() -> None:
    agreement = compare(h200("p2pdis"), predicted(h200()))
    assert agreement.differing
    assert any(pair.agrees is False for pair in agreement.pairs)
    pair = next(pair for pair in agreement.pairs if pair.agrees is False)
    assert (pair.logged, pair.predicted) == (("SHM/direct/direct",), ("P2P/CUMEM",))
    assert pair.line is not None
    assert any("NCCL_P2P_DISABLE=1 in the job" in reason for reason in agreement.reasons)
    back = compare(h200(), predicted(h200("p2pdis")))
    assert any("NCCL_P2P_DISABLE=1 was predicted with" in reason for reason in back.reasons)


def test_the_p2p_line_distinguishes_policy_from_capability() -> None:
    hidden = [line for line in lines_of("h200-p2pdis") if b"P2P_DISABLE" not in line]
    agreement = lay(read_log(hidden), None).agreement
    assert any("although CUDA would allow it" in reason for reason in agreement.reasons)
    refused = [line.replace(b"isAllCudaP2p 1", b"isAllCudaP2p 0") for line in hidden]
    agreement = lay(read_log(refused), None).agreement
    assert any("CUDA does not offer P2P" in reason for reason in agreement.reasons)


def test_other_versions_and_nvls_are_named() -> None:
    log = h200()
    prediction = predicted(log, NCCL_NVLS_ENABLE="1")
    assert prediction.graphs.nvls is not None
    agreement = compare(log, prediction)
    assert {item.topic for item in agreement.differing} >= {"graph"}  # type: ignore[union-attr]
    assert any("multicast" in reason for reason in agreement.reasons)
    older = msgspec.structs.replace(
        prediction, library=msgspec.structs.replace(prediction.library, version="2.20.5")
    )
    assert any("2.20.5" in reason for reason in compare(log, older).reasons)


def test_a_difference_without_a_known_reason_says_so() -> None:
    prediction = msgspec.structs.replace(predicted(h200()), assumptions=(), coll_channels=7)
    agreement = compare(h200(), prediction)
    assert [item.subject for item in agreement.differing] == ["channels for collectives"]  # type: ignore[union-attr]
    assert agreement.reasons[-1].startswith("nothing is known to be different")


def test_ranks_are_matched_by_address_not_by_number() -> None:
    """Ranks in reverse order of the GPUs."""
    text = b"\n".join(lines_of("h200-default"))
    for rank, (bus, new) in enumerate(((b"60", b"90"), (b"70", b"80"))):
        both = ((b"busId " + bus, b"busId " + new), (b"GPU/0-" + bus, b"GPU/0-" + new))
        for old, other in both:
            text = text.replace(old, b"@").replace(other, old).replace(b"@", other)
        assert rank < 2
    log = read_log(text.splitlines())
    agreement = compare(log, predicted(h200()))
    assert agreement.ranks == {"0": 3, "1": 2, "2": 1, "3": 0}
    assert all(pair.agrees is not False for pair in agreement.pairs)
    built = rebuild(h200())
    assert isinstance(built, Rebuilt)
    # The node's own GPUs, by the ranks that the job gave them.
    followed = lay(log, snapshot_of(built)).agreement
    assert followed.ranks == {str(rank): rank for rank in range(4)}
    assert not followed.differing


def test_other_hosts_are_outside() -> None:
    lines = lines_of("h200-default")
    far = [
        line.replace(b"vm:", b"other:")
        .replace(b"nranks 4", b"nranks 8")
        .replace(b"rank 0 ", b"rank 4 ")
        for line in lines
        if line.startswith(b"vm:1753:") and b"Init " in line
    ]  # fmt: skip
    near = [line.replace(b"nranks 4", b"nranks 8") for line in lines]
    log = read_log([*near, *far])
    comm = log.main
    assert comm is not None
    assert comm.nranks == 8
    agreement = compare(log, predicted(h200()))
    assert agreement.outside == (4,)
    assert any("8 ranks" in text for text in agreement.skipped)
    assert {pair.src for pair in agreement.pairs} == {0, 1, 2, 3}


def test_what_cannot_be_compared_says_why() -> None:
    empty = lay(read_log([b"nothing"]), None)
    assert not empty.agreement.comparable
    assert "no communicator" in empty.agreement.sentence
    words = (b"System", b" via ")
    bare = [line for line in lines_of("h200-default") if not any(word in line for word in words)]
    assert "System block" in str(lay(read_log(bare), None).agreement.why_not)
    other = NodeSnapshot(taken_at=0.0)
    assert "not those of this node" in str(lay(h200(), other).agreement.why_not)


def test_hosts_are_counted_only_where_known() -> None:
    comm = h200().main
    assert comm is not None
    assert hosts_of(comm, {}) == 1


def test_bandwidths_turn_back_into_links() -> None:
    assert lanes(48.0) == ("32.0 GT/s PCIe", 16)
    assert lanes(24.0) == ("16.0 GT/s PCIe", 16)
    assert lanes(12.0) == ("8.0 GT/s PCIe", 16)
    assert lanes(6.0)[1] == 16
    assert capability([370.8], [48.0], [], [])[0] == 90
    assert capability([240.0], [24.0], ["P2P/CUMEM/read"], [])[0] == 80
    assert capability([40.0], [12.0], ["P2P/IPC"], [])[0] == 70
    assert capability([721.8], [48.0], [], [])[0] == 100
    assert capability([], [24.0], [], [])[0] == 89
    assert count_of(370.8, 20.6) == 18
    for rates, name, each in (
        ([48.0, 96.0], "gfx942", 48.0),
        ([36.0, 144.0], "gfx90a", 36.0),
        ([24.0], "gfx908", 24.0),
    ):
        found = architecture(rates)
        assert found[:2] == (name, each)
        assert [count_of(gbs, each) for gbs in rates] == [round(gbs / each) for gbs in rates]
    assert "does not tell" in architecture([])[2]


def test_two_hosts_are_predicted_as_two() -> None:
    """The second host repeats the first, ranks 4 to 7; the log is made up, so figures differ."""
    near = [
        line.replace(b"nranks 4", b"nranks 8").replace(b"nRanks 4 nNodes 1", b"nRanks 8 nNodes 2")
        for line in lines_of("h200-default")
    ]

    def moved(line: bytes) -> bytes:
        line = line.replace(b"vm:", b"vn:")
        line = re.sub(rb"rank (\d) n", lambda m: b"rank %d n" % (int(m[1]) + 4), line)
        line = re.sub(rb"(\d)\[(\d)\]", lambda m: b"%d[%s]" % (int(m[1]) + 4, m[2]), line)
        return re.sub(rb"(GPU/0-\d0) \((\d)\)$", lambda m: m[1] + b" (%d)" % (int(m[2]) + 4), line)

    log = read_log([*near, *(moved(line) for line in near if line.startswith(b"vm:"))])
    comm = log.main
    assert comm is not None
    assert comm.hosts == ("vm", "vn")
    assert hosts_of(comm, {}) == 2
    agreement = lay(log, None).agreement
    assert agreement.outside == (4, 5, 6, 7)
    assert not agreement.skipped
    assert next(item for item in agreement.items if item.topic == "nodes").agrees
    assert any("2 hosts" in reason for reason in agreement.reasons)


def test_amd_s_classes_of_2_31_turn_back_into_families() -> None:
    """The log names arch, vendor and model of a CPU; AMD's families have had models since 2.31."""
    lines = [re.sub(rb"\(1/1/\d\)", b"(1/2/2)", line) for line in lines_of("h200-default")]
    built = rebuild(read_log(lines))
    assert isinstance(built, Rebuilt)
    families = {cpu.get("familyid") for cpu in built.element.children if cpu.tag == "cpu"}
    assert families == {"25"}


@pytest.mark.parametrize("gpus", [4, 8, 16, 72])
def test_rings_that_are_cut_say_how_many_more_there_are(gpus: int) -> None:
    """A page shows 200 characters of what is compared."""
    comm = h200().main
    assert comm is not None
    ring = comm.rings[0]
    orders = [(0, *range(turn, gpus), *range(1, turn)) for turn in range(1, min(gpus, 12) + 1)]
    rings = tuple(msgspec.structs.replace(ring, order=order) for order in orders)
    several = msgspec.structs.replace(comm, rings=rings)
    (item,) = ring_items(several, predicted(h200()), {rank: rank for rank in range(gpus)})
    shown, _, more = item.logged.partition(" and ")
    left = len(set(orders)) - len(shown.split("; "))
    assert more == (f"{left} more" if left else "")
    assert (left > 0) is (gpus > 8)
    assert len(item.logged) < 200
