"""The series of one node. A value that nobody read has no sample: it is never 0.

Names of DCGM's exporter stand where it has one, with its unit: those of etc/default-counters.csv up
to version 4.8, on which dashboards are built (4.9 renames some and changes their units). All other
names begin with gputop_.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ..diagnosis.case import Case
from ..diagnosis.engine import Diagnosis
from ..expectation.cost.costs import costs_of
from ..jobs.standing import JobState
from ..model.machine import Gpu
from ..model.readings import EccCounts, GpuReading
from ..model.severity import JobVerdict, Severity, Verdict
from ..node import Node
from ..wiring.codes import has_a_row
from .family import Labels, MetricFamily, MetricSample, SeriesKind

GAUGE, COUNTER = SeriesKind.GAUGE, SeriesKind.COUNTER
MIB = 2**20
MOST_WITH_UUID = 64
"""On a node of more GPUs a series has the number of its GPU alone; gputop_gpu_info has the UUID."""
MOST_PAIRS = 16
"""GPUs of a node whose pairs have a series each."""
MOST_FINDINGS, MOST_JOBS = 100, 50

Read = Callable[[Gpu, GpuReading], "float | None"]


def _ecc(field: str) -> Read:
    def read(_: Gpu, now: GpuReading) -> float | None:
        return None if now.ecc is None else _plain(getattr(now.ecc, field))

    assert field in EccCounts.__struct_fields__
    return read


def _of_links(field: str) -> Read:
    def read(_: Gpu, now: GpuReading) -> float | None:
        known = [count for link in now.nvlinks if (count := getattr(link, field)) is not None]
        return sum(known) if known else None

    return read


def _plain(value: float | bool | None) -> float | None:
    return None if value is None else float(value)


def _mib(value: int | None) -> float | None:
    return None if value is None else value // MIB


DCGM: tuple[tuple[str, SeriesKind, str, Read], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", GAUGE, "SM clock frequency (in MHz).", lambda _, r: r.clock_sm_mhz),
    ("DCGM_FI_DEV_MEM_CLOCK", GAUGE, "Memory clock frequency (in MHz).",
     lambda _, r: r.clock_memory_mhz),
    ("DCGM_FI_DEV_GPU_TEMP", GAUGE, "GPU temperature (in C).", lambda _, r: r.temperature_c),
    ("DCGM_FI_DEV_MEMORY_TEMP", GAUGE, "Memory temperature (in C).",
     lambda _, r: r.temperature_memory_c),
    ("DCGM_FI_DEV_POWER_USAGE", GAUGE, "Power draw (in W).", lambda _, r: r.power_watts),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", GAUGE, "Power limit (in W).",
     lambda gpu, _: gpu.power_limit_watts),
    ("DCGM_FI_DEV_GPU_UTIL", GAUGE, "GPU utilization (in %).",
     lambda _, r: r.utilization_percent),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", GAUGE, "Memory utilization (in %).",
     lambda _, r: r.memory_utilization_percent),
    ("DCGM_FI_DEV_FB_USED", GAUGE, "GPU memory used (in MiB).",
     lambda _, r: _mib(r.memory_used_bytes)),
    ("DCGM_FI_DEV_FB_FREE", GAUGE, "GPU memory free (in MiB).",
     lambda _, r: _mib(r.memory_free_bytes)),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", COUNTER, "PCIe retries.", lambda _, r: r.pcie_replays),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", COUNTER, "Errors that ECC corrected since the driver loaded.",
     _ecc("corrected_volatile")),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", COUNTER,
     "Errors that ECC could not correct since the driver loaded.", _ecc("uncorrected_volatile")),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", COUNTER,
     "Rows of memory remapped for correctable errors.", _ecc("rows_remapped_corrected")),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", COUNTER,
     "Rows of memory remapped for uncorrectable errors.", _ecc("rows_remapped_uncorrected")),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", GAUGE, "Whether remapping of rows has failed.",
     _ecc("remap_failed")),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", COUNTER, "NVLink retries, all links.",
     _of_links("replay_errors")),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", COUNTER, "NVLink recoveries, all links.",
     _of_links("recovery_errors")),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", COUNTER, "NVLink CRC errors, all links.",
     _of_links("crc_errors")),
)  # fmt: skip
"""Name, kind, help, and the value of a GPU; of GPUs of every vendor."""
LINK_ERRORS = {"replay": "replay_errors", "recovery": "recovery_errors", "crc": "crc_errors"}


class NodeSeries:
    """The families of one node; `jobs`: None where nobody asked where they stand."""

    def __init__(
        self, node: Node, diagnosis: Diagnosis, jobs: tuple[JobState, ...] | None = None
    ) -> None:
        self.node, self.diagnosis, self.jobs = node, diagnosis, jobs
        self.gpus = [gpu for gpu in node.machine.gpus if has_a_row(gpu)]
        self._labels = {gpu.address: self._of(gpu) for gpu in self.gpus}
        self._read = [
            (self._labels[gpu.address], gpu, now)
            for gpu in self.gpus
            if (now := node.reading(gpu.address)) is not None and not now.lost
        ]

    def families(self) -> tuple[MetricFamily, ...]:
        """All families, those without a sample left out."""
        made = (
            *self._verdict(),
            self._ages(),
            *self._info(),
            *self._dcgm(),
            *self._links(),
            *self._pairs(),
            *self._of_jobs(),
        )
        return tuple(family for family in made if family.samples)

    def _of(self, gpu: Gpu) -> Labels:
        number = (("gpu", self.node.devices.name(gpu.address).removeprefix("GPU")),)
        if gpu.uuid is None or len(self.gpus) > MOST_WITH_UUID:
            return number
        return (*number, ("UUID", gpu.uuid))

    def _gpu_name(self, address: str) -> str:
        return self.node.devices.name(address)

    def _verdict(self) -> Iterator[MetricFamily]:
        found, snapshot = self.diagnosis, self.node.snapshot
        yield _gauge(
            "gputop_verdict",
            "1 for the verdict that gputop check --quick gives, 0 for the others.",
            (((("verdict", one.value),), one is found.verdict) for one in Verdict),
        )
        counted = Counter(one.severity for one in found.findings)
        yield _gauge(
            "gputop_findings",
            "How many findings the node has, by how harmful they are.",
            (((("severity", one.value),), counted[one]) for one in Severity),
        )
        told = [
            (one, self._gpu_name(device) if device else "")
            for one in found.findings
            if one.severity.counts
            for device in one.devices or ("",)
        ]
        yield _gauge(
            "gputop_finding",
            "1 for each harmful finding and device; gputop rule ID explains it.",
            (
                ((("id", one.id), ("severity", one.severity.value), ("device", device)), 1)
                for one, device in dict.fromkeys(told[:MOST_FINDINGS])
            ),
        )
        yield _gauge("gputop_checks", "How many checks had their evidence.", [((), found.checks)])
        yield _gauge(
            "gputop_read_timestamp_seconds",
            "When the node was read, seconds since the epoch.",
            [((), snapshot.taken_at)],
        )

    def _ages(self) -> MetricFamily:
        return _gauge(
            "gputop_source_age_seconds",
            "Age of the last answer of each source when the node was read.",
            (
                ((("source", state.source),), state.age_seconds)
                for state in self.node.snapshot.states
                if state.age_seconds is not None
            ),
        )

    def _info(self) -> Iterator[MetricFamily]:
        snapshot, machine = self.node.snapshot, self.node.machine
        software, host = machine.software, machine.host
        versions = {
            "gputop": snapshot.gputop,
            "driver": software and (software.nvidia_driver or software.amd_driver),
            "nccl": software and software.nccl,
            "rccl": software and software.rccl,
            "kernel": host and host.kernel,
            "source": "" if snapshot.is_live else " ".join(snapshot.source),
        }
        known = tuple((name, value) for name, value in versions.items() if value)
        yield _gauge("gputop_node_info", "1, with the versions of the node.", [(known, 1)])
        yield _gauge(
            "gputop_gpu_info",
            "1 for each GPU, with what does not change.",
            ((self._known(gpu), 1) for gpu in self.gpus),
        )
        yield _gauge(
            "gputop_gpu_lost",
            "1 where the driver answered before and now says that the GPU is gone.",
            (
                (self._labels[gpu.address], now.lost)
                for gpu in self.gpus
                if (now := self.node.reading(gpu.address)) is not None
            ),
        )

    def _known(self, gpu: Gpu) -> Labels:
        rest = {"UUID": gpu.uuid, "pci_bus_id": gpu.address, "model": gpu.name}
        more = tuple((name, value) for name, value in rest.items() if value)
        return (self._labels[gpu.address][0], *more, ("vendor", gpu.vendor))

    def _dcgm(self) -> Iterator[MetricFamily]:
        for name, kind, told, read in DCGM:
            samples = (
                MetricSample(labels, float(value))
                for labels, gpu, now in self._read
                if (value := read(gpu, now)) is not None
            )
            yield MetricFamily(name, kind, told, tuple(samples))
        yield _gauge(
            "gputop_gpu_throttled",
            "1 for each reason that holds the clocks of a GPU down.",
            (
                ((*labels, ("reason", reason)), 1)
                for labels, _, now in self._read
                for reason in now.throttle_reasons or ()
            ),
        )

    def _links(self) -> Iterator[MetricFamily]:
        devices = self.node.devices
        wired = [gpu for gpu in self.gpus if gpu.nvlinks or gpu.xgmi]
        yield _gauge(
            "gputop_gpu_links_up",
            "NVLinks or xGMI links of a GPU that are up.",
            ((self._labels[gpu.address], _up(gpu)) for gpu in wired),
        )
        yield _gauge(
            "gputop_gpu_links_expected",
            "NVLinks or xGMI links of a GPU that should be up, by its model and its siblings.",
            ((self._labels[gpu.address], devices.links_most(gpu)) for gpu in wired),
        )
        yield MetricFamily(
            "gputop_nvlink_errors_total",
            COUNTER,
            "Errors of one NVLink since the driver loaded; a link that never had one is left out.",
            tuple(
                MetricSample((*labels, ("link", str(link.link)), ("kind", kind)), count)
                for labels, _, now in self._read
                for link in now.nvlinks
                for kind, field in LINK_ERRORS.items()
                if (count := getattr(link, field))
            ),
        )

        yield _gauge(
            "gputop_pcie_lanes",
            "Lanes of a device's PCIe link that are trained.",
            self._lanes("link_width_now"),
        )
        yield _gauge(
            "gputop_pcie_lanes_max",
            "Lanes that a device's PCIe link could have.",
            self._lanes("link_width_max"),
        )
        ports = [(nic, port) for nic in self.node.machine.rdma for port in nic.ports]
        yield _gauge(
            "gputop_nic_port_active",
            "1 where the port of a NIC is up.",
            (
                ((("nic", nic.name), ("port", str(port.port))), port.active)
                for nic, port in ports
                if port.state is not None
            ),
        )
        yield _gauge(
            "gputop_nic_port_rate_bytes_per_second",
            "Rate of the port of a NIC, one way.",
            (
                ((("nic", nic.name), ("port", str(port.port))), port.rate_gbit * 1e9 / 8)
                for nic, port in ports
                if port.rate_gbit is not None
            ),
        )

    def _lanes(self, field: str) -> Iterator[tuple[Labels, float]]:
        machine = self.node.machine
        nics = [nic.address for nic in machine.rdma if nic.address]
        for address in dict.fromkeys((*(gpu.address for gpu in self.gpus), *nics)):
            device = self.node.devices.pci(address)
            lanes = None if device is None else getattr(device, field)
            if lanes:
                yield (("device", self._gpu_name(address)),), lanes

    def _pairs(self) -> Iterator[MetricFamily]:
        prediction = self.node.prediction
        if prediction is None:
            return
        pairs = [pair for pair in prediction.pairs if pair.src < pair.dst]
        counted = Counter((pair.path, pair.transport) for pair in pairs)
        yield _gauge(
            "gputop_pairs",
            "Pairs of GPUs, by NCCL's or RCCL's path and by the transport that it takes.",
            (
                ((("path", path), ("transport", transport)), count)
                for (path, transport), count in sorted(counted.items())
            ),
        )
        few = pairs if len(self.gpus) <= MOST_PAIRS else []
        yield _gauge(
            "gputop_pair_p2p",
            "1 where the library takes P2P between two GPUs, 0 where it takes another way.",
            (((("src", self._number(pair.src_bus_id)), ("dst", self._number(pair.dst_bus_id))),
              pair.p2p) for pair in few),
        )  # fmt: skip
        cost = costs_of(self.node).all_reduce
        sides = () if cost is None else (("healthy", cost.healthy), ("here", cost.here))
        yield _gauge(
            "gputop_all_reduce_bytes_per_second",
            "Bus bandwidth of an all-reduce of 1 GiB over all GPUs: on a healthy node, and here.",
            (
                ((("side", side), ("basis", str(cost.basis))), value * 1e9)
                for side, value in sides
                if value is not None and cost is not None
            ),
        )

    def _number(self, address: str) -> str:
        return self._gpu_name(address).removeprefix("GPU")

    def _of_jobs(self) -> Iterator[MetricFamily]:
        if self.jobs is None:
            return
        counted = Counter(job.verdict for job in self.jobs)
        yield _gauge(
            "gputop_jobs",
            "Jobs on the GPUs, by where they stand.",
            (((("verdict", one.value),), counted[one]) for one in JobVerdict),
        )
        kept = self.jobs[:MOST_JOBS]
        yield _gauge(
            "gputop_job_verdict",
            "1 for each job, with where it stands.",
            (((("job_name", job.name), ("verdict", job.verdict.value)), 1) for job in kept),
        )
        yield _gauge(
            "gputop_job_quiet_seconds",
            "For how long NCCL's RAS saw nothing launched in any communicator of a job.",
            (((("job_name", job.name),), job.quiet_seconds) for job in kept
             if job.quiet_seconds is not None),
        )  # fmt: skip


def _up(gpu: Gpu) -> int:
    return len(gpu.nvlinks_up) or sum(link.active is True for link in gpu.xgmi)


def _gauge(name: str, told: str, values: Iterable[tuple[Labels, float]]) -> MetricFamily:
    """A family of gauges; of equal labels the first value counts, as no two may be alike."""
    known: dict[Labels, float] = {}
    for labels, value in values:
        known.setdefault(labels, float(value))
    return MetricFamily(name, GAUGE, told, tuple(MetricSample(*one) for one in known.items()))


def series(
    case: Case, diagnosis: Diagnosis, jobs: tuple[JobState, ...] | None = None
) -> tuple[MetricFamily, ...]:
    """The families of a node that was judged."""
    return NodeSeries(case.node, diagnosis, jobs).families()
