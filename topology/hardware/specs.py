"""GPU models: data sheets and measured figures, each with its source.

The tables are read at first use, so that the first screen does not wait a hundredth of a second for
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from ..model.machine import Gpu
from ..model.severity import FigureBasis, Word
from ..plugins import PLUGINS, Plugin, PluginGroup, PluginRefused
from ..toml import tomllib

FOLDER = Path(__file__).parent
GOOD, LOOK = 0.95, 0.85
"""Shares of the healthy figure: a measurement is good above the first, low below the second."""
MOST_NAMES = 512
"""Names of GPUs whose model is remembered; they come from drivers, files and pasted texts."""


class PublishedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One published figure of a model."""

    quantity: str
    kind: FigureBasis
    measured: float
    fraction: float | None
    """Measured / peak of the data sheet; None where the two cannot be compared."""
    unit: str
    note: str = ""
    source: str = ""
    peak: float | None = None
    """The peak that `fraction` refers to."""
    per_device: bool = False
    """Whether it is the figure of one device of a package that shows up as several (MI250X: one
    GCD)."""
    gpus: int | None = None
    """Number of GPUs of a collective."""
    algorithm: str = ""
    """NCCL's name for a collective's; "P2P" without one, "" where the source does not say."""
    curve: tuple[tuple[int, float], ...] = ()
    """Message size in bytes and busbw, from small to large, as one run gave them."""
    from_bytes: int | None = None
    """Smallest message that a collective's figure without a curve stands for; None: 1 GiB."""
    mkn: tuple[int, int, int] | None = None
    """M, K, N of a GEMM of this one shape."""


class PciePair(msgspec.Struct, frozen=True, kw_only=True):
    """Bandwidth that a pair of GPUs reached over PCIe, by relation."""

    relations: tuple[str, ...]
    """Letters of `nvidia-smi topo -m`."""
    gen: int
    width: int
    figure: PublishedFigure
    least: float | None = None
    """Lowest and highest share of the line rate where the CPUs of machines differ."""
    most: float | None = None


class BoardLinks(Word):
    """How the fast links of a board lead from GPU to GPU."""

    SWITCHED = "switched"
    POINT_TO_POINT = "point_to_point"
    BRIDGE = "bridge"
    NONE = "none"


WIRED = (BoardLinks.SWITCHED, BoardLinks.POINT_TO_POINT)
"""Boards that always have all their links; on those of BRIDGE one may not be fitted."""


