"""Known defects of the versions that a text names."""

from __future__ import annotations

from gputop.topology.diagnosis.defects.table import Defect, defects
from gputop.topology.diagnosis.defects.words import ID
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.known_defects import of_log, with_defects
from gputop.topology.diagnosis.symptoms.log import symptoms
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.model.severity import NOTICE, Sureness
from gputop.topology.model.versions import Product
from tests.tables import hold

from ..defects.test_scene import held
from ..defects.test_table import below

UNHEARD = ("defects", "with_defects", "symptoms", "of_log", "known_signs", "read_log")

NAMED = {
    Product.NCCL: "NCCL version {}",
    Product.RCCL: "RCCL version {}",
    Product.NVIDIA: "Nvidia driver version: {}",
    Product.CUDA_DRIVER: "| NVIDIA-SMI x CUDA Version: {} |",
    Product.CUDA: "CUDA runtime version: {}",
    Product.FABRIC_MANAGER: "Fabric Manager version is : {}",
    Product.CONTAINER_TOOLKIT: "NVIDIA Container Toolkit CLI version {}",
    Product.NVSHMEM: "NVSHMEM v{}",
    Product.LINUX: "Linux version {}-60-generic (root@n1)",
    Product.ROCM: "ROCm version: {}",
    Product.AWS_OFI_NCCL: "n:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl {}",
    Product.FIRMWARE: "Firmware version: {}",
    Product.LIBFABRIC: "n:1:2 [0] NCCL INFO NET/OFI Using Libfabric version {}",
    Product.UCX: "UCX version {}",
    Product.NIXL: "nixl=={}",
    Product.PYTORCH: "PyTorch version: {}",
    Product.VLLM: "vLLM Version : {}",
    Product.SGLANG: "sglang=={}",
}
"""A line that names a version of each product."""


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines], signs=known_signs(), outputs=True)


def text_of(row: Defect) -> list[str]:
    """A text with the version, and the message behind it."""
    version = row.since or below(row.fixed[0])
    others = [NAMED[product].format(number) for product, number in map(held, row.beside)]
    return [NAMED[row.product].format(version), *others, *row.shown]


def candidates(log: LogReport) -> list[str]:
    """The possible causes by message that are known defects."""
    found = symptoms(log)[0]
    causes = [one.cause for finding in found for one in finding.candidates]
    return [cause for cause in causes if cause.startswith("A known defect of ")]


def test_every_message_names_its_defect_where_the_version_has_it() -> None:
    def check(row: Defect) -> None:
        causes = candidates(read(*text_of(row)))
        assert any(row.what in cause for cause in causes), causes
        named = row.fixed[-1] if row.fixed else below(row.since)
        later = [NAMED[row.product].format(named), *text_of(row)[1:]]
        assert not any(row.what in cause for cause in candidates(read(*later)))
        assert not candidates(read(*row.shown)), "no version is named"

    hold(check, [row for row in defects() if row.shown], lambda row: row.id)


def test_a_defect_is_one_of_the_possible_causes_of_its_line() -> None:
    row = next(one for one in defects() if one.id == "nccl-blackwell-shared-memory")
    log = read(NAMED[Product.NCCL].format("2.25.1"), row.shown[0])
    (finding,) = [one for one in symptoms(log)[0] if one.candidates]
    assert finding.id == "kernel-launch-refused"
    assert finding.sureness is Sureness.POSSIBLE
    assert finding.candidates[0].fix[0].text == "Use NCCL 2.26.2 or later."
    assert len(finding.candidates) == 2


def test_a_version_that_may_be_of_before_the_defect_or_after_is_no_cause() -> None:
    row = next(one for one in defects() if one.id == "ofi-topology-group-size")
    assert row.fixed == ("1.21.0",)
    for version, known in (("1.20.0", 1), ("1.21", 0), ("1.21.0", 0)):
        log = read(NAMED[row.product].format(version), *row.shown)
        assert len(candidates(log)) == known, version


def test_a_line_that_a_run_survived_has_no_cause() -> None:
    row = next(one for one in defects() if one.id == "nccl-blackwell-shared-memory")
    size = "       8192          2048     float     sum      -1    10.0    0.82    1.43      0"
    log = read(NAMED[Product.NCCL].format("2.25.1"), row.shown[0], *[size] * 4)
    assert not [one for one in symptoms(log)[0] if one.id == ID and one.severity.counts]


def test_a_version_alone_is_a_notice_where_all_that_it_needs_is_in_the_text() -> None:
    said = "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>"
    log = read("n1:1:2 [0] NCCL INFO NCCL version 2.20.3+cuda12.3", said)
    (notice,) = with_defects((), log)
    assert (notice.id, notice.severity, notice.sureness) == (ID, NOTICE, Sureness.POSSIBLE)
    assert "ECE" in notice.title
    assert notice.evidence[0].line == 1
    assert not with_defects((), read("NCCL version 2.20.3+cuda12.3"))


def test_what_outputs_of_tools_say_of_the_node_counts() -> None:
    scene = of_log(
        read("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)")
    )
    assert scene.gpus == ("sm90",)
