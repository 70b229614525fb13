"""One flag explained for one node as an experienced colleague does it, in sections of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from ...hardware.vendors import VENDORS
from ...model import quantities
from ...model.page import Section
from ...model.snapshot import NodeSnapshot
from ...model.units import sentence
from ...model.versions import Library, numbers
from ...nccl.decide.summary import duration
from ...nccl.prediction import Prediction
from ...nccl.wording import message_size
from ..catalogue.catalogue import Flag
from ..values.fits import fit
from ..values.own_words import for_library
from ..values.values import overridden, read_value, unread
from ..what_if.effects import SIZES, Effect, choice_of, described, named
from ..what_if.in_words import distance, hops_in_words, order_in_words, pairs_in_words, ways
from ..what_if.outcomes import outcomes
from ..what_if.study import Study
from ..what_if.whatif import Comparison

PAIR_KINDS = ("p2p", "shm", "paths")
NET_KINDS = ("net", "gdr", "pxn")

PLACES = {
    "NVL": "joined by NVLink",
    "XGMI": "joined by xGMI",
    "NVB": "joined by NVLink through another GPU",
    "C2C": "joined by C2C",
    "PIX": "behind one PCIe switch",
    "PXB": "behind several PCIe switches",
    "PHB": "on one CPU",
    "SYS": "on two CPUs",
}
"""Path type -> where two GPUs are; "on" a CPU means that their path leads through it."""
CPU = ("PHB", "SYS")


def account(flag: Flag, study: Study) -> tuple[Section, ...]:
    """Say everything about a flag on a node. Makes predictions: not for the event loop."""
    without = study.without(flag)
    library = without.library
    flag = for_library(flag, library)
    closed = unread(flag, library)
    tries = bool(flag.tries) and not closed
    found = study.tries(flag) if tries else ()
    sections = []
    summary = short(flag, found, without) if tries else ""
    if summary:
        sections.append(Section(title="In short", paragraphs=(summary,)))
    sections += [_what(flag, without, study, closed), _here(flag, without)]
    if tries:
        sections.append(outcomes(flag, found, without))
    if flag.set_when:
        sections.append(Section(title="When to set it", paragraphs=(flag.set_when,)))
    sections += [_watch(flag, study.snapshot, without), _unknown(flag, without)]
    if tries and flag.of_library and flag.kind != "none":
        sections.append(_try(flag, found, without))
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
    names = [name for name in (flag.name, *flag.aliases) if name in study.values]
    if not names:
        paragraphs.append("It is not set here.")
    for name in names:
        value = study.values[name]
        held = next((v for v in study.snapshot.environment if v.name == name), None)
        origin = "by --set or in the process"
        if held is not None and held.value == value:
            origin = "in the environment" if held.origin == "environment" else f"in {held.origin}"
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
        since = f"read since {flag.since}" if flag.since else "read"
        until = f", last by {flag.until}" if flag.until else ""
        found.append(f"Versions: {since}{until}.")
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
    fitting = fit(flag.name, value, study.snapshot)
    if fitting is not None and not reading.ignored:
        text = f"{text} {fitting.sentence}"
    if void:
        return f"{text} It has no effect: {void}."
    if reading.fatal:
        return f"{text} The start fails over it: {reading.why}."
    if reading.ignored:
        return f"{text} It is ignored: {reading.why}."
    return f"{text} Mind: {reading.why}." if reading.why else text


def _here(flag: Flag, without: Prediction) -> Section:
    count = len({rank for view in without.views for rank in view.ranks})
    library = f"{without.library.name.upper()} {without.library.version}"
    title = f"This node without it: {count} GPU{'s' * (count != 1)}, rules of {library}"
    if not flag.of_library or flag.kind == "none":
        return Section(title=title)
    if flag.kind in PAIR_KINDS:
        return Section(title=title, table=_ways_table(without), paragraphs=_pace(without))
    if flag.kind in NET_KINDS:
        return Section(title=title, table=_nets_table(without), paragraphs=_net_words(without))
    if flag.kind == "tuning":
        return Section(title=title, table=_choices_table(without))
    return Section(title=title, table=_graphs_table(without))


def _ways_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    rows = [("pairs", "path", "via", "which (ranks)")]
    for way, pairs in ways(prediction):
        rows.append((str(len(pairs)), way.path, way.label, pairs_in_words(pairs)))
    return tuple(rows)


def _pace(prediction: Prediction) -> tuple[str, ...]:
    ring = prediction.graphs.ring
    hops = hops_in_words(prediction)
    if ring is None or not hops:
        return ()
    order = order_in_words(ring.orders[0])
    return (
        f"The ring {order} takes {hops}. The search gives it {described(ring)} (channels x GB/s "
        f"each){_log(prediction)}.",
    )


def _log(prediction: Prediction) -> str:
    count = prediction.coll_channels
    ring = prediction.graphs.ring
    if count is None or ring is None:
        return ""
    twice = " (each is used twice)" if count == 2 * ring.channels else ""
    return f"; the log will say {count} coll channels{twice}"


def _nets_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for view in prediction.views:
        for net in view.nets:
            relay = "another GPU" if net.pxn_rank >= 0 else "itself"
            gdr = "yes" if net.gdr_recv != "Disabled" else "no"
            found.setdefault((net.to[2], gdr, relay), []).append(f"{net.rank}>{net.net}")
    rows = [("count", "path", "GPUDirect", "through", "GPU (rank) > NIC (device)")]
    for (path, gdr, relay), pairs in sorted(found.items()):
        some = " ".join(pairs[:6]) + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")
        rows.append((str(len(pairs)), path, gdr, relay, some))
    return tuple(rows) if len(rows) > 1 else ()


def _net_words(prediction: Prediction) -> tuple[str, ...]:
    net = sum(1 for p in prediction.pairs if p.src < p.dst and p.transport == "NET")
    if net:
        return (f"{net} pairs of this node go through the network.",)
    return ("No pair inside this node goes through the network.",)


def _choices_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    if not prediction.choices:
        return ()
    rows = [("all-reduce", "chosen", "predicted")]
    for bytes_ in SIZES:
        choice = choice_of(prediction, bytes_)
        rows.append(
            (message_size(bytes_), named(choice), duration(choice.time_us if choice else None))
        )
    return tuple(rows)


def _graphs_table(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    rows = [("graph", "channels x GB/s, path type")]
    graphs = prediction.graphs
    rows += [("ring", described(graphs.ring)), ("tree", described(graphs.tree))]
    rows.append(("nvls", described(graphs.nvls)))
    count = prediction.coll_channels
    rows.append(("coll channels", "not modelled" if count is None else str(count)))
    return tuple(rows)


def _watch(flag: Flag, snapshot: NodeSnapshot, without: Prediction) -> Section:
    bullets: list[str] = [flag.trap] if flag.trap else []
    if flag.kind == "p2p" and flag.type == "level":
        more = {
            (pair.src, pair.dst)
            for pair in without.pairs
            if pair.src < pair.dst and pair.transport not in ("P2P",)
        }
        bullets += p2p_cautions(snapshot, without, sorted(more))
        if more and without.library.name == "nccl":
            bullets.append(
                "Set it on every rank alike: NCCL does not compare it, and two ranks that "
                "disagree about a pair may hang."
            )
    found = measured(snapshot, without) if flag.kind in PAIR_KINDS else ""
    if found:
        bullets.append(found)
    return Section(title="What to watch for", bullets=tuple(bullets))


def _unknown(flag: Flag, without: Prediction) -> Section:
    if not flag.of_library or flag.kind == "none":
        return Section(title="What the prediction does not know")
    bullets = list(without.assumptions)
    if flag.kind in PAIR_KINDS:
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
    ranks = len({rank for view in without.views for rank in view.ranks})
    run = f"{flag.name}={value} all_reduce_perf -b 1M -e 1G -f 2 -g {ranks}, and once without it"
    if flag.kind in NET_KINDS:
        run = f"{flag.name}={value} all_reduce_perf over two nodes, and once without it"
    if flag.kind not in PAIR_KINDS:
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
    return any(g.after.transport == "P2P" != g.before.transport for g in effect.pairs)


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


def _acs(snapshot: NodeSnapshot) -> str:
    bridges = [d for d in snapshot.machine.pci if d.kind in ("root port", "switch downstream")]
    on = [d for d in bridges if d.acs]
    if on:
        controls = ", ".join(sorted({name for device in on for name in device.acs or ()}))
        return (
            f"ACS is switched on at {len(on)} PCIe ports ({controls}): traffic between GPUs is "
            "sent up to the root port, which slows or breaks P2P below a switch."
        )
    if bridges and all(device.acs == () for device in bridges):
        return "ACS is off at every PCIe port, so traffic below a switch stays there."
    if bridges:
        return "Whether ACS redirects traffic at the PCIe ports is not readable without root."
    return ""


# The summary of a flag in one paragraph.
def short(flag: Flag, found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say what a level of P2P means on this node; "" for other flags."""
    if flag.type != "level" or flag.kind != "p2p" or not without.pairs:
        return ""
    text = _now(without)
    gains = [(comparison, _moved(comparison, gained=True)) for comparison in found]
    others = sum(len(pairs) for way, pairs in ways(without) if way.transport != "P2P")
    parts: list[str] = []
    for comparison, moved in gains:
        if moved:
            every = len(moved) > 1 and sum(count for count, _ in moved) == others
            what = f"all {others}" if every else f"the {_counted(moved)}"
            parts.append(
                f"{comparison.changes[0].after} {'' if parts else 'would give it '}to {what}"
            )
    text += f" {', '.join(parts)}." if parts else ""
    text += _losses(found, without)
    if any(path in CPU for _, moved in gains for _, path in moved):
        text += (
            " Whether P2P through the CPU is faster than shared memory depends on the processor: "
            "measure both before you keep it."
        )
    return text


