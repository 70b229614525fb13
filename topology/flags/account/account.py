"""One flag explained for one node as an experienced colleague does it, in sections of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from ...hardware.vendors import VENDORS
from ...model import quantities
from ...model.machine import PciKind
from ...model.page import Section
from ...model.snapshot import NodeSnapshot
from ...model.units import sentence
from ...model.versions import Library, numbers
from ...nccl.prediction import Prediction
from ..catalogue.catalogue import Flag
from ..values.fits import fit
from ..values.values import for_library, overridden, read_value, unread
from ..what_if.effects import Comparison, Effect, ranks_of
from ..what_if.in_words import as_predicted, pairs_in_words
from ..what_if.outcomes import outcomes
from ..what_if.study import Study
from .ucx import concerns, gpu_to_gpu


def account(flag: Flag, study: Study) -> tuple[Section, ...]:
    """Say everything about a flag on a node. Makes predictions: not for the event loop."""
    without = study.predict(dict.fromkeys(flag.names))
    library = without.library
    flag = for_library(flag, library)
    closed = unread(flag, library)
    tries = bool(flag.tries) and not closed
    found = study.tries(flag) if tries else ()
    summary, values = outcomes(flag, found, without) if tries else (Section(title=""),) * 2
    what = _what(flag, without, study, closed)
    sections = [summary, what, as_predicted(flag, without), values]
    if flag.set_when:
        sections.append(Section(title="When to set it", paragraphs=(flag.set_when,)))
    sections += [_watch(flag, study.snapshot, without), _unknown(flag, without)]
    if tries and flag.modelled:
        sections.append(_try(flag, found, without))
    if concerns(flag):
        sections.append(gpu_to_gpu(study.snapshot, study.values))
    sections.append(Section(title="Source", paragraphs=(_source(flag, library),)))
    return tuple(section for section in sections if not section.empty)


def plain(flag: Flag, library: Library | None = None) -> tuple[Section, ...]:
    """Describe a flag from the catalogue alone, in the words of a library: NCCL's without one."""
    flag = for_library(flag, library)
    sections = [
        Section(title="What it does", paragraphs=(flag.changes, *_standing(flag, None, ""))),
        Section(title="When to set it", paragraphs=(flag.set_when,) if flag.set_when else ()),
        Section(title="What to watch for", paragraphs=(flag.trap,) if flag.trap else ()),
        Section(title="Source", paragraphs=(_source(flag, library),)),
    ]
    return tuple(section for section in sections if not section.empty)


def _what(flag: Flag, without: Prediction, study: Study, closed: str) -> Section:
    paragraphs = [flag.changes, *_standing(flag, without, closed)]
    names = [name for name in flag.names if name in study.values]
    if not names:
        paragraphs.append("It is not set here.")
    for name in names:
        value = study.values[name]
        held = next((v for v in study.snapshot.environment if v.name == name), None)
        origin = "by --set or in the process"
        if held is not None and held.value == value:
            origin = "in the environment" if held.exported else f"in {held.origin}"
        paragraphs.append(_reading_in_words(flag, name, origin, without, study))
    if closed:
        paragraphs.append(f"On this node: {closed}.")
    return Section(title="What it does", paragraphs=tuple(paragraphs))


def _standing(flag: Flag, prediction: Prediction | None, closed: str) -> tuple[str, ...]:
    """State the values, the default, the versions and other names of a flag."""
    default = flag.default
    where = "Default"
    library = None if prediction is None or not flag.of_library else prediction.library
    if library is not None and not closed:
        default = flag.default_of(library.name, numbers(library.version))
        where = f"Default in {library.name.upper()} {library.version}"
    found = [f"Values: {flag.values}.", f"{where}: {default}."]
    if flag.since or flag.until:
        since = f" since {flag.since}" * bool(flag.since)
        until = f", last by {flag.until}" * bool(flag.until)
        whose = f" by {flag.program.title}" if flag.program else ""
        found.append(f"Versions: read{whose}{since}{until}.")
    if flag.aliases:
        found.append(f"Read under another name too: {', '.join(flag.aliases)}.")
    if not flag.confirmed:
        found.append("Neither source nor documents settle this entry: take it with care.")
    return (" ".join(found),)


