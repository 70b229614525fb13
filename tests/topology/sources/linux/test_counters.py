"""Counters of the kernel: what is above 0 of each device, and only what was asked."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.hardware.counters import CountedTrouble, meaning
from gputop.topology.model.readings import CounterKind, DeviceCounters
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux.counters import CountersReader, parse

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
    found = {one.kind: one.named for one in parse(reader()).counters or ()}
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