def _now(without: Prediction) -> str:
    """Say which pairs use P2P now, and which do not."""
    now = [(len(pairs), way.path) for way, pairs in ways(without) if way.transport == "P2P"]
    rest = [(len(pairs), way) for way, pairs in ways(without) if way.transport != "P2P"]
    total = sum(count for count, _ in (*now, *rest))
    if not rest:
        kinds = " or ".join(_place(path) for path in dict.fromkeys(path for _, path in now))
        if total == 1:
            return f"The one pair is {kinds} and uses P2P as it is: no higher level adds any."
        return f"All {total} pairs are {kinds} and use P2P as it is: no higher level adds any."
    by: dict[str, list[tuple[int, str]]] = {}
    for count, way in rest:
        by.setdefault(way.transport, []).append((count, way.path))
    others = ", ".join(f"{_placed(some)} go by {name}" for name, some in by.items())
    if not now:
        return f"None of the {total} pairs uses P2P: {others}."
    return f"Of {total} pairs, {_placed(now)} use P2P now; {others}."


def _losses(found: tuple[Comparison, ...], without: Prediction) -> str:
    """Say which values take P2P away, and from which pairs."""
    total = sum(len(pairs) for way, pairs in ways(without) if way.transport == "P2P")
    by: dict[str, list[str]] = {}
    for comparison in found:
        moved = _moved(comparison, gained=False)
        if moved:
            every = sum(count for count, _ in moved) == total
            what = f"all {total} that have it" if every else _counted(moved)
            what = "this pair" if total == 1 else what
            by.setdefault(what, []).append(str(comparison.changes[0].after))
    return "".join(
        f" {' and '.join(', '.join(values).rsplit(', ', 1))} would take it away from {what}."
        for what, values in by.items()
    )


def _moved(comparison: Comparison, *, gained: bool) -> list[tuple[int, str]]:
    """List (number of pairs, path type) of the pairs that gain P2P, or lose it."""
    found: dict[str, int] = {}
    for group in comparison.effect.pairs:
        then, now = group.before.transport == "P2P", group.after.transport == "P2P"
        if (now and not then) if gained else (then and not now):
            found[group.before.path] = found.get(group.before.path, 0) + len(group.pairs)
    return [(count, path) for path, count in found.items()]


def _place(path: str) -> str:
    return f"{PLACES[path]} ({path})" if path in PLACES else path


def _placed(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, _place)


def _counted(parts: list[tuple[int, str]]) -> str:
    return _listed(parts, str)


def _listed(parts: list[tuple[int, str]], named: Callable[[str], str]) -> str:
    """Count the pairs by path type, nearest first: "8 PHB and 16 SYS"."""
    merged: dict[str, int] = {}
    for count, path in parts:
        merged[path] = merged.get(path, 0) + count
    order = sorted(merged, key=distance)
    return " and ".join(f"{merged[path]} {named(path)}" for path in order)
