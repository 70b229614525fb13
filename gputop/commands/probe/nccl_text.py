"""Writes a run of the probe nccl and its prediction as text."""

from __future__ import annotations

from collections import Counter

from gputop.measuring.nccl_check import NcclCheck, PairCheck
from gputop.terminal.clean import clean
from gputop.topology.model import units

MOST_PAIRS = 24
"""How many differing pairs are named one by one."""


def text(check: NcclCheck, names: dict[str, str]) -> str:
    """The blocks of lines of a check; `names`: PCI address -> label of the GPU."""
    lines = [_finished(check), *_speeds(check)]
    if check.trouble:
        lines.append(clean(check.trouble, 300))
    lines += _transports(check, names)
    lines += _own_diagnostics(check)
    lines += _decisions(check)
    if check.predicted_failure:
        lines.append(f"predicted to fail: {clean(check.predicted_failure, 300)}")
    lines += [f"the library warns: {clean(warning, 300)}" for warning in check.warnings]
    return "\n".join(lines)


def _finished(check: NcclCheck) -> str:
    library = clean(check.library or check.logged_version or check.engine or "the library", 40)
    outcome = {
        "finished": "the all-reduce finished and its result is right",
        "wrong-data": "the all-reduce finished with WRONG data",
        "failed": "FAILED",
        "timed-out": "did NOT finish in time",
        None: "no collective was tried",
    }.get(check.finished, check.finished)
    return f"{library} on {len(check.gpus)} GPUs: {outcome}"


def _speeds(check: NcclCheck) -> list[str]:
    lines = []
    for speed in check.speeds:
        line = (
            f"all-reduce of {units.size(speed.bytes)}: algbw {units.gbs(speed.algbw_gbs)}, "
            f"busbw {units.gbs(speed.busbw_gbs)}"
        )
        if check.ceiling_gbs and speed.busbw_gbs and speed is check.speeds[-1]:
            share = 100 * speed.busbw_gbs / check.ceiling_gbs
            line += f", {share:.0f} % of what the rings are built for"
            line += f" ({units.gbs(check.ceiling_gbs)})"
        lines.append(line)
    return lines


def _transports(check: NcclCheck, names: dict[str, str]) -> list[str]:
    """Count the pairs that agree by label, and list the pairs that do not."""
    same = Counter(pair.logged for pair in check.pairs if pair.agrees is True)
    total = len(check.pairs)
    lines = [
        f"transport, {count} of {total} pairs: {_labels(labels)}, as predicted"
        for labels, count in same.most_common()
    ]
    differing = [pair for pair in check.pairs if pair.agrees is False]
    lines += [_differs(pair, names) for pair in differing[:MOST_PAIRS]]
    if len(differing) > MOST_PAIRS:
        lines.append(f"... and {len(differing) - MOST_PAIRS} pairs more that differ")
    silent = [pair for pair in check.pairs if pair.agrees is None]
    only_logged = Counter(pair.logged for pair in silent if pair.logged)
    lines += [
        f"transport, {count} of {total} pairs: {_labels(labels)}, not predicted"
        for labels, count in only_logged.most_common()
    ]
    unlogged = sum(not pair.logged for pair in silent)
    if unlogged and unlogged < total:
        lines.append(f"{unlogged} of {total} pairs do not show in the log")
    return lines


def _differs(pair: PairCheck, names: dict[str, str]) -> str:
    src, dst = (
        names.get(address, clean(address, 20)) for address in (pair.src_bus_id, pair.dst_bus_id)
    )
    return f"{src} to {dst}: {_labels(pair.logged)}, PREDICTED {_labels(pair.predicted)}"


def _own_diagnostics(check: NcclCheck) -> list[str]:
    """The library's own verdict, and that of our bytes beside it."""
    if not check.diagnostics:
        return []
    moved = [pair for pair in check.pairs if pair.data]
    right = sum(pair.data == "verified" for pair in moved)
    lines = [
        f"the library's own diagnostics, {clean(each.sentence, 200)}" for each in check.diagnostics
    ]
    quoted = [
        one for each in check.diagnostics for one in each.checks if one.open or one.about == "p2p"
    ]
    lines += [
        f"  [{one.tag}] {clean(f'{one.about}: {one.text}', 300)}" for one in quoted[:MOST_PAIRS]
    ]
    return [*lines, f"  beside it, sent and received here: {right} of {len(moved)} pairs right"]


def _labels(labels: tuple[str, ...]) -> str:
    return clean(" and ".join(labels), 120)


def _decisions(check: NcclCheck) -> list[str]:
    """Graphs and channels, all other differences, and possible reasons."""
    found = check.agreement
    if found is None or not found.comparable:
        return []
    said: dict[tuple[str, str, str], list[str]] = {}
    for item in found.items:
        if not item.agrees or item.topic in ("graph", "channels"):
            end = "as predicted" if item.agrees else f"PREDICTED {clean(item.predicted, 200)}"
            # Domains that are alike share a line.
            kind = item.subject.partition(" of ranks ")[0] if item.topic == "graph" else ""
            key = (kind or item.subject, clean(item.logged, 200), end)
            said.setdefault(key, []).append(item.subject)
    lines = [
        f"{clean(what, 60)}: {logged}, {end}"
        + (f" ({len(subjects)} times)" if len(subjects) > 1 else "")
        for (what, logged, end), subjects in said.items()
    ]
    lines.append(found.sentence)
    return lines + [clean(reason, 300) for reason in found.reasons]