class Sku(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU model. Rates are GB/s of payload, one way."""

    name: str
    vendor: str
    fabric: BoardLinks
    pcie_gen: int
    pcie_width: int
    link_count: int | None = None
    link_gbs: float | None = None
    total_gbs: float | None = None
    pair_gbs: float | None = None
    """The most that one pair can carry when nothing else runs."""
    figures: tuple[PublishedFigure, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    source: str = ""
    link_kind: str = "none"
    """"nvlink4", "xgmi-32", ..., "none"."""
    tflops: dict[str, float] = {}
    """Dense peaks of one device by type, TFLOP/s (int8: TOPS); of one GCD where a package is two.
    The keys are explained at the head of specs.toml."""
    hbm_gbs: float | None = None
    """Peak of the memory bus of one device, GB/s."""
    tdp_watts: float | None = None
    world_size: int | None = None
    """GPUs in one domain of fast links."""
    devices: int = 1
    """GPUs that one package shows as (MI250X: two GCDs)."""
    c2c_gbs: float | None = None
    """Bandwidth to the CPU over NVLink-C2C, one way."""
    memory_gb: float | None = None
    """Memory of the whole package as it is sold, GB; None where no source confirms it."""
    peak_clock_mhz: float | None = None
    """Highest clock of the SMs or CUs, MHz; None where no source confirms it."""

    @property
    def full_mesh(self) -> bool:
        """Whether each GPU is known to have a bundle of links of its own to every other GPU."""
        mesh = self.fabric is BoardLinks.POINT_TO_POINT and self.world_size is not None
        return mesh and 0 < self.links_always == (self.world_size or 0) - 1

    @property
    def links_always(self) -> int:
        """The links that each GPU of such a board has; 0 where some may not be fitted or known."""
        sure = self.fabric in WIRED and "link_count" not in self.unconfirmed
        return (self.link_count or 0) if sure else 0

    def figure(self, quantity: str) -> PublishedFigure | None:
        """Pick what to expect: the typical figure, else the best; a pass line is no expectation."""
        return next(iter(self.expected(quantity)), None)

    def expected(self, quantity: str) -> list[PublishedFigure]:
        """What to expect of a quantity: typical figures first, then the best ones."""
        return [
            figure
            for kind in (FigureBasis.TYPICAL, FigureBasis.BEST)
            for figure in self.figures
            if figure.quantity == quantity and figure.kind is kind
        ]


@cache
def table(name: str) -> dict[str, Any]:
    """Read one table: "specs", "links" or "nodes"."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def skus() -> dict[str, Sku]:
    """Return all models by name, with the figures that plugins add."""
    added = PLUGINS.of(PluginGroup.FIGURES, _accept)
    return _with(added) if added else own_skus()


@cache
def own_skus() -> dict[str, Sku]:
    """Return all models by name, as specs.toml has them."""
    sources = table("specs")["sources"]
    return {name: _sku(name, facts, sources) for name, facts in table("specs")["sku"].items()}


@cache
def _with(added: tuple[tuple[str, PublishedFigure], ...]) -> dict[str, Sku]:
    models = dict(own_skus())
    for name, figure in added:
        figures = (*models[name].figures, figure)
        models[name] = msgspec.structs.replace(models[name], figures=figures)
    return models


def _accept(plugin: Plugin, thing: Any) -> Iterator[tuple[str, PublishedFigure]]:
    """Figures of a plugin: name of a model -> rows as specs.toml has them; ours stay."""
    for name, rows in dict(thing).items():
        if name not in own_skus():
            PLUGINS.refuse(plugin, f"no model {str(name)[:40]!r}")
            continue
        known = {(one.quantity, one.gpus, one.algorithm) for one in own_skus()[name].figures}
        for row in rows:
            figure = _figure(row, {})
            if (figure.quantity, figure.gpus, figure.algorithm) in known:
                PLUGINS.refuse(plugin, f"{name} has {figure.quantity} already, which stays")
                continue
            figure = msgspec.convert(msgspec.to_builtins(figure), PublishedFigure)
            if not figure.source or not math.isfinite(figure.measured) or figure.measured <= 0:
                raise PluginRefused(f"{figure.quantity} needs a source and a figure above 0")
            yield name, msgspec.structs.replace(figure, source=f"{figure.source} ({plugin})")


@cache
def pcie_pairs() -> tuple[PciePair, ...]:
    """Return what pairs of GPUs reached over PCIe."""
    specs = table("specs")
    return tuple(
        PciePair(
            relations=tuple(item["relations"]),
            gen=item["gen"],
            width=item["width"],
            figure=_figure(item, specs["sources"]),
            least=item.get("least"),
            most=item.get("most"),
        )
        for item in specs["pcie_pair"]
    )


def sku_for(gpu: Gpu) -> Sku | None:
    """Find the model of a GPU by its name, else by its PCI id.

    None when that is ambiguous, or when the two stand for different models.
    """
    return _match(_name(gpu), gpu.pci_id)


def two_models(gpu: Gpu) -> bool:
    """Whether the name of a GPU stands for one model, and its PCI id for another."""
    return _differ(_name(gpu), gpu.pci_id)


def _name(gpu: Gpu) -> str:
    return " ".join((gpu.name or "").split())


def _named(name: str) -> set[str]:
    specs = table("specs")
    for item in specs["ambiguous"]:
        if re.search(item["name_pattern"], name, re.I):
            return set(item["candidates"])
    return {
        sku
        for sku, facts in specs["sku"].items()
        # A topology file names its GPUs after this table where the machine has no pci.ids.
        if name == sku or any(re.search(pattern, name, re.I) for pattern in facts["name_patterns"])
    }


def _of_id(pci_id: str | None) -> set[str]:
    every = table("specs")["sku"]
    return {sku for sku, facts in every.items() if pci_id in facts.get("pci_ids", ())}


@lru_cache(MOST_NAMES)
def _differ(name: str, pci_id: str | None) -> bool:
    named, ids = _named(name), _of_id(pci_id)
    sure = any("pci_ids" not in skus()[sku].unconfirmed for sku in ids)
    return bool(named) and sure and not named & ids


def _unlisted(pci_id: str | None) -> str:
    """What lspci prints for a model that its list of names lacks."""
    return f"Device {(pci_id or '').partition(':')[2]}"


def _match(name: str, pci_id: str | None) -> Sku | None:
    matched = _matched(name, pci_id)
    return None if matched is None else skus()[matched]


@lru_cache(MOST_NAMES)
def _matched(name: str, pci_id: str | None) -> str | None:
    found = _named(name)
    if len(found) > 1:
        found &= _of_id(pci_id)
    # "GH100 [H100 SXM5 80GB]" is the id written out by pci.ids; other names are a driver's own.
    elif not found and (not name or name.endswith("]") or name == _unlisted(pci_id)):
        found = _of_id(pci_id)
    return found.pop() if len(found) == 1 and not _differ(name, pci_id) else None


def _sku(name: str, facts: dict[str, Any], sources: dict[str, str]) -> Sku:
    return Sku(
        name=name,
        vendor=facts["vendor"],
        fabric=BoardLinks(facts["fabric"]),
        pcie_gen=facts["pcie_gen"],
        pcie_width=facts["pcie_width"],
        link_count=facts.get("link_count"),
        link_gbs=facts.get("link_gbps_per_direction_each"),
        total_gbs=facts.get("link_total_gbps_per_direction"),
        pair_gbs=facts.get("p2p_pair_gbps_per_direction"),
        figures=tuple(_figure(item, sources) for item in facts["realistic"]),
        unconfirmed=tuple(facts.get("unconfirmed", ())),
        source=facts["source"],
        link_kind=facts["link_kind"],
        tflops=_tflops(facts),
        hbm_gbs=facts.get("per_device", facts).get("hbm_gbps"),
        tdp_watts=facts.get("tdp_w"),
        world_size=facts.get("world_size"),
        devices=facts.get("enumerates_as", 1),
        c2c_gbs=facts.get("c2c_gbps_per_direction"),
        memory_gb=_confirmed(facts, "memory_gb"),
        peak_clock_mhz=_confirmed(facts, "peak_clock_mhz"),
    )


def _confirmed(facts: dict[str, Any], name: str) -> float | None:
    return None if name in facts.get("unconfirmed", ()) else facts.get(name)


def _tflops(facts: dict[str, Any]) -> dict[str, float]:
    whole: dict[str, float] = facts.get("tflops", {})
    part = facts.get("per_device")
    return whole if part is None else {key: part[key] for key in whole if key in part}


def _figure(item: dict[str, Any], sources: dict[str, str]) -> PublishedFigure:
    cited = [
        sources.get(piece.split()[0], piece).split(" (")[0] for piece in item["source"].split("; ")
    ]
    return PublishedFigure(
        quantity=item["quantity"],
        kind=FigureBasis(item["kind"]),
        measured=item["measured"],
        fraction=item.get("fraction"),
        unit=item["unit"],
        note=item.get("note", ""),
        source="; ".join(cited),
        peak=item.get("peak"),
        per_device=item.get("per_device", False),
        gpus=item.get("gpus"),
        algorithm=item.get("algorithm", ""),
        curve=tuple((size, float(value)) for size, value in item.get("curve", ())),
        from_bytes=item.get("from_bytes"),
        mkn=tuple(item["mkn"]) if "mkn" in item else None,
    )
