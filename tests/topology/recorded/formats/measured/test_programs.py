"""Programs that measure, beyond those of NCCL and the P2P matrix: what is read of their outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.snapshot import DataVerdict, NodeSnapshot
from gputop.topology.recorded.load import LoadError, load
from gputop.topology.recorded.pasted import read_pasted

ROCM = """
          RocmBandwidthTest Version: 2.6.0
          Launch Command is: rocm-bandwidth-test (rocm_bandwidth -a + rocm_bandwidth -A)

          Device: 0,  AMD EPYC 7542 32-Core Processor
          Device: 1,  Radeon RX 7900 XTX,  GPU-XX,  83:0.0
          Device: 2,  Radeon RX 7900 XTX,  GPU-XX,  03:0.0

          Inter-Device Access
          D/D       0         1         2
          0         1         1         1
          1         1         1         0
          2         1         0         1

          Inter-Device Numa Distance
          D/D       0         1         2
          0         0         20        20
          1         20        0         N/A
          2         20        N/A       0

          Unidirectional copy peak bandwidth GB/s
          D/D       0           1           2
          0         N/A         28.4        28.3
          1         29.0        649.5       N/A
          2         29.1        N/A         636.4
"""
BANDWIDTH_TEST = """
[CUDA Bandwidth Test] - Starting...
Running on...

 Device 0: NVIDIA GeForce RTX 3090
 Quick Mode

 Host to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)\tBandwidth(GB/s)
   32000000\t\t\t6.3

 Device to Host Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)\tBandwidth(MB/s)
   33554432\t\t\t6600.5

 Device to Device Bandwidth, 1 Device(s)
 PINNED Memory Transfers
   Transfer Size (Bytes)\tBandwidth(GB/s)
   32000000\t\t\t786.5

Result = PASS
"""
NVBANDWIDTH = """
Running host_to_device_memcpy_sm.
memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     35.19     35.25

Running device_local_copy.
memcpy local GPU(column) bandwidth (GB/s)
           0         1
 0   2084.43   2081.40

Running all_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     21.50     21.70

Running device_to_device_memcpy_read_ce.
 Invalid value when checking the pattern at 0x735f80000000
 Current offset : 200064
"""
PERFTEST = """
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Mtu             : 1024[B]
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0127 PSN 0x7b1
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11700.00            11650.00\t\t   0.186400
---------------------------------------------------------------------------------------
                    RDMA_Read Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_1
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 2       1000          1.70           4.20         1.75              1.77            0.05
"""
IPERF = """
Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  10.9 GBytes  9.36 Gbits/sec    0             sender
[  5]   0.00-10.04  sec  10.9 GBytes  9.32 Gbits/sec                  receiver
iperf Done.
"""
MAMF = """
/usr/bin/python3 ./mamf-finder.py --m_range 0 20480 256
** Dtype: torch.bfloat16
** Platform/Device info:
- _CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0, total_memory=81116MB)
The best outcome was 792.1TFLOPS @ 2048x1024x13312 (MxNxK) (tried 79200 shapes)
"""
DASHES = """
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0     -   25.10
     1  25.00     -
"""
H2D, D2H = "h2d_bandwidth", "d2h_bandwidth"


def read(text: str, folder: Path) -> NodeSnapshot:
    (folder / "paste.txt").write_text(text)
    return load([str(folder / "paste.txt")]).snapshot


@pytest.mark.parametrize(
    ("text", "names", "figures"),
    [
        (
            ROCM,
            ["Radeon RX 7900 XTX"] * 2,
            [
                ("can_access", None, "not-granted"),
                ("can_access", None, "not-granted"),
                (H2D, 28.4, None),
                (H2D, 28.3, None),
                (D2H, 29.0, None),
                (D2H, 29.1, None),
            ],
        ),
        (
            BANDWIDTH_TEST,
            ["NVIDIA GeForce RTX 3090"],
            [(H2D, 6.3, None), (D2H, 6.6005, None), ("memory_copy", 786.5, None)],
        ),
        (
            NVBANDWIDTH,
            [],
            [
                ("host_to_device_memcpy_sm", 35.19, None),
                ("host_to_device_memcpy_sm", 35.25, None),
                ("memory_copy", 2084.43, None),
                ("memory_copy", 2081.4, None),
                ("all_to_host_memcpy_ce", 21.5, None),
                ("all_to_host_memcpy_ce", 21.7, None),
                ("device_to_device_memcpy_read_ce", None, "wrong-data"),
            ],
        ),
        (
            PERFTEST,
            [],
            [
                ("rdma_write_bandwidth", 11650 * 1.048576 / 1000, None),
                ("rdma_read_latency", 1.75, None),
            ],
        ),
        (IPERF, [], [("tcp_bandwidth", 9.32 / 8, None)]),
        (MAMF, ["NVIDIA H100 80GB HBM3"], [("gemm", 792.1, None)]),
        (DASHES, [], [("write_bandwidth", 25.1, None), ("write_bandwidth", 25.0, None)]),
    ],
    ids=["rocm", "bandwidthTest", "nvbandwidth", "perftest", "iperf3", "mamf", "dashes"],
)
def test_the_figures_of_a_program(
    text: str, names: list[str], figures: list[tuple[str, float | None, str | None]], tmp_path: Path
) -> None:
    snapshot = read(text, tmp_path)
    assert [gpu.name for gpu in snapshot.machine.gpus] == names
    said = [(one.quantity, one.value, one.verdict) for one in snapshot.measurements]
    assert [(what, verdict) for what, _, verdict in said] == [(what, v) for what, _, v in figures]
    assert [value for _, value, _ in said] == [
        value if value is None else pytest.approx(value) for _, value, _ in figures
    ]
    assert all("pasted" in one.details for one in snapshot.measurements)


@pytest.mark.parametrize("text", [ROCM, BANDWIDTH_TEST, NVBANDWIDTH, PERFTEST, IPERF, MAMF, DASHES])
def test_a_cut_output_is_read_or_refused_in_one_line(text: str, tmp_path: Path) -> None:
    for end in range(0, len(text), 41):
        why = ""
        try:
            read(f"some words\n{text[:end]}", tmp_path)
        except LoadError as error:
            why = str(error)
        assert "\n" not in why


OLD_ACCESS = """\
          RocmBandwidthTest Version: 2.0.1

          Device: 0,  Intel(R) Core(TM) i7-6900K CPU @ 3.20GHz
          Device: 1,  Vega 10 [Radeon PRO WX 8100],  0d:0.0
          Device: 2,  Vega 10 [Radeon PRO WX 8100],  07:0.0

          Device Access

          D/D       0         1         2

          0         1         1         1

          1         1         1         0

          2         1         0         1

          Device Numa Distance

          D/D       0         1         2

          0         0         N/A       N/A
"""


def test_an_old_release_of_rocms_test_tells_who_may_access_whom() -> None:
    found = read_pasted(OLD_ACCESS.encode(), "text")
    assert found is not None
    gpus, measured = found.snapshot.machine.gpus, found.snapshot.measurements
    assert {gpu.vendor for gpu in gpus} == {"amd"}
    assert {one.verdict for one in measured} == {DataVerdict.NOT_GRANTED}
