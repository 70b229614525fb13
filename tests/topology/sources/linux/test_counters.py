"""Counters of the kernel: what is above 0 of each device, and only what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.hardware.counters import CountedTrouble, meaning
from gputop.topology.model.readings import CounterKind, DeviceCounters, Readings
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux.counters import WHOLE_READS, CountersReader, parse

GPU, NIC, DISK = "0000:9b:00.0", "0000:3b:00.0", "0000:01:00.0"
CORRECTED = "RxErr 0\nBadTLP 3\nBadDLLP 0\nTOTAL_ERR_COR 3"


def tree(root: Path) -> FolderTree:
    """A host with a GPU, a NIC with a port, and a disk."""
    kinds = {GPU: "0x030200", NIC: "0x020000", DISK: "0x010802"}
    files = {f"bus/pci/devices/{one}/class": kind for one, kind in kinds.items()}
    for one in kinds:
        files[f"bus/pci/devices/{one}/aer_dev_correctable"] = CORRECTED
        files[f"bus/pci/devices/{one}/aer_dev_fatal"] = "TOTAL_ERR_FATAL 0"
    files |= {
        f"bus/pci/devices/{GPU}/ras/umc_err_count": "ue: 1\nce: 12",
        f"bus/pci/devices/{GPU}/ras/features": "feature mask: 0x5",
        f"bus/pci/devices/{NIC}/net/eth2/carrier_down_count": "4",
        f"bus/pci/devices/{NIC}/net/eth2/statistics/rx_crc_errors": "0",
        f"bus/pci/devices/{NIC}/infiniband/mlx5_2/ports/1/counters/symbol_error": "17",
        f"bus/pci/devices/{NIC}/infiniband/mlx5_2/ports/1/counters/multicast_rcv_packets": "9",
        f"bus/pci/devices/{NIC}/infiniband/mlx5_2/ports/1/hw_counters/out_of_sequence": "5",
    }
    for path, text in files.items():
        (root / "sys" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys" / path).write_text(text + "\n")
    place = root / "sys/bus/pci/devices" / NIC
    for kind, name in (("infiniband", "mlx5_2"), ("net", "eth2")):
        (root / "sys/class" / kind).mkdir(parents=True)
        (root / "sys/class" / kind / name).symlink_to(f"../../bus/pci/devices/{NIC}/{kind}/{name}")
        (place / kind / name / "device").symlink_to("../..")
    return FolderTree(root)


def test_what_is_above_zero_stands_by_its_own_name(tmp_path: Path) -> None:
    part = parse(CountersReader(tree(tmp_path))())
    aer = (("correctable BadTLP", 3),)
    assert part.counters == (
        DeviceCounters(kind=CounterKind.AER, device=NIC, counts=aer),
        DeviceCounters(kind=CounterKind.AER, device=GPU, counts=aer),
        DeviceCounters(kind=CounterKind.RAS, device=GPU, counts=(("umc ue", 1), ("umc ce", 12))),
        DeviceCounters(
            kind=CounterKind.RDMA,
            device="mlx5_2",
            port=1,
            address=NIC,
            counts=(("symbol_error", 17), ("out_of_sequence", 5)),
        ),
        DeviceCounters(
            kind=CounterKind.NET, device="eth2", address=NIC, counts=(("carrier_down_count", 4),)
        ),
    )


def test_a_counter_is_read_again_and_a_file_that_went_is_left_out(tmp_path: Path) -> None:
    reader = CountersReader(tree(tmp_path))
    reader()
    ports = tmp_path / "sys/bus/pci/devices" / NIC / "infiniband/mlx5_2/ports/1/counters"
    (ports / "symbol_error").write_text("18\n")
    (tmp_path / "sys/bus/pci/devices" / GPU / "ras/umc_err_count").unlink()
    looks = [parse(reader()) for _ in range(WHOLE_READS)]
    found = {one.kind: one.named for one in looks[-1].counters or ()}
    assert found[CounterKind.RDMA]["symbol_error"] == 18
    assert CounterKind.RAS not in found


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    assert parse(CountersReader(FolderTree(tmp_path))()).counters == ()


def test_odd_answers_are_no_counters() -> None:
    files = {"aer_dev_fatal": "DLP many\n\nTOTAL_ERR_FATAL 2", "aer_dev_nonfatal": {"error": "no"}}
    raw = {
        "aer": {GPU: files, "../etc": {"aer_dev_fatal": "DLP 1"}, NIC: "none"},
        "rdma": {"mlx5_0": {"ports": {"1": {"symbol_error": "-3"}, "x": {}}}, "mlx5_1": None},
        "net": {"eth0": {"path": None, "carrier_down_count": "9" * 60}},
    }
    found = parse(raw).counters or ()
    assert [(one.device, one.counts) for one in found] == [
        (GPU, (("fatal errors", 2),)),
        ("mlx5_0", ()),
        ("eth0", ()),
    ]


def test_a_counter_means_something() -> None:
    aer = meaning(CounterKind.AER, "correctable BadTLP")
    assert aer is not None
    assert aer.what == "corrected PCIe errors (BadTLP)"
    ras = meaning(CounterKind.RAS, "umc ue")
    assert ras is not None
    assert ras.what == "uncorrected errors in UMC"
    cnp = meaning(CounterKind.RDMA, "np_cnp_sent")
    assert cnp is not None
    assert (cnp.trouble, cnp.news) == (CountedTrouble.CONGESTION, False)
    assert meaning(CounterKind.RDMA, "multicast_rcv_packets") is None


# What each driver's port calls its bytes: file sent, file received, bytes in one count.
PORTS = {
    "mlx5_2": ("counters/port_xmit_data", "counters/port_rcv_data", 4),
    "efa_0": ("hw_counters/tx_bytes", "hw_counters/rx_bytes", 1),
    "bnxt_re0": ("hw_counters/tx_bytes", "hw_counters/rx_bytes", 1),
    "ionic_0": ("hw_counters/tx_rdma_ucast_bytes", "hw_counters/rx_rdma_ucast_bytes", 1),
}


def carrying(root: Path, seconds: int) -> None:
    """Each port sends 20 GB and receives 10 GB a second; an interface of its own 1 MB each way."""
    for place, (name, (sent, received, scale)) in enumerate(PORTS.items()):
        device = root / f"sys/devices/pci0000:00/0000:0{place + 1}:00.0"
        port, net = device / f"infiniband/{name}/ports/1", device / f"net/eth{place}"
        files = {
            port / sent: 20 * 10**9 * seconds // scale,
            port / received: 10 * 10**9 * seconds // scale,
            net / "statistics/tx_bytes": 10**6 * seconds,
            net / "statistics/rx_bytes": 10**6 * seconds,
        }
        for path, count in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{5 + count}\n")
        for kind, called in (("infiniband", name), ("net", f"eth{place}")):
            link = root / "sys/class" / kind / called
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(Path("../../..") / (device / kind / called).relative_to(root))
                (device / kind / called / "device").symlink_to("../..")


def test_what_ports_carry_is_known_from_the_second_look_on(tmp_path: Path) -> None:
    reader = CountersReader(FolderTree(tmp_path), lambda: seconds)
    seconds = 0
    carrying(tmp_path, seconds)
    first = Readings(counters=parse(reader()).counters)
    assert first.nic("mlx5_2") == (None, None)
    seconds = 2
    carrying(tmp_path, seconds)
    now = Readings(counters=parse(reader()).counters)
    for place, name in enumerate(PORTS):
        for called in (name, f"0000:0{place + 1}:00.0"):
            assert now.nic(called) == (20e9, 10e9), called
        assert now.nic(f"eth{place}") == (1e6, 1e6)
    assert now.nic("mlx5_9") == (None, None)


def test_a_counter_that_began_anew_tells_no_rate(tmp_path: Path) -> None:
    reader = CountersReader(FolderTree(tmp_path), lambda: seconds)
    seconds = 0
    for at, told, rate in ((0, 100, None), (2, 3, None), (4, 5, 20e9), (5, 5, 0.0)):
        seconds = at
        carrying(tmp_path, told)
        assert Readings(counters=parse(reader()).counters).nic("efa_0")[0] == rate


def test_all_counters_are_read_once_in_many_looks(tmp_path: Path) -> None:
    carrying(tmp_path, 1)
    reader = CountersReader(FolderTree(tmp_path), lambda: seconds)
    seen = []
    for seconds in range(WHOLE_READS + 1):
        carrying(tmp_path, seconds)
        (port,) = (one for one in parse(reader()).counters or () if one.device == "efa_0")
        seen.append(port.named["tx_bytes"])
    assert seen == [*[5] * WHOLE_READS, 5 + 20 * 10**9 * WHOLE_READS]


@pytest.mark.parametrize("pair", [[1], "12", [-1, "x"], [True, None], [1e300, -0.1], {"0": 1}])
def test_odd_rates_are_not_known(pair: Any) -> None:
    raw = {"rdma": {"mlx5_2": {"ports": {"1": {}}}}, "rates": {"rdma": {"mlx5_2": {"1": pair}}}}
    (found,) = parse(raw).counters or ()
    assert (found.tx_bytes_per_second, found.rx_bytes_per_second) == (None, None)


def test_what_a_driver_counts_stands_beside_the_files(tmp_path: Path) -> None:
    found = tree(tmp_path)
    place = tmp_path / "sys/bus/pci/devices" / NIC
    (tmp_path / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True)
    (place / "driver").symlink_to("../../drivers/mlx5_core")
    asked = []

    def statistics(interfaces: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
        asked.append(tuple(interfaces))
        return {"eth2": {"rx_prio3_pause": 7, "tx_prio3_pause": 0}}

    reader = CountersReader(found, begin=lambda: statistics)
    read = parse(reader()).counters
    assert isinstance(read, tuple)
    counts = {(one.kind, one.device): one.named for one in read}
    assert asked == [(("eth2", "mlx5_core"),)]
    asked_for = {"rx_prio3_pause": 7, "tx_prio3_pause": 0}
    assert counts[CounterKind.NET, "eth2"] == {"carrier_down_count": 4, **asked_for}
    assert "driver" not in CountersReader(found)()["net"]["eth2"], "of files alone it asks nothing"