def _reading_in_words(flag: Flag, name: str, origin: str, without: Prediction, study: Study) -> str:
    value = study.values[name]
    reading = read_value(flag, value, without.library)
    void = overridden(study.values).get(name)
    text = f"It is set {origin}: {name}={value}."
    fitting = fit(flag, value, study.snapshot)
    if fitting is not None and not reading.ignored:
        text = f"{text} {fitting.sentence}"
    if void:
        return f"{text} It has no effect: {void}."
    if reading.fatal:
        return f"{text} The start fails over it: {reading.why}."
    if reading.ignored:
        return f"{text} It is ignored: {reading.why}."
    return f"{text} Mind: {reading.why}." if reading.why else text


def _watch(flag: Flag, snapshot: NodeSnapshot, without: Prediction) -> Section:
    bullets: list[str] = [flag.trap] if flag.trap else []
    if flag.p2p_level:
        more = {
            (pair.src, pair.dst) for pair in without.pairs if pair.src < pair.dst and not pair.p2p
        }
        bullets += p2p_cautions(snapshot, without, sorted(more))
        if more and not without.library.is_rccl:
            bullets.append(
                "Set it on every rank alike: NCCL does not compare it, and two ranks that "
                "disagree about a pair may hang."
            )
    found = measured(snapshot, without) if flag.kind.of_pairs else ""
    if found:
        bullets.append(found)
    return Section(title="What to watch for", bullets=tuple(bullets))


def _unknown(flag: Flag, without: Prediction) -> Section:
    if not flag.modelled:
        return Section(title="What the prediction does not know")
    bullets = list(without.assumptions)
    if flag.kind.of_pairs:
        beside = ("GPUDirect", "tuning rules")
        bullets = [text for text in bullets if not any(word in text for word in beside)]
        bullets.insert(
            0,
            f"How fast P2P really is between these GPUs: {without.library.name.upper()} counts "
            "with constants for each kind of link and so does the prediction.",
        )
    return Section(
        title="What the prediction does not know",
        bullets=tuple(sentence(text) for text in bullets),
    )


