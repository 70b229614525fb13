"""The rows of Cost, one a layout or a width of serving, and the panel about the selected one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gputop.answers.cost_page import (
    bound,
    duration,
    edge_text,
    enough,
    layout_table,
    serving_table,
)
from gputop.answers.cost_records import CostAnswer, CostLayout
from gputop.screens.cost.roof import packed, roof_lines, roof_of
from gputop.screens.listing import Listing
from gputop.topology.cost.serving import Serving
from gputop.topology.cost.step import Exposed
from gputop.topology.model.english import plural
from gputop.topology.model.page import Column
from gputop.topology.model.units import figure
from gputop.widgets.spans import EMPTY, Line, heads, left, right, wrapped

KEPT = ("tokens/s", "GB")
"""Columns that every room has, beside the first."""
LEAST_BAR, MOST_BAR = 8, 40
"""Cells of the bars that compare tokens a second."""
NAME, TIME, SHARE = 30, 9, 6
"""Cells of a part's name, its time and its share of the step."""
FILLS = (("█", "bar"), ("▓", "accent"), ("▒", "link-net"), ("░", "muted"))
"""Of the memory of a GPU: each part has a sign of its own besides its ink."""
BOUND, UNIT = 31, 14
"""Cells of a bound's name and of its unit."""
ROOF_ROWS = 12


def bar(share: float, width: int) -> str:
    """A bar to the half of a cell; what is more than nothing shows."""
    halves = round(min(max(share, 0.0), 1.0) * width * 2)
    full, rest = divmod(max(halves, 1) if share > 0 else halves, 2)
    return "━" * full + "╸" * rest


