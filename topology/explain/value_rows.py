"""What each value of a variable, or each version, would do on a node, as rows of figures."""

from __future__ import annotations

from itertools import groupby

import msgspec

from ..expectation.cost.costs import Costs
from ..expectation.judgement import ESTIMATE
from ..flags.catalogue.catalogue import Flag
from ..flags.values.values import unread
from ..flags.what_if.changes import Changes, version_of, with_changes
from ..flags.what_if.effects import MEDIUM, Comparison, described, time_of
from ..flags.what_if.study import Study, versions_to_try
from ..flags.what_if.wording import NO_DECISION, NOTHING, brief, p2p_pairs
from ..model.gathered import gathered
from ..model.page import Section
from ..model.units import figure
from ..nccl.decide.summary import duration, largest_choice
from ..nccl.prediction import Prediction
from ..node import Node

NOT_SET, FAILS, NOT_KNOWN = "not set", "fails", "not known"
ALL_REDUCE = "all-reduce 1 GiB"
REACHES = "What an all-reduce of 1 GiB reaches here"
WHY_NOT_KNOWN = (
    "Not known: nobody measured these transports on such a node, and {}'s own times do not ask by "
    "which transport the bytes go."
)
MOST_IN_MATRIX = 16
"""GPUs up to which the transports of all pairs are drawn."""
LETTERS = {"P2P": "P", "SHM": "S", "NET": "N"}
RELAYED = "R"
"""P2P through another GPU."""


class ValueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One value, and what the library does with it."""

    value: str
    here: bool
    """Whether it is what holds now."""
    clauses: tuple[str, ...] = ()
    """What changes against the variable not being set; () for that row."""
    pairs: str
    """"4 of 28": pairs of GPUs with P2P."""
    relayed: int = 0
    """How many of these go through another GPU."""
    by: str = ""
    """Algorithm and protocol of the largest all-reduce, where the library's choice is modelled."""
    ring: str
    """"1 x 20 SYS": channels x GB/s, farthest path."""
    medium: str
    """Time of an all-reduce of 256 MiB in the library's own model; "" where it has none."""
    large: str
    """What an all-reduce of 1 GiB reaches, from the model of cost; "" where nothing is known."""
    transports: tuple[str, ...] = ()
    """A row of letters for each GPU that sends; () for many GPUs."""

    @property
    def tried(self) -> str | None:
        """The value, as a what-if takes it; None for a variable that is not set."""
        return None if self.value == NOT_SET else self.value


def value_rows(flag: Flag, study: Study, node: Node) -> tuple[ValueRow, ...]:
    """The rows of a variable that has values to try; makes predictions: not for the event loop.

    Raises NoGpusError, and Stopped.
    """
    clear: Changes = dict.fromkeys(flag.names)
    without = study.predict(clear)
    if not flag.tries or unread(flag, without.library):
        return ()
    now = next((study.values[n] for n in flag.names if n in study.values), None)
    costs = _costs(node, clear, without)
    first = _row(NOT_SET, without, _cost(costs, without), here=now is None)
    rows = [msgspec.structs.replace(first, transports=transports(without))]
    for comparison in study.tries(flag):
        value = comparison.changes[0].after or ""
        changes = {**clear, flag.name: value}
        rows.append(_tried(comparison, changes, node, study, (costs, first), here=value == now))
    return tuple(rows)


def version_rows(study: Study, node: Node) -> tuple[ValueRow, ...]:
    """The version of the library that is there, then others, the newest first; as `value_rows`."""
    now = study.baseline()
    library, costs = now.library, _costs(node, {}, now)
    first = _row(library.version, now, _cost(costs, now), here=True)
    first = msgspec.structs.replace(first, transports=transports(now))
    others = [number for number in versions_to_try(library) if number != library.version]
    tries = [{library.name.upper(): number} for number in reversed(others)]
    return (
        first,
        *(_tried(study.compare({}, one), one, node, study, (costs, first)) for one in tries),
    )


def _tried(
    comparison: Comparison,
    changes: Changes,
    node: Node,
    study: Study,
    before: tuple[Costs, ValueRow],
    *,
    here: bool = False,
) -> ValueRow:
    """The row of one value, against the first row and what it costs."""
    study.check()
    costs, first = before
    value, after = comparison.changes[0].after or "", comparison.changed
    gone = comparison.effect.times[-1]
    fails = gone.before_us is not None and gone.after_us is None
    cost = FAILS if fails else first.large
    if not fails and not comparison.effect.nothing:
        # Costs are those of the node as a whole, whatever the study is of.
        slower = comparison.slower if study.of_node else None
        cost = _cost(_costs(node, changes, after, costs, slower), after)
        cost = _asked(comparison, first.large, cost)
    row = _row(value, after, cost, here=here, slow=_slow(comparison))
    if comparison.effect.blind:
        row = msgspec.structs.replace(row, medium=NOT_KNOWN)
    moved = f"{ALL_REDUCE} {first.large} → {row.large}" if row.large != first.large else ""
    clauses = brief(comparison, moved)
    return msgspec.structs.replace(row, clauses=clauses, transports=transports(after))


def reached(rows: tuple[ValueRow, ...], study: Study) -> Section:
    """What an all-reduce reaches with each value; empty where no value changes it."""
    if len({row.large for row in rows}) < 2:
        return Section(title=REACHES)
    table = tuple((row.value, row.large or NOT_KNOWN) for row in rows)
    unknown = any(reach == NOT_KNOWN for _, reach in table)
    why = (WHY_NOT_KNOWN.format(study.whose().name.upper()),) * unknown
    return Section(title=REACHES, table=(("value", "busbw (~ estimate)"), *table), paragraphs=why)


