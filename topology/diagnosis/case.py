"""Case: one node as the rules see it. What several rules need is worked out once."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..expectation.judge import Judge
from ..expectation.judgement import Judgement
from ..expectation.reference import Reference
from ..hardware.specs import Sku
from ..hardware.terms import VendorTerms, terms_of
from ..hardware.vendors import AMD
from ..jobs.grouping import GpuUser, gpu_users
from ..model import quantities
from ..model.gathered import gathered_by
from ..model.machine import Gpu, GpuPair, PciDevice, PciKind
from ..model.readings import GpuReading, ProcessReading
from ..model.record import NOT_ASKED, Record
from ..model.snapshot import DataVerdict, Measurement, NodeSnapshot, ProblemKind
from ..model.surroundings import Host
from ..nccl.prediction import Prediction
from ..node import Node
from ..sources.collect import ONLY_PCI
from ..wiring.relations import RelationMatrix
from .device_access import GIVEN, KEPT, access, keeps_back
from .pairs import Pair, pairs_of
from .policy import Policy
from .rule import NotRead, Rule, address_of

_GVISOR = "4.4.0"
"""The kernel that gVisor says it is."""
_MANY = 3
"""More GPUs than these are counted, not named."""
BY_NUMBER = "topo:"
"""How the stand-in for an address begins where a text names GPUs by number alone."""
ENVIRONMENT = "environment"
"""Origin of a variable that a process has, not a file."""


class Case:
    """What is examined. Everything is read from the node; nothing here asks the machine."""

    def __init__(
        self,
        node: Node,
        *,
        earlier: NodeSnapshot | None = None,
        reference: Reference | None = None,
        policy: Policy | None = None,
        gpus: Sequence[str] = (),
        prediction: Prediction | None = None,
    ) -> None:
        """Examine a node, of which only `gpus` count: PCI addresses, () for all.

        `earlier`: a reading of the same node, for counters; `reference`: what the node should be;
        `prediction`: of these GPUs, instead of the node's.
        """
        self.node = node
        self.devices = node.devices
        self.snapshot = node.snapshot
        self.machine = node.snapshot.machine
        self.readings = node.snapshot.readings
        self.earlier = earlier
        self.reference = reference
        self.policy = policy or Policy()
        self._chosen = frozenset(gpus)
        self._prediction = prediction

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs to examine, by address.

        GPUs that a container or a job was not given are left out, though its /sys shows them.
        """
        served = {gpu.vendor for gpu in self.machine.gpus if gpu.why("uuid") != ONLY_PCI}
        return tuple(
            gpu
            for gpu in self.machine.gpus
            if (not self._chosen or gpu.address in self._chosen)
            and not (gpu.vendor in served and gpu.why("uuid") == ONLY_PCI and self._withheld(gpu))
        )

    def _withheld(self, gpu: Gpu) -> bool:
        """Whether this process may have been kept from a GPU that only PCI shows."""
        if gpu.vendor == AMD.id and any(
            problem.source == "kfd" and problem.kind == ProblemKind.DENIED
            for problem in self.snapshot.problems
        ):
            return True  # KFD says so itself where the devices of a process are fewer
        reach = access(self.host, gpu)
        return reach == KEPT or (reach != GIVEN and self.may_hide_devices)

    @cached_property
    def host(self) -> Host:
        """The host; an empty record if none was read."""
        return self.machine.host or Host()

    @cached_property
    def words(self) -> VendorTerms:
        """What texts call the library and the links of these GPUs."""
        return terms_of(self.gpus)

    @property
    def prediction(self) -> Prediction | None:
        """What NCCL or RCCL will do, where it was predicted."""
        return self._prediction or self.node.prediction

    @cached_property
    def on_node(self) -> bool:
        """Whether gputop itself asked the node; texts of other programs tell what they print."""
        source = self.snapshot.source
        demo = bool(source) and source[0].startswith("demo ")
        return source == ("live",) or demo or bool(self.snapshot.states)

    @property
    def variables_read(self) -> bool:
        """Whether somebody looked for variables: the output of a tool has none."""
        with_variables = any(process.variables for process in self.readings.processes)
        return self.on_node or bool(self.snapshot.environment) or with_variables

    @property
    def chosen(self) -> bool:
        """Whether the user picked some of the GPUs."""
        return bool(self._chosen)

    @property
    def matrix(self) -> RelationMatrix:
        """The relations of `nvidia-smi topo -m`."""
        return self.node.matrix

    @cached_property
    def variables(self) -> dict[str, tuple[str, str]]:
        """Name of a listed variable: its value and its origin ("environment" or a file)."""
        return {
            variable.name: (variable.value, variable.origin)
            for variable in self.snapshot.environment
        }

    @property
    def in_container(self) -> bool | None:
        """Whether this is a container; None where nobody looked."""
        container = self.host.container
        return None if container is None else container.kind is not None

    @property
    def may_hide_devices(self) -> bool:
        """Whether this process may have been given some of the devices: a container or a job.

        Slurm's ConstrainDevices and its like hide GPUs from the driver's library, not from /sys. A
        GPU that a cgroup withholds shows that, whoever made the cgroup.
        """
        container = self.host.container
        known = container is not None and (container.kind or container.job) is not None
        return known or keeps_back(self.host)

    @property
    def under_windows(self) -> bool:
        """Whether this is WSL2, where Windows keeps the GPU and lends it."""
        return "microsoft" in (self.host.kernel or "").lower()

    @property
    def busless(self) -> bool:
        """Whether no GPU can be on this kernel's PCI: Windows, or the host of gVisor, keeps it."""
        kernel = self.host.kernel or ""
        keeps = self.under_windows or "gvisor" in kernel.lower() or kernel == _GVISOR
        return keeps and not any(device.kind is PciKind.GPU for device in self.machine.pci)

    @property
    def in_vm(self) -> bool | None:
        """Whether this is a virtual machine; None where that is not known."""
        return self.machine.in_vm

    def threshold(self, rule: Rule, name: str) -> float:
        """A limit of a rule: the site's, else the rule's own. KeyError if it has no such limit."""
        own = dict(rule.thresholds)[name]
        return self.policy.thresholds.get(rule.id, {}).get(name, own)

    def name(self, device: str | Gpu) -> str:
        """The name of a device, by its address: "GPU3", "mlx5_0", else its address."""
        return self.devices.name(address_of(device))

    def names(self, devices: Iterable[str | Gpu]) -> str:
        """The names of devices in one phrase: "GPU0, GPU1 and GPU3"."""
        return self.devices.names([address_of(device) for device in devices])

    def all_or_names(self, devices: Sequence[str]) -> str:
        """The names of GPUs, or their number where it is all of many: "all 8 GPUs"."""
        every = _MANY < len(devices) == len(self.gpus)
        return f"all {len(devices)} GPUs" if every else self.names(devices)

    def having(self, *fields: str) -> list[Gpu]:
        """The examined GPUs of which all these fields are known; NotRead where there is none."""
        gpus = self.gpus
        known = [gpu for gpu in gpus if all(getattr(gpu, field) is not None for field in fields)]
        if not known:
            gaps = (gpu.why(field) for gpu in gpus for field in fields)
            raise NotRead(f"gpu.{fields[0]}", next(filter(None, gaps), NOT_ASKED))
        return known

    def known(self, path: str) -> Any:
        """A field that has to be known: "host.asked_as_root"; NotRead where it is not."""
        name, _, field = path.partition(".")
        record: Record | None = getattr(self.machine, name)
        value = getattr(record, field, None)
        if value is None:
            raise NotRead(path, (record.why(field) if record is not None else None) or NOT_ASKED)
        return value

    @cached_property
    def read(self) -> tuple[tuple[Gpu, GpuReading], ...]:
        """The examined GPUs that have a reading, each with it."""
        return tuple((gpu, now) for gpu in self.gpus if (now := self.reading(gpu)) is not None)

    @cached_property
    def source(self) -> str:
        """Where the node was read from, in words."""
        return ", ".join(self.snapshot.source)

    def reading(self, gpu: Gpu) -> GpuReading | None:
        """The reading of one GPU: what changes from moment to moment."""
        return self.node.reading(gpu.address)

    def earlier_reading(self, gpu: Gpu) -> GpuReading | None:
        """The earlier reading of a GPU; None without one, or where another GPU was in its place."""
        if self.earlier is None:
            return None
        before = self.earlier.machine.gpu(gpu.address)
        if before is None or before.uuid != gpu.uuid:
            return None
        return self.earlier.readings.gpu(gpu.address)

    def sku(self, gpu: Gpu) -> Sku | None:
        """The model; None where it is not in the table or the GPU is a part of one."""
        return self.devices.sku(gpu)

    def pci(self, address: str) -> PciDevice | None:
        """One PCI function."""
        return self.devices.pci(address)

    def iommu_types(self, addresses: Iterable[str]) -> dict[str, str]:
        """How the IOMMU treats each of these PCI functions, as far as it is known."""
        found = ((address, self.pci(address)) for address in addresses)
        return {
            address: pci.iommu_type
            for address, pci in found
            if pci is not None and pci.iommu_type is not None
        }

    def way_up(self, address: str) -> tuple[PciDevice, ...]:
        """The device and the bridges above it, up to its root port; () where no tree was read."""
        return self.devices.way_up(address)

    def above(self, address: str) -> frozenset[str]:
        """Addresses of the bridges above a device."""
        known = self._above.get(address)
        if known is None:
            known = frozenset(device.address for device in self.way_up(address)[1:])
            self._above[address] = known
        return known

    def figures(self, quantity: str, variant: str | None = None) -> tuple[Measurement, ...]:
        """Figures of one kind that were measured on the examined GPUs.

        Where nothing lists the GPUs of the node, the numbers in the table of figures name them.
        """
        counted = {gpu.address for gpu in self.gpus}
        if not self.machine.gpus:
            of_kind = self._figures.get(quantity, ())
            ends = (end for figure in of_kind for end in (figure.src, figure.dst) if end)
            counted = {end for end in ends if end.startswith(BY_NUMBER)}
        return tuple(
            figure
            for figure in self._figures.get(quantity, ())
            if (variant is None or figure.variant == variant)
            and all(
                end is None or end in counted for end in (figure.src or None, figure.dst or None)
            )
        )

    @cached_property
    def arrived(self) -> frozenset[tuple[str | None, str | None]]:
        """The ordered pairs whose bytes were written, read and found equal."""
        figures = self.figures(quantities.BYTES_ARRIVE)
        return frozenset((m.src, m.dst) for m in figures if m.verdict == DataVerdict.ARRIVED)

    @cached_property
    def gpu_users(self) -> tuple[GpuUser, ...]:
        """Every process that a driver names, with its GPUs; by PID."""
        return gpu_users(self.readings)

    @cached_property
    def processes(self) -> tuple[tuple[ProcessReading, tuple[Gpu, ...]], ...]:
        """Processes on the examined GPUs, each with its GPUs; none that only the driver knows."""
        on: dict[int, dict[str, Gpu]] = {}
        for gpu in self.gpus:
            reading = self.reading(gpu)
            for process in (reading.processes if reading is not None else None) or ():
                on.setdefault(process.pid, {})[gpu.address] = gpu
        return tuple(
            (process, tuple(on[process.pid].values()))
            for process in self.readings.processes
            if process.pid in on
        )

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair of examined GPUs, in no order."""
        return pairs_of(self)

    @cached_property
    def pairs_from(self) -> Mapping[str, list[GpuPair]]:
        """What drivers say of pairs, by the address of the first GPU."""
        return gathered_by(self.machine.pairs, lambda pair: pair.src)

    @cached_property
    def judged(self) -> tuple[tuple[Measurement, Judgement], ...]:
        """Every figure with its judgement."""
        figures = [
            measurement for measurement in self.snapshot.measurements if not measurement.on_cpu
        ]
        if not figures:
            return ()
        judge = Judge(self.snapshot, self.prediction)
        return tuple(zip(figures, judge.judge(figures), strict=True))

    @cached_property
    def _figures(self) -> dict[str, list[Measurement]]:
        found: dict[str, list[Measurement]] = {}
        for measurement in self.snapshot.measurements:
            if not measurement.on_cpu:
                found.setdefault(measurement.quantity, []).append(measurement)
        return found

    @cached_property
    def _above(self) -> dict[str, frozenset[str]]:
        return {}
