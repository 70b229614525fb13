"""The page of `gputop cost`."""

from __future__ import annotations

from gputop.answers.cost_records import CostAnswer, CostLayout
from gputop.topology.cost.rooflines import Roofline
from gputop.topology.cost.serving import Serving
from gputop.topology.model.english import plural
from gputop.topology.model.page import Block, Bullets, Column, Heading, Page, Role, Table, Text
from gputop.topology.model.units import UNKNOWN, figure

MOST = 8
"""Layouts that are shown; the document has all."""


def page(found: CostAnswer) -> Page:
    """The model, its layouts, why, rooflines, what is left out."""
    blocks: list[Block] = [Text(_head(found), role=Role.STRONG)]
    if found.serving:
        blocks += [*_serving(found), Heading("Notes"), _ends(found)]
        return Page(title="cost", blocks=tuple(blocks))
    shown = found.layouts[:MOST]
    blocks += [Heading(f"Layouts ({found.basis})"), layout_table(shown)]
    more = len(found.layouts) - len(shown)
    if more:
        blocks.append(Text(f"{more} more in --json, slower or too large.", indent=2))
    blocks += [Heading("Why"), Bullets(tuple(f"{one.ways}: {one.why}" for one in shown))]
    timed = [one for one in shown if one.communication]
    if timed:
        best = timed[0]
        blocks += [Heading(f"Communication of {best.ways}, a step"), _communication(best)]
        blocks += [*_edge(best)]
    blocks += [Heading("Rooflines"), _bounds(found.rooflines), Heading("Notes"), _ends(found)]
    return Page(title="cost", blocks=tuple(blocks))


def row_page(found: CostAnswer, one: CostLayout | Serving) -> Page:
    """One layout or one width of serving: what decides about it, and what that rests on."""
    ends = (Heading("Notes"), _ends(found))
    if isinstance(one, Serving):
        blocks = (Text(_head(found), role=Role.STRONG), serving_table((one,)), *ends)
        return Page(title=f"{found.model}: serving on {plural(one.tp, 'GPU')}", blocks=blocks)
    parts: list[Block] = [Text(one.why, role=Role.STRONG), Text(_head(found)), layout_table((one,))]
    if one.communication:
        parts += [Heading("Communication, a step"), _communication(one), *_edge(one)]
    parts += [Heading("Rooflines"), _bounds(found.rooflines), *ends]
    return Page(title=f"{found.model}: {one.ways}", blocks=tuple(parts))


def enough(found: CostAnswer) -> str:
    """How many GPUs would do, as a sentence; "" where these do or nobody knows."""
    count = found.fits_from_gpus
    return "" if count is None else f"It fits from {plural(count, 'GPU')} like these on (--nodes)."


def _ends(found: CostAnswer) -> Bullets:
    return Bullets(
        (
            *filter(None, (enough(found),)),
            *found.notes,
            *(f"Source: {one}" for one in found.sources),
        )
    )


def serving_table(served: tuple[Serving, ...]) -> Table:
    """A row for each width of tensor parallelism."""
    heads = (
        Column("tp"), Column("weights", right=True, optional=True), Column("KV tokens", right=True),
        Column("prefill", right=True), Column("one request", right=True, optional=True),
        Column("requests", right=True), Column("a token of each", right=True),
        Column("tokens/s", right=True), Column("all-reduce", right=True),
    )  # fmt: skip
    return Table(heads, tuple(_served(one) for one in served))


def _serving(found: CostAnswer) -> list[Block]:
    """Widths of tensor parallelism, then what it takes to move a prompt's cache."""
    cache = (
        Column("tp"), Column("KV of a prompt", right=True), Column("to another node", right=True),
        Column("to the host", right=True),
    )  # fmt: skip
    each = f"{figure(found.kv_bytes_per_token / 1e3)} kB of KV a token"
    moves = (
        (
            str(one.tp), f"{figure(one.kv_bytes / 1e9)} GB", duration(one.kv_to_node_s),
            duration(one.kv_to_host_s),
        )
        for one in found.serving
    )  # fmt: skip
    return [
        Heading(f"Serving prompts of {found.sequence:,} tokens ({found.basis}), {each}"),
        serving_table(found.serving),
        Heading("Moving a prompt's cache"),
        Table(cache, tuple(moves)),
    ]