def _slow(comparison: Comparison) -> float | None:
    """The time where NVLS does not come up without P2P, which nobody knows; else None."""
    other = comparison.without_nvls
    times = () if other is None else other.times
    return next((time.after_us for time in times if time.bytes == MEDIUM), None)


def _row(
    value: str, made: Prediction, large: str, *, here: bool, slow: float | None = None
) -> ValueRow:
    with_p2p, total = p2p_pairs(made)
    took = time_of(made, MEDIUM)
    medium = "" if took is None else duration(took)
    if large == FAILS:
        medium = FAILS
    elif slow is not None:
        medium = f"{medium} to {duration(slow)}"
    return ValueRow(
        value=value,
        here=here,
        pairs=f"{with_p2p} of {total}" if total else "",
        relayed=sum(pair.via is not None and pair.src < pair.dst for pair in made.pairs),
        by="" if large == FAILS else largest_choice(made),
        ring=described(made.graphs.ring),
        medium=medium,
        large=large,
    )


def _costs(
    node: Node,
    changes: Changes,
    made: Prediction,
    alike: Costs | None = None,
    slower: Prediction | None = None,
) -> Costs:
    """The costs of the node with these changes: `made` predicts them, `slower` without NVLS."""
    if version_of(changes):
        alike = None  # what is predicted for one version holds for no other
    found = Costs(Node(with_changes(node.snapshot, changes)).with_prediction(made), alike)
    if slower is not None:
        found.know(slower)
    return found


def reach_of(comparison: Comparison, node: Node, changes: Changes) -> tuple[str, str]:
    """What an all-reduce of 1 GiB reaches without and with changes; "" where nothing is known."""
    before, after = comparison.baseline, comparison.changed
    costs = _costs(node, {}, before)
    changed = _costs(node, changes, after, costs, comparison.slower)
    reached = _cost(costs, before)
    return reached, _asked(comparison, reached, _cost(changed, after))


def _asked(comparison: Comparison, before: str, after: str) -> str:
    """The figure after a change, unless it is the old one because the model does not ask."""
    return NOT_KNOWN if before and before == after and comparison.effect.blind else after


def reach_in_words(before: str, after: str) -> str:
    """Both figures of `reach_of`: "473 → 39.9 to 230 GB/s (predicted)"; "" for nothing known."""
    basis = "estimate" if "~" in before + after else "predicted"
    known = "" if NOT_KNOWN in (before, after) or after == FAILS else f" ({basis})"
    if not before or before == after:
        return f"{after} unchanged{known}" if before and known else before
    return f"{before.removesuffix(' GB/s') if known else before} → {after}{known}"


def _cost(costs: Costs, made: Prediction) -> str:
    """What an all-reduce of 1 GiB reaches: "473 GB/s", "39.9 to 230 GB/s", "not known".

    "~15.0 GB/s" is an estimate; one that is a range elsewhere is the same range here.
    """
    if made.failure:
        return FAILS
    cost = costs.all_reduce
    if cost is None:
        return ""
    if cost.here is None:
        return NOT_KNOWN
    if (span := cost.span) is not None:
        return f"~{figure(span[0])} to {figure(span[1])} GB/s"
    low = "" if cost.least is None else f"{figure(cost.least)} to "
    return f"{'~' if cost.basis == ESTIMATE else ''}{low}{figure(cost.here)} GB/s"


def transports(made: Prediction) -> tuple[str, ...]:
    """A letter for each ordered pair of ranks: P, R, S or N; "·" for a GPU and itself."""
    ranks = sorted({pair.src for pair in made.pairs})
    if not 1 < len(ranks) <= MOST_IN_MATRIX:
        return ()
    known = {
        (pair.src, pair.dst): LETTERS.get(pair.transport, "✗") if pair.via is None else RELAYED
        for pair in made.pairs
    }
    return tuple(
        "".join("·" if src == dst else known.get((src, dst), "?") for dst in ranks) for src in ranks
    )


def in_one_line(rows: tuple[ValueRow, ...]) -> str:
    """What the values do, those that do the same together; parts are joined by " · "."""
    first, *tried = rows
    by = gathered((_in_few_words(first, row), row.value) for row in tried)
    if first.value == NOT_SET:
        said = [f"={' ='.join(values)}: {text}" for text, values in by.items() if text]
        return " · ".join(said) or "no value changes anything here"
    runs = groupby(tried, lambda row: _in_few_words(first, row))
    spans = [(text, [row.value for row in run]) for text, run in runs if text]
    said = [
        f"{' to '.join([*reversed(values)][:: max(1, len(values) - 1)])}: {text}"
        for text, values in spans
    ]
    return " · ".join(said) or "no other version changes anything here"


def _in_few_words(first: ValueRow, row: ValueRow) -> str:
    """What is different from the variable not being set; "" for nothing."""
    found = []
    if row.pairs != first.pairs:
        found.append(f"P2P {row.pairs} pairs")
    if row.large != first.large:
        found.append(f"{ALL_REDUCE} {first.large} → {row.large}")
    clause = next(iter(row.clauses), "")
    if not found and not clause.startswith((NOTHING, NO_DECISION)):
        found.append(clause)
    return ", ".join(found)