class CostListing(Listing):
    """The layouts of an answer, or its widths of serving."""

    nothing = ((" nothing to rank", "muted"),)

    def __init__(self, found: CostAnswer, *, room: int, beside: bool, plain: bool) -> None:
        """`room`: cells of the lines above; `beside`: the roofline has a place of its own;
        `plain`: ASCII alone.
        """  # noqa: D205
        self.found = found
        self._room, self._beside, self._plain = room, beside, plain
        self._items: dict[str, CostLayout | Serving] = {one.ways: one for one in found.layouts}
        self._items |= {f"tp={one.tp}": one for one in found.serving}
        self._table = serving_table(found.serving) if found.serving else layout_table(found.layouts)
        self._cells = dict(zip(self._items, self._table.rows, strict=True))
        self._best = max((one.tokens_per_s or 0.0 for one in self._items.values()), default=0.0)

    @property
    def names(self) -> Sequence[str]:
        """Layouts."""
        return tuple(self._items)

    def caption(self) -> str:
        """How many, of what, and how sure."""
        found, count = self.found, len(self._items)
        kind = "width" if found.serving else "layout"
        over = f"{plural(found.gpus, 'GPU')} {found.gpu}"
        fits = sum(one.tokens_per_s is not None for one in self._items.values())
        return f"{plural(count, kind)} over {over}, {fits} fit · {found.basis} · bar: tokens/s"

    @property
    def best(self) -> str:
        """The fastest, which the lines above are about; "" where there is none."""
        fastest = max(self._items.values(), key=lambda one: one.tokens_per_s or 0.0, default=None)
        return next((name for name, one in self._items.items() if one is fastest), "")

    def fits(self, name: str) -> bool:
        """Whether a row has a time."""
        return name in self._items and self._items[name].tokens_per_s is not None

    def item(self, name: str) -> CostLayout | Serving:
        """What a row is about."""
        return self._items[name]

    def _columns(self, width: int) -> list[tuple[int, Column, int]]:
        """Place, column and cells of what fits."""
        every = [
            (at, column, max(len(column.title), *(len(row[at]) for row in self._table.rows)))
            for at, column in enumerate(self._table.columns)
        ]
        fitting = every
        for left_out in self._left_out:
            if sum(size + 2 for _, _, size in fitting) + 1 <= width:
                break
            fitting = [one for one in fitting if one[0] not in left_out]
        return fitting

    @property
    def _left_out(self) -> list[tuple[int, ...]]:
        """Places of columns that go where there is no room: optional ones, then the last ones."""
        columns = list(enumerate(self._table.columns))
        optional = tuple(at for at, column in columns if column.optional)
        others = [at for at, column in columns[1:] if column.title not in KEPT]
        return [optional, *((at,) for at in reversed(others)), ()]

    def _parts(self, cells: Sequence[str], width: int) -> list[str]:
        return [
            f"{' ' * (2 if place else 1)}{(right if column.right else left)(cells[at], size)}"
            for place, (at, column, size) in enumerate(self._columns(width))
        ]

    def _bar_room(self, width: int) -> int:
        """Cells of a bar; 0 where there is too little room."""
        taken = sum(size + 2 for _, _, size in self._columns(width))
        return min(width - taken - 2, MOST_BAR) if width - taken - 2 >= LEAST_BAR else 0

    def head(self, width: int) -> Line:
        """The titles, a span for each."""
        return heads(*self._parts([column.title for column in self._table.columns], width))

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """The cells, then a bar of tokens a second against the fastest."""
        speed = self._items[name].tokens_per_s
        first, *parts = self._parts(self._cells[name], width)
        ink = "muted" if speed is None else ""
        room, share = self._bar_room(width), (speed or 0.0) / (self._best or 1.0)
        return (
            (first, "strong" if selected and speed is not None else ink),
            ("".join(parts), ink),
            *((("  ", ""), (bar(share, room), "bar")) if room and speed else ()),
        )

    def title(self, name: str) -> str:
        """The layout and how it is trained."""
        item = self._items[name]
        if isinstance(item, Serving):
            return f"Serving on {plural(item.tp, 'GPU')}"
        batch = f"{item.micro} x {item.accumulation} sequences"
        groups = f" · {item.interleave} groups a stage" if item.interleave > 1 else ""
        return f"{name} · ZeRO {item.zero} · recompute {item.recompute} · {batch}{groups}"

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """Where the time and the memory go, the roofline, what is assumed."""
        item, found = self._items[name], self.found
        if isinstance(item, Serving):
            lines = [*served_lines(found, item, width)]
        else:
            told = name == self.best and len(item.why) < self._room
            said = () if told else why_lines(item, width)
            edge = edge_text(item)
            lines = [*said, *step_lines(found, item, width)]
            lines += wrapped(((edge, "muted"),), width) if edge else []
        if not self._beside and (roof := self.roof(name, width, ROOF_ROWS)):
            lines += [EMPTY, *roof]
        return (*lines, EMPTY, *note_lines(found, width))

    def has_roof(self, name: str) -> bool:
        """Whether something bounds a row in a way that can be drawn."""
        return roof_of(self.found, self._items[name]) is not None

    def roof(self, name: str, width: int, height: int) -> Sequence[Line]:
        """The roofline of the selected row, then the bounds; bounds alone where there is none."""
        bounds = () if self.found.serving else tuple(bound_lines(self.found, width))
        rows = max(min(height - len(bounds) - 1, 2 * ROOF_ROWS), 0)
        roof = roof_of(self.found, self._items[name])
        drawn = () if roof is None else roof_lines(roof, width, rows, plain=self._plain)
        return (*drawn, *((EMPTY,) if drawn and bounds else ()), *bounds)


def head_lines(found: CostAnswer) -> tuple[Line, Line]:
    """What is best and what bounds it, in two lines."""
    if found.serving:
        return _served_head(found)
    if not found.layouts:
        return EMPTY, EMPTY
    best = found.layouts[0]
    if best.fits is False:
        first = f" No layout fits {plural(found.gpus, 'GPU')} {found.gpu}"
        return ((first, "warn bold"), (f" · {best.ways}: {best.why}", "")), (
            (f" {enough(found) or 'Nor is it known how many would do.'}", "strong"),
        )
    if best.step_s is None:
        return ((f" {best.ways} fits; its time is not known", "strong"),), ((f" {best.why}", ""),)
    said = (
        f" is fastest: {best.tokens_per_s or 0:,.0f} tokens/s, a step takes "
        f"{duration(best.step_s)}, {_memory(best.needed_bytes, found.memory_bytes)}"
    )
    return ((f" {best.ways}", "good bold"), (said, "strong")), ((f" {best.why}", ""),)


