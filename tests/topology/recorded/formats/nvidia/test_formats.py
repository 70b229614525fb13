"""What `nvidia-smi` prints, as recordings: the XML of -q -x and the matrix of topo -m."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputop.topology.model.format import FormatError
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.formats.nvidia.smi import full_xml as smi_xml
from gputop.topology.recorded.formats.nvidia.smi import topo as smi_topo
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "hgx-h200-4gpu-vm"
XML = FOLDER / "nvidia-smi-q.xml"
TOPO = FOLDER / "nvidia-smi-topo-m.txt"

# Written down by hand: two GPUs on two sockets, a NIC beside each, tabs as the tool prints them.
WITH_NICS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tSYS\tPIX\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tSYS\t X \tSYS\tPXB\t56-111,168-223\t1\t\t4\n"
    "NIC0\tPIX\tSYS\t X \tNODE\t\t\t\t\n"
    "NIC1\tSYS\tPXB\tNODE\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_1\n\n"
)
OLD = (
    "        GPU0    GPU1    mlx5_0  CPU Affinity\n"
    "GPU0     X      NV2     PHB     0-19,40-59\n"
    "GPU1    NV2      X      SOC     0-19,40-59\n"
    "mlx5_0  PHB     SOC      X \n"
)


def xml(data: bytes) -> PartialNode:
    assert smi_xml.FORMAT.recognises(data[:65536], XML)
    return smi_xml.FORMAT.parse(data, XML)


def topo(text: str) -> PartialNode:
    assert smi_topo.FORMAT.recognises(text.encode()[:65536], TOPO)
    return smi_topo.FORMAT.parse(text.encode(), TOPO)


def test_the_xml_of_the_recording() -> None:
    part = xml(XML.read_bytes())
    assert [gpu.address for gpu in part.gpus] == [f"0000:00:0{n}.0" for n in (6, 7, 8, 9)]
    assert [gpu.index for gpu in part.gpus] == [0, 1, 2, 3]
    for gpu in part.gpus:
        assert (gpu.name, gpu.architecture, gpu.pci_id) == ("NVIDIA H200", "Hopper", "10de:2335")
        assert gpu.memory_bytes == 143771 * 2**20
        assert (gpu.pcie_gen_max, gpu.pcie_width_max) == (5, 16)
        assert (gpu.power_limit_watts, gpu.power_limit_min_watts) == (700.0, 200.0)
        assert (gpu.ecc_enabled, gpu.mig_enabled, gpu.c2c_enabled) == (True, False, False)
        assert gpu.fabric is not None
        assert (gpu.fabric.state, gpu.fabric.status) == ("completed", "Success")
        assert "T.Limit" in str(gpu.why("temperature_shutdown_c"))
        assert gpu.why("nvlinks") == "not in nvidia-smi -q -x"
    reading = part.gpu_readings[0]
    assert (reading.power_watts, reading.temperature_c, reading.temperature_memory_c) == (
        80.13,
        32,
        35,
    )
    assert reading.throttle_reasons == ("gpu idle",)
    assert reading.ecc is not None
    assert (reading.ecc.corrected_volatile, reading.ecc.corrected_aggregate) == (0, 1)
    assert reading.ecc.why("pages_retired_single") == "nvidia-smi prints N/A"
    assert reading.processes == ()
    assert part.software is not None
    assert (part.software.nvidia_driver, part.software.cuda_driver) == ("580.159.04", "13.0")


def test_an_older_driver_prints_other_names() -> None:
    part = xml(
        b'<?xml version="1.0"?><nvidia_smi_log><driver_version>470.57</driver_version>'
        b"<attached_gpus>8</attached_gpus>"
        b'<gpu id="00000000:3B:00.0"><product_name>Tesla V100</product_name>'
        b"<power_readings><power_draw>55.10 W</power_draw><power_limit>300.00 W</power_limit>"
        b"</power_readings><temperature><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>"
        b"</temperature><clocks_throttle_reasons>"
        b"<clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>"
        b"</clocks_throttle_reasons><ecc_errors><volatile><single_bit><total>3</total>"
        b"</single_bit></volatile></ecc_errors><processes><process_info><pid>42</pid>"
        b"<type>M+C</type><process_name>[red]x</process_name><used_memory>12 MiB</used_memory>"
        b"</process_info></processes></gpu></nvidia_smi_log>"
    )
    gpu, reading = part.gpus[0], part.gpu_readings[0]
    assert (gpu.address, gpu.index) == ("0000:3b:00.0", None)  # one of eight: which is not told
    assert (gpu.power_limit_watts, gpu.temperature_shutdown_c) == (300.0, 90)
    assert (reading.power_watts, reading.throttle_reasons) == (55.1, ("sw power cap",))
    assert reading.ecc is not None
    assert reading.ecc.corrected_volatile == 3
    assert reading.processes is not None
    assert [(p.pid, p.kind, p.memory_bytes) for p in reading.processes] == [
        (42, "mps", 12 * 2**20),
        (42, "compute", 12 * 2**20),
    ]


def test_mig_devices_of_the_xml() -> None:
    part = xml(
        b'<nvidia_smi_log><gpu id="00000000:3B:00.0"><mig_mode><current_mig>Enabled</current_mig>'
        b"</mig_mode><mig_devices><mig_device><index>1</index><gpu_instance_id>7</gpu_instance_id>"
        b"<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>9856 MiB</total>"
        b"</fb_memory_usage></mig_device></mig_devices></gpu></nvidia_smi_log>"
    )
    (instance,) = part.gpus[0].mig_instances
    assert (instance.index, instance.gpu_instance, instance.compute_instance) == (1, 7, 0)
    assert instance.memory_bytes == 9856 * 2**20


BOMB = (
    b'<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    b"<nvidia_smi_log>&b;</nvidia_smi_log>"
)
FETCH = (
    b'<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    b"<nvidia_smi_log>&x;</nvidia_smi_log>"
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<nvidia_smi_log>", "not XML"),
        (b"<nvidia_smi_log><gpu></nvidia_smi_log>", "not XML"),
        (b"<other/>", "no <nvidia_smi_log>"),
        (b"\x00\x01\x02", "not XML"),
        (b"", "not XML"),
        (b'<?xml version="1.0" encoding="no-such"?><nvidia_smi_log/>', "not XML"),
        (BOMB, "refused"),
        (FETCH, "refused"),
        (b"<nvidia_smi_log>" + b"<a>" * 100_000, "nested deeper"),
        (b"<nvidia_smi_log>" + b"<a/>" * 500_001, "elements"),
        (b"<nvidia_smi_log>" + b" " * (16 * 2**20), "bytes; the limit"),
        (XML.read_bytes()[:5000], "not XML"),
    ],
    ids=["open", "crossed", "other", "binary", "empty", "encoding", "bomb", "fetch", "deep",
         "many", "huge", "truncated"],
)  # fmt: skip
def test_bad_xml_is_refused_with_a_reason(data: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        smi_xml.FORMAT.parse(data, XML)
    assert "\n" not in str(caught.value)


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(FormatError) as caught:
        smi_xml.FORMAT.parse(b"<nvidia_smi_log>\n<gpu>\n</wrong>\n</nvidia_smi_log>", XML)
    assert caught.value.line == 3


def test_the_matrix_of_the_recording() -> None:
    part = smi_topo.FORMAT.parse(TOPO.read_bytes(), TOPO)
    assert [(gpu.address, gpu.index) for gpu in part.gpus] == [
        (f"topo:GPU{n}", n) for n in range(4)
    ]
    assert {(gpu.cpu_affinity, gpu.memory_affinity) for gpu in part.gpus} == {("0-63", (0,))}
    assert part.gpus[0].why("gpu_numa_id") == "nvidia-smi prints N/A"
    assert part.gpus[0].why("memory_bytes") == "not in nvidia-smi topo -m"
    assert len(part.pairs) == len(part.relations) == 12
    assert {pair.nvlinks_reported for pair in part.pairs} == {18}
    assert {relation.code for relation in part.relations} == {"NV18"}
    assert part.pairs[0].ancestor is None
    assert "NV18" in str(part.pairs[0].why("ancestor"))


def test_nics_come_under_their_rdma_names() -> None:
    part = topo(WITH_NICS)
    assert [device.name for device in part.rdma] == ["mlx5_0", "mlx5_bond_1"]
    letters = {(relation.a, relation.b): relation.code for relation in part.relations}
    assert letters["topo:GPU0", "mlx5_0"] == letters["mlx5_0", "topo:GPU0"] == "PIX"
    assert letters["topo:GPU1", "mlx5_bond_1"] == "PXB"
    assert letters["mlx5_0", "mlx5_bond_1"] == "NODE"
    assert [(pair.ancestor, pair.nvlinks_reported) for pair in part.pairs] == [("system", 0)] * 2
    assert part.gpus[0].cpu_affinity == "0-55,112-167"
    assert [(gpu.memory_affinity, gpu.gpu_numa_id) for gpu in part.gpus] == [
        ((0,), None),
        ((1,), 4),
    ]


def test_the_matrix_of_an_old_driver() -> None:
    part = topo(OLD)
    assert [device.name for device in part.rdma] == ["mlx5_0"]
    assert part.gpus[0].cpu_affinity == "0-19,40-59"
    assert part.gpus[0].memory_affinity is None
    letters = {(relation.a, relation.b): relation.code for relation in part.relations}
    assert letters["topo:GPU1", "mlx5_0"] == "SYS"  # SOC is what old drivers call it
    assert part.pairs[0].nvlinks_reported == 2


def test_without_a_legend_a_nic_keeps_its_column_name() -> None:
    part = topo(WITH_NICS.partition("NIC Legend")[0])
    assert [(nic.name, nic.why("name")) for nic in part.rdma] == [
        ("NIC0", "the text has no NIC legend"),
        ("NIC1", "the text has no NIC legend"),
    ]


def test_the_other_matrices_of_nvidia_smi_are_not_taken_for_it() -> None:
    grants = b" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"
    assert not smi_topo.FORMAT.recognises(grants, TOPO)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("nothing here", "no header", None),
        (OLD.replace("NV2", "NV99999"), "cell", 2),
        (OLD.replace(" X ", " OK", 1), "cell", 2),
        ("\n".join(OLD.splitlines()[:2]), "no row", None),
        (OLD.replace("NV2     PHB     0-19,40-59", "NV2"), "of 3 cells", 2),
        (OLD.replace("GPU1    mlx5_0", "GPU0    mlx5_0", 1), "two columns", 1),
        (OLD + "GPU0     X      NV2     PHB\n", "two rows", 5),
        (OLD.replace("mlx5_0  CPU", "\x07[red]  CPU"), "not the name", 1),
    ],
    ids=["none", "links", "diagonal", "truncated", "short row", "columns", "rows", "hostile"],
)
def test_a_bad_matrix_is_refused_with_the_line(text: str, words: str, line: int | None) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        smi_topo.FORMAT.parse(text.encode(), TOPO)
    assert caught.value.line == line


WORDS = st.sampled_from(
    ["GPU0", "GPU1", "NIC0", "CPU Affinity", "X", "NV18", "PIX", "N/A", "0-63", "NIC0: a", "\n",
     "\t", "\x1b[4m", "9-1", "0-99999", "GPU0\tGPU1\tCPU Affinity\n"]
)  # fmt: skip


@given(st.lists(WORDS | st.text(max_size=5), max_size=40).map(" ".join) | st.text())
@example(WITH_NICS)
@example("GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X 0-99999 9-1 99999")
def test_any_text_gives_a_part_or_a_format_error(text: str) -> None:
    with contextlib.suppress(FormatError):
        part = smi_topo.FORMAT.parse(text.encode("utf-8", "replace"), TOPO)
        assert msgspec.json.encode(part)


TAGS = st.sampled_from(
    ["gpu", "fabric", "state", "processes", "process_info", "pid", "type", "ecc_errors", "pci",
     "volatile", "sram_correctable", "fb_memory_usage", "total", "mig_devices", "mig_device",
     "temperature", "gpu_temp", "performance_state", "uuid", "utilization", "gpu_util"]
)  # fmt: skip
TEXTS = st.sampled_from(
    ["", "N/A", "12 MiB", "-1", "9" * 30, "Enabled", "P0", "1e9 W", "[b]", "5 %"]
)
ELEMENTS = st.recursive(
    TEXTS,
    lambda inner: st.tuples(TAGS, st.lists(inner, max_size=3)).map(
        lambda pair: f"<{pair[0]}>{''.join(pair[1])}</{pair[0]}>"
    ),
    max_leaves=15,
)


@given(st.lists(ELEMENTS, max_size=6))
def test_any_xml_gives_a_part_or_a_format_error(children: list[str]) -> None:
    text = f'<nvidia_smi_log><gpu id="0:1:0.0">{"".join(children)}</gpu></nvidia_smi_log>'
    assert msgspec.json.encode(smi_xml.FORMAT.parse(text.encode(), XML))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_part_or_a_format_error(data: bytes) -> None:
    for form in (smi_xml.FORMAT, smi_topo.FORMAT):
        for content in (data, b"<nvidia_smi_log>" + data):
            with contextlib.suppress(FormatError):
                assert isinstance(form.parse(content, XML), PartialNode)
