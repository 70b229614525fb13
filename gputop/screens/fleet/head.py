"""The first lines of the screen Fleet: how many nodes, what is wrong, who is missing."""

from __future__ import annotations

import time

from gputop.live.fleet_watch import FleetState
from gputop.printing.fleet import by_state, verdict_line
from gputop.terminal.clean import clean
from gputop.topology.fleet.finding import HEALTHY
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import fold
from gputop.topology.fleet.planning.culprits import LINK, NODE
from gputop.topology.model.severity import NodeState
from gputop.widgets.spans import Line, cut, width_of

_LEAST_NAMES = 8


def verdict(state: FleetState, width: int) -> Line:
    """The answer; before it is known, how far reading is."""
    if state.fleet is None:
        if state.trouble:
            return ((" ? ", "warn"), (f"cannot tell: {clean(state.trouble, 300)}", "strong"))
        many = f" {state.read:,} of {state.total:,}" if state.total else ""
        return ((" … ", "muted"), (f"reading the files of the nodes{many}", "strong"))
    sign, ink = state.fleet.verdict.shown[:2]
    text = verdict_line(state.fleet).removeprefix(sign).strip()
    return cut(((f" {sign} ", ink), (text, "strong")), width)


def who(fleet: Fleet, width: int) -> Line:
    """What nodes share and pairs accuse, and the nodes behind the verdict."""
    named = by_state(fleet)
    spans: list[tuple[str, str]] = [("   ", "")]
    shared = [one for one in fleet.links.found.culprits if one.kind not in (NODE, LINK)]
    if shared:
        # "switch leaf2, or its uplinks": the tab Links has the rest.
        first = clean(shared[0].said.partition(": ")[0].partition(", or ")[0], 40)
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        spans += [("links ", "bad"), (f"{first}{more}", ""), ("  ", "")]
        width -= width_of(spans) - 3
    elif not named:
        return ((f"   {_all_well(fleet)}", "muted"),)
    texts = [(state, clean(fold(hosts), 20_000)) for state, hosts in named]
    words = sum(len(state.word) + 3 for state, _ in texts)
    room = _shares([len(text) for _, text in texts], width - 3 - words)
    for (state, text), share in zip(texts, room, strict=True):
        _, ink, word = state.shown
        spans += [(f"{word} ", ink), (_shortened(text, share), ""), ("  ", "")]
    return tuple(spans)


def _shares(needs: list[int], room: int) -> list[int]:
    """Cells for each: short lists get all that they need, long ones share the rest."""
    given = [0] * len(needs)
    for done, place in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        given[place] = min(needs[place], max(room // (len(needs) - done), _LEAST_NAMES))
        room -= given[place]
    return given


def _shortened(names: str, room: int) -> str:
    """A list of hosts, cut behind a whole name."""
    if len(names) <= room:
        return names
    whole = names[: room - 1].rpartition(",")[0] or names[: room - 1]
    return f"{whole},…"


def _all_well(fleet: Fleet) -> str:
    if not fleet.nodes:
        return "`gputop check --json -o DIR/%n.json.gz` on each node writes its file"
    return f"{len(fleet.groups)} kind{'s' * (len(fleet.groups) != 1)} of nodes"


def watched(state: FleetState) -> Line:
    """Where the files lie, and when they were last looked at; for the right end of a line."""
    if state.fleet is None:
        return (("reading… ", "muted"),)
    if state.trouble:
        return (("✗ ", "bad"), ("not readable ", "warn"))
    fleet = state.fleet
    files = len(fleet.nodes) + fleet.older + len(fleet.unusable) + len(fleet.beside)
    simulated = any(report.simulated for report in state.fleet.nodes.values())
    made_up: Line = (("demos among them, simulated ", "warn"),) if simulated else ()
    return (("● ", "good"), (f"watching {files:,} files ", "muted"), *made_up)


def trouble(state: FleetState) -> Line:
    """What goes wrong with the folder; empty when nothing does."""
    if not state.trouble or state.fleet is None:
        return ()
    at = time.strftime("%H:%M:%S", time.localtime(state.looked_at))
    said = clean(state.trouble, 300)
    return ((" ! ", "bad"), (f"{said}; shown as it was at {at}", "bad"))


def legend(fleet: Fleet) -> Line:
    """What the signs of the map mean, with their numbers."""
    spans: list[tuple[str, str]] = []
    for state in NodeState:
        sign, ink, word = state.shown
        if count := fleet.counts[state]:
            shown = "muted" if state == HEALTHY else ink
            spans += [(f"{sign} ", shown), (f"{word} {count:,}  ", "muted")]
    return tuple(spans)