def _served_head(found: CostAnswer) -> tuple[Line, Line]:
    timed = [one for one in found.serving if one.tokens_per_s]
    if not timed:
        prompt = f"a prompt of {found.sequence:,} tokens"
        said = f" On no width inside the node do weights and {prompt} fit"
        return ((said, "warn bold"),), EMPTY
    best = max(timed, key=lambda one: one.tokens_per_s or 0.0)
    said = (
        f" serves most: {best.tokens_per_s or 0:,.0f} tokens/s to {best.requests} requests at "
        f"once, each a token in {duration(best.decode_s)}"
    )
    why = (
        f" A prompt of {found.sequence:,} tokens takes {duration(best.prefill_s)}; "
        f"{100 * best.wire_s / (best.decode_s or 1):.0f} % of a token are all-reduces over "
        f"{best.wire}"
    )
    return ((f" tp={best.tp}", "good bold"), (said, "strong")), ((why, ""),)


def _memory(needed: float, has: int | None) -> str:
    of = "" if has is None else f" of {figure(has / 1e9)}"
    return f"{figure(needed / 1e9)}{of} GB a GPU"


def why_lines(one: CostLayout, width: int) -> tuple[Line, ...]:
    """What decides about a layout."""
    return *wrapped(((one.why, "warn" if one.fits is False else ""),), width), EMPTY


def step_lines(found: CostAnswer, one: CostLayout, width: int) -> Iterator[Line]:
    """Parts of a step as bars, the longest at most the whole step; then the memory."""
    if one.step_s is not None:
        yield from _time_lines(one, one.step_s, width)
        yield EMPTY
    yield from memory_lines(
        (
            ("weights, gradients, optimizer", one.states_bytes),
            ("activations", one.activations_bytes),
            ("loss", one.loss_bytes),
            ("rest", one.needed_bytes - one.states_bytes - one.activations_bytes - one.loss_bytes),
        ),
        found.memory_bytes,
        width,
    )


def _sent(part: Exposed, step: float, width: int) -> Line:
    """What goes over the wire, and how long that overlaps with computation."""
    sent = f"{figure(part.bytes_sent / 1e9)} GB over {part.wire}"
    hidden = part.seconds - part.exposed_s
    behind = (
        "" if hidden < 0.005 * step else f"; another {duration(hidden)} overlaps with computation"
    )
    return ((left(f"  {sent}{behind}", width), "muted"),)


def _time_lines(one: CostLayout, step: float, width: int) -> Iterator[Line]:
    parts: list[tuple[str, float, str, Exposed | None]] = [
        ("products", one.products_s or 0.0, "bar", None),
        ("attention", one.attention_s or 0.0, "bar", None),
        ("between products", one.between_s or 0.0, "bar", None),
        ("optimizer", one.optimizer_s or 0.0, "bar", None),
        ("bubble of the pipeline", one.bubble_s or 0.0, "muted", None),
        *((part.what, part.exposed_s, "accent", part) for part in one.communication),
    ]
    room = max(min(width - NAME - TIME - SHARE - 2, MOST_BAR), 6)
    for name, seconds, ink, part in parts:
        if not seconds and part is None:
            continue
        yield (
            (left(name, NAME), ""),
            (right(duration(seconds), TIME), ""),
            (right(f"{100 * seconds / step:.0f} %", SHARE), "muted"),
            ("  ", ""),
            (bar(seconds / step, room), ink),
        )
        if part is not None:
            yield _sent(part, step, width)
    between = ""
    if one.least_s is not None and one.most_s is not None:
        between = f"{duration(one.least_s)} and {duration(one.most_s)}"
    yield (
        (left("a step; healthy ones between", NAME), "strong"),
        (right(duration(step), TIME), "strong"),
        (f"  {between}", "muted"),
    )