def _served(one: Serving) -> tuple[str, ...]:
    size = f"{figure(one.weights_bytes / 1e9)} GB"
    start = (str(one.tp), size, f"{one.kv_tokens:,}")
    if one.decode_s is None:
        return (*start, UNKNOWN, UNKNOWN, str(one.requests), *([UNKNOWN] * 3))
    return (
        *start, duration(one.prefill_s), duration(one.decode_one_s), str(one.requests),
        duration(one.decode_s), f"{one.tokens_per_s or 0:,.0f}",
        f"{100 * one.wire_s / one.decode_s:.0f} %",
    )  # fmt: skip


def _head(found: CostAnswer) -> str:
    active = ""
    if found.active_parameters != found.parameters:
        active = f" ({_billions(found.active_parameters)} for a token)"
    rate = ""
    if found.tflops is not None and found.sheet_tflops is not None:
        rate = f", {figure(found.tflops)} of {figure(found.sheet_tflops)} TFLOP/s"
    return (
        f"{found.model}: {_billions(found.parameters)} parameters{active}, "
        f"{figure(found.flop_per_token / 1e9)} GFLOP a token, on {plural(found.gpus, 'GPU')} "
        f"{found.gpu}{rate}."
    )


def _billions(count: int) -> str:
    return f"{figure(count / 1e9)} billion" if count >= 1e9 else f"{figure(count / 1e6)} million"


def layout_table(shown: tuple[CostLayout, ...]) -> Table:
    """A row for each layout."""
    grouped = any(one.interleave > 1 for one in shown)
    groups = (Column("groups", right=True, optional=True),) if grouped else ()
    heads = (
        Column("layout"), Column("ZeRO", right=True), Column("recompute", optional=True),
        Column("micro x accum", right=True, optional=True), *groups,
        Column("tokens/s", right=True),
        Column("MFU", right=True), Column("step", right=True), Column("exposed", right=True),
        Column("bubble", right=True), Column("GB", right=True),
    )  # fmt: skip
    return Table(heads, tuple(_row(one, grouped=grouped) for one in shown))


def _row(one: CostLayout, *, grouped: bool) -> tuple[str, ...]:
    size = f"{figure(one.needed_bytes / 1e9)}{' too large' if one.fits is False else ''}"
    batch = f"{one.micro} x {one.accumulation}"
    groups = (str(one.interleave),) if grouped else ()
    how = (one.ways, str(one.zero), one.recompute, batch, *groups)
    if one.step_s is None:
        return (*how, *([UNKNOWN] * 5), size)
    exposed = sum(part.exposed_s for part in one.communication)
    return (
        *how,
        f"{one.tokens_per_s or 0:,.0f}",
        UNKNOWN if one.mfu is None else f"{100 * one.mfu:.0f} %",
        duration(one.step_s),
        f"{100 * exposed / one.step_s:.0f} %",
        f"{100 * (one.bubble_s or 0) / one.step_s:.0f} %",
        size,
    )


def duration(value: float | None) -> str:
    """Seconds or milliseconds with three digits."""
    if value is None:
        return UNKNOWN
    return f"{figure(value)} s" if value >= 1 else f"{figure(1e3 * value)} ms"


def _communication(one: CostLayout) -> Table:
    heads = (
        Column("what"), Column("over"), Column("sent by a GPU", right=True),
        Column("time", right=True), Column("exposed", right=True),
    )  # fmt: skip
    rows = (
        (
            part.what, part.wire, f"{figure(part.bytes_sent / 1e9)} GB", duration(part.seconds),
            duration(part.exposed_s),
        )
        for part in one.communication
    )  # fmt: skip
    return Table(heads, tuple(rows))


def edge_text(one: CostLayout) -> str:
    """Where the longest communication is bound, as words; "" where nobody knows."""
    return "" if one.edge is None else f"bound at {' – '.join(one.edge.names)} ({one.edge.what})"


def _edge(one: CostLayout) -> list[Block]:
    text = edge_text(one)
    return [Text(f"{text[:1].upper()}{text[1:]}.", indent=2)] if text else []


def _bounds(bounds: tuple[Roofline, ...]) -> Table:
    heads = (
        Column("bound"), Column("on paper", right=True), Column("here", right=True), Column("")
    )  # fmt: skip
    rows = (
        (one.what, bound(one.paper, one.unit), bound(one.here, one.unit), one.unit)
        for one in bounds
    )
    return Table(heads, tuple(rows))


def bound(value: float | None, unit: str) -> str:
    """A bound of a roofline without its unit."""
    if value is None:
        return UNKNOWN
    return figure(value) if unit == "GPUs" else f"{value:,.0f}"