def _try(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> Section:
    """List commands that show the difference on this node; none where no value makes one."""
    title = "Try it"
    moving = [comparison for comparison in found if not comparison.effect.nothing]
    if not moving:
        return Section(title=title)
    best = next((comparison for comparison in moving if _gains(comparison.effect)), moving[-1])
    value = best.changes[0].after
    ranks = len(ranks_of(without))
    run = f"{flag.name}={value} all_reduce_perf -b 1M -e 1G -f 2 -g {ranks}, and once without it"
    if flag.kind.of_networks:
        run = f"{flag.name}={value} all_reduce_perf over two nodes, and once without it"
    if not flag.kind.of_pairs:
        return Section(title=title, bullets=(run,))
    group = best.effect.pairs[0] if best.effect.pairs else None
    src, dst = group.pairs[0] if group else (0, 1)
    return Section(
        title=title,
        bullets=(
            f"gputop probe p2p (writes, for example between {src} and {dst})",
            run,
            f"gputop explain {src} {dst} --set {flag.name}={value}",
        ),
    )


def _gains(effect: Effect) -> bool:
    """Whether pairs start to use P2P."""
    return any(g.after.p2p and not g.before.p2p for g in effect.pairs)


def _source(flag: Flag, library: Library | None) -> str:
    whose, libraries = flag.group.upper(), {vendor.library for vendor in VENDORS}
    if whose not in libraries or any(name in flag.source for name in libraries):
        return flag.source
    if library is not None and library.name in flag.libraries:
        whose = library.name.upper()
    return f"{whose} {flag.source}"


# What speaks for or against more P2P on this node.
def p2p_cautions(
    snapshot: NodeSnapshot, prediction: Prediction, pairs: Iterable[tuple[int, int]]
) -> tuple[str, ...]:
    """Write sentences on the driver's grant, the IOMMU and ACS for the given pairs of ranks."""
    wanted = tuple(pairs)
    if not wanted:
        return ()
    found = [_granted(snapshot, prediction, wanted), _iommu(snapshot), _acs(snapshot)]
    return tuple(text for text in found if text)


def measured(snapshot: NodeSnapshot, prediction: Prediction) -> str:
    """Say what a probe measured between GPUs, by path type; "" when it measured nothing."""
    paths = {(p.src_bus_id.lower(), p.dst_bus_id.lower()): p.path for p in prediction.pairs}
    by_path: dict[str, list[float]] = defaultdict(list)
    basis = ""
    for figure in snapshot.measurements:
        path = paths.get((str(figure.src), str(figure.dst)))
        if figure.quantity == quantities.WRITE and figure.value is not None and path:
            by_path[path].append(figure.value)
            basis = figure.basis
    if not by_path:
        return ""
    rates = ", ".join(
        f"{path} {median(values):.1f} GB/s ({len(values)} directions)"
        for path, values in sorted(by_path.items())
    )
    return f"{basis.capitalize()} here with P2P writes, one way: {rates}."


def _granted(
    snapshot: NodeSnapshot, prediction: Prediction, pairs: tuple[tuple[int, int], ...]
) -> str:
    """Say what the driver grants these pairs."""
    address = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    said = {(pair.src, pair.dst): pair for pair in snapshot.machine.pairs}
    refused: dict[str, list[tuple[int, int]]] = defaultdict(list)
    unknown = 0
    for src, dst in pairs:
        pair = said.get((address.get(src, ""), address.get(dst, "")))
        words = {pair.p2p_read, pair.p2p_write} if pair is not None else {None}
        if None in words:
            unknown += 1
        for word in sorted(str(word) for word in words if word not in (None, "ok"))[:1]:
            refused[word].append((src, dst))
    if refused:
        word, some = max(refused.items(), key=lambda item: len(item[1]))
        return f"The driver refuses P2P for {pairs_in_words(some)} ({word}): no flag changes that."
    if unknown == len(pairs):
        return "Whether the driver grants P2P for these pairs was not asked."
    return "NVML calls P2P possible for these pairs; whether it is fast there it does not say."


def _iommu(snapshot: NodeSnapshot) -> str:
    gpus = {gpu.address for gpu in snapshot.machine.gpus}
    types = {d.iommu_type for d in snapshot.machine.pci if d.address in gpus and d.iommu_type}
    if not types:
        return ""
    if types == {"identity"}:
        return "The IOMMU passes the GPUs' addresses through (identity), as P2P wants it."
    words = ", ".join(sorted(types))
    return (
        f"The IOMMU translates the GPUs' addresses (type {words}): P2P over PCIe may hang, give "
        "wrong data or crawl until the host boots with iommu=pt."
    )


PORTS = (PciKind.ROOT_PORT, PciKind.DOWNSTREAM)


def _acs(snapshot: NodeSnapshot) -> str:
    bridges = [d for d in snapshot.machine.pci if d.kind in PORTS]
    if not bridges:
        return ""
    on = [d for d in bridges if d.acs]
    if on:
        controls = ", ".join(sorted({name for device in on for name in device.acs or ()}))
        return (
            f"ACS is switched on at {len(on)} PCIe ports ({controls}): traffic between GPUs is "
            "sent up to the root port, which slows or breaks P2P below a switch."
        )
    if all(device.acs == () for device in bridges):
        return "ACS is off at every PCIe port, so traffic below a switch stays there."
    return "Whether ACS redirects traffic at the PCIe ports is not readable without root."
