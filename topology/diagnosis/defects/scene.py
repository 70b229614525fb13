"""What is known of a node or a text, as far as defects ask for it; and which of them fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import msgspec

from ...hardware.specs import BoardLinks, sku_for, table
from ...model.machine import Gpu, Machine
from ...model.surroundings import RdmaKind, Software
from ...model.versions import Product
from .table import COMPARED, Defect, Harm, Trait, defects, reaches

FABRICS = {
    RdmaKind.INFINIBAND: Trait.INFINIBAND, RdmaKind.ROCE: Trait.ROCE, RdmaKind.EFA: Trait.EFA,
}  # fmt: skip
SOFTWARE = {
    Product.NCCL: "nccl",
    Product.RCCL: "rccl",
    Product.NVIDIA: "nvidia_driver",
    Product.CUDA_DRIVER: "cuda_driver",
    Product.AMDGPU: "amd_driver",
    Product.ROCM: "rocm",
    Product.PYTORCH: "torch",
}
"""Products of which a snapshot holds the version, and its field."""
WORST_FIRST = tuple(Harm)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What is known; what is not in it is unknown."""

    versions: Mapping[Product, tuple[str, ...]] = {}
    traits: Mapping[Trait, bool] = {}
    gpus: tuple[str, ...] = ()
    """Compute capabilities, "sm90"."""
    models: tuple[str, ...] = ()
    """Names of GPUs."""
    settings: Mapping[str, str] = {}
    """Variables that are known to be set; others may be."""

    def has(self, defect: Defect) -> bool | None:
        """Whether the versions that are here have a defect; False where none is known."""
        return _all(defect.has(version) for version in self.versions.get(defect.product, ()))

    def fits(self, defect: Defect) -> bool | None:
        """Whether all else that a defect asks for is true; None where something is not known."""
        return _all(self.conditions(defect), none=True)

    def rules_out(self, defect: Defect) -> bool:
        """Whether something that is known contradicts a defect."""
        return self.has(defect) is False or self.fits(defect) is False

    def conditions(self, defect: Defect) -> Iterator[bool | None]:
        """Whether each thing that a defect asks for is true; None where that is not known."""
        if defect.only:
            yield None
        if defect.gpu:
            yield _any(defect.gpu, self.gpus)
        if defect.model:
            named = (word for word in defect.model if any(word in name for name in self.models))
            yield _any(defect.model, tuple(named) or self.models)
        yield from map(self.traits.get, defect.needs)
        if defect.one_of:
            known = [*map(self.traits.get, defect.one_of)]
            yield True if True in known else (None if None in known else False)
        yield from map(self._beside, defect.beside)
        if defect.set:
            yield self._sets(defect.set) or None
        if defect.avoided:
            yield not self._sets(defect.avoided)

    def _sets(self, wanted: Iterable[str]) -> bool:
        return any(
            name in self.settings and (not equals or self.settings[name] == value)
            for name, equals, value in (one.partition("=") for one in wanted)
        )

    def _beside(self, wanted: str) -> bool | None:
        match = COMPARED.fullmatch(wanted)
        assert match is not None, wanted
        product, how, number = match.groups()
        there = self.versions.get(Product(product), ())
        reached = _all((reaches(one, (number,)) for one in there), none=None)
        return reached if how == ">=" or reached is None else not reached


def _all(answers: Iterable[bool | None], none: bool | None = False) -> bool | None:
    """Whether all are true; `none` where there is no answer at all."""
    known = list(answers)
    if not known:
        return none
    return False if False in known else (None if None in known else True)


def _any(wanted: tuple[str, ...], here: tuple[str, ...]) -> bool | None:
    return None if not here else bool(set(wanted) & set(here))


def fitting(scene: Scene) -> dict[Product, list[Defect]]:
    """The defects that versions here have and of which all else is true, the worst first."""
    found: dict[Product, list[Defect]] = {}
    for defect in _worst_first():
        if defect.product in scene.versions and scene.has(defect) and scene.fits(defect):
            found.setdefault(defect.product, []).append(defect)
    return found


@cache
def _worst_first() -> tuple[Defect, ...]:
    return tuple(sorted(defects(), key=lambda one: WORST_FIRST.index(one.harm)))


def of_machine(machine: Machine, settings: Mapping[str, str]) -> Scene:
    """What a node is and has installed."""
    gpus = machine.gpus
    software = machine.software or Software()
    versions: dict[Product, tuple[str, ...]] = {
        product: (str(version),)
        for product, field in SOFTWARE.items()
        if (version := getattr(software, field)) is not None
    }
    host = machine.host
    if host is not None and host.kernel is not None:
        versions[Product.LINUX] = (host.kernel,)
    if firmware := tuple({nic.firmware for nic in machine.rdma if nic.firmware is not None}):
        versions[Product.FIRMWARE] = firmware
    loaded = {one.name: one.version for one in host.modules} if host is not None else {}
    if efa := loaded.get("efa"):
        versions[Product.EFA] = (efa,)
    return Scene(
        versions=versions,
        traits=dict(_traits(machine)),
        gpus=tuple({arch for gpu in gpus if (arch := architecture(gpu))}),
        models=tuple({gpu.name for gpu in gpus if gpu.name}),
        settings=settings,
    )


def architecture(gpu: Gpu) -> str:
    """The name of a GPU's instruction set, "sm90" or "gfx942"; "" where nobody says it."""
    capability, sku = gpu.compute_capability, sku_for(gpu)
    if capability is None and sku is not None:
        capability = table("specs")["sku"][sku.name].get("compute_capability")
    if not capability:
        return ""
    return capability if capability.startswith("gfx") else f"sm{capability.replace('.', '')}"


def _traits(machine: Machine) -> Iterator[tuple[Trait, bool]]:
    """Each trait of which a node tells whether it is true."""
    gpus, host = machine.gpus, machine.host
    fabrics = [FABRICS.get(nic.kind) for nic in machine.rdma if nic.kind is not None]
    if fabrics:
        yield from ((trait, trait in fabrics) for trait in FABRICS.values())
    if gpus:
        yield Trait.SEVERAL_GPUS, len(gpus) > 1
        yield Trait.MANY_GPUS, len(gpus) > 2
        yield Trait.MIXED_GPUS, len({gpu.name for gpu in gpus}) > 1
        skus = [sku_for(gpu) for gpu in gpus]
        if None not in skus:
            kinds = {sku.fabric for sku in skus if sku is not None}
            yield Trait.WITHOUT_NVLINK, kinds == {BoardLinks.NONE}
            yield Trait.NVSWITCH, kinds == {BoardLinks.SWITCHED}
            yield Trait.C2C, any(sku.c2c_gbs for sku in skus if sku is not None)
        fabric = [gpu.fabric for gpu in gpus if gpu.fabric is not None]
        if fabric:
            yield Trait.MNNVL, any(_joins_hosts(one.cluster_uuid) for one in fabric)
    if machine.in_vm is not None:
        yield Trait.VIRTUAL, machine.in_vm
    if host is not None and host.container is not None:
        yield Trait.CONTAINER, host.container.kind is not None
    if host is not None and host.architecture is not None:
        yield Trait.ARM, host.architecture == "aarch64"
    if host is not None and host.cpu_vendor is not None:
        yield Trait.AMD_CPU, host.cpu_vendor == "AuthenticAMD"


def _joins_hosts(cluster: str | None) -> bool:
    """Whether a cluster of the fabric is named: only those over several hosts have a number."""
    return bool(cluster) and any(letter not in "0-" for letter in cluster or "")