def _filled(sizes: Iterable[float]) -> list[tuple[str, str]]:
    """Parts of so many cells, rounded where they end."""
    spans: list[tuple[str, str]] = []
    drawn, taken = 0, 0.0
    for size, (sign, ink) in zip(sizes, FILLS, strict=False):
        taken += size
        cells = round(taken) - drawn
        spans.append((sign * cells, ink))
        drawn += cells
    return spans


def memory_lines(parts: Iterable[tuple[str, float]], has: int | None, width: int) -> Iterator[Line]:
    """One bar of all parts against what a GPU has, and what each sign means."""
    every = [(name, size) for name, size in parts]
    needed = sum(size for _, size in every)
    most = max(needed, float(has or 0.0)) or 1.0
    room = max(min(width, NAME + TIME + SHARE + 2 + MOST_BAR), 10)
    spans = _filled([room * size / most for _, size in every])
    drawn = sum(len(text) for text, _ in spans)
    too_large = has is not None and needed > has
    said = f"{_memory(needed, has)}{': too large' if too_large else ''}"
    yield (("memory  ", "strong"), (said, "warn" if too_large else ""))
    edge = round(room * (has or 0) / most)
    if too_large:
        spans = [*_cut_at(spans, edge)]
    yield (*spans, ("·" * (room - drawn), "muted"))
    yield from packed(
        (
            ((f"{sign} ", ink), (f"{name} {figure(size / 1e9)}", "muted"))
            for (name, size), (sign, ink) in zip(every, FILLS, strict=False)
        ),
        width,
    )


def _cut_at(spans: Iterable[tuple[str, str]], edge: int) -> Iterator[tuple[str, str]]:
    """The same cells with an upright line where the memory of a GPU ends."""
    at = 0
    for text, ink in spans:
        if at <= edge < at + len(text):
            yield text[: edge - at], ink
            yield "│", "bad bold"
            yield text[edge - at + 1 :], ink
        else:
            yield text, ink
        at += len(text)


def served_lines(found: CostAnswer, one: Serving, width: int) -> Iterator[Line]:
    """What a prompt and a token take, the memory, and what it takes to move a prompt's cache."""
    if one.decode_s is None:
        said = "Its weights leave no room for the keys and values of one prompt."
        yield from wrapped(((said, "warn"),), width)
    times = (
        (f"a prompt of {found.sequence:,} tokens", one.prefill_s),
        ("a token of one request", one.decode_one_s),
        (f"a token of each of {one.requests}", one.decode_s),
        (f"  of that all-reduces over {one.wire}", one.wire_s if one.tp > 1 else None),
        ("its cache to another node", one.kv_to_node_s),
        ("its cache to the host", one.kv_to_host_s),
    )
    for name, seconds in times:
        if seconds is not None:
            yield ((left(name, NAME + 6), ""), (right(duration(seconds), TIME), "strong"))
    yield EMPTY
    kept = one.kv_tokens * found.kv_bytes_per_token / one.tp
    yield ((f"{one.kv_tokens:,} tokens of keys and values fit beside the weights", ""),)
    yield from memory_lines(
        (("weights", one.weights_bytes), ("keys and values", kept)),
        found.memory_bytes,
        width,
    )


def bound_lines(found: CostAnswer, width: int) -> Iterator[Line]:
    """The bounds of the roofline here, and on paper where there is room."""
    paper = width >= BOUND + 2 * TIME + UNIT
    name = min(BOUND, max(width - TIME - UNIT, 10))
    titles = ("here", "paper") if paper else ("here",)
    yield (
        (left("bounds by products alone", name), "muted"),
        *((right(title, TIME), "muted") for title in titles),
    )
    for one in found.rooflines:
        yield (
            (left(one.what, name), ""),
            (right(bound(one.here, one.unit), TIME), "strong"),
            *(((right(bound(one.paper, one.unit), TIME), "muted"),) if paper else ()),
            (f"  {one.unit}", "muted"),
        )


def note_lines(found: CostAnswer, width: int) -> Iterator[Line]:
    """What is assumed, what is not in it, and where the figures come from."""
    for text in (*found.assumptions, *found.notes, *(f"Source: {one}" for one in found.sources)):
        yield from wrapped((("• ", "muted"), (f"{text[:1].upper()}{text[1:]}", "muted")), width, 2)
