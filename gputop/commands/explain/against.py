"""`gputop explain --against`: what another version of the library would change here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
import msgspec

from gputop import __version__
from gputop.commands.explain.document import ExplainDocument, document
from gputop.commands.explain.text import pair_lines
from gputop.commands.predicting import pair_of
from gputop.exits import USAGE, Exit
from gputop.printing.render import blocks_of, texts, wrapped_text
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json
from gputop.terminal.size import text_width
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.summary import library_name
from gputop.topology.nccl.settings import Settings
from gputop.topology.upgrade.costs import cost_line
from gputop.topology.upgrade.text import answer, decisions, estimate, heading, sections
from gputop.topology.upgrade.upgrade import (
    Difference,
    OtherLibraryError,
    Upgrade,
    pair_of_names,
    upgrade,
)


class UpgradeDocument(msgspec.Struct, kw_only=True):
    """The differences of two documents of `gputop explain`, with the rules behind them."""

    before: str
    """"nccl-2.21.5"."""
    after: str
    answer: tuple[str, ...]
    """The answer in lines of text."""
    changes: tuple[str, ...]
    """The topics in which the library decides otherwise."""
    differences: tuple[Difference, ...]
    compared: dict[str, int]
    """Topic -> how many pairs, NICs, graphs or figures were held beside each other."""
    estimates: dict[str, str]
    """Version -> why its rules are an estimate; those compared with recordings are absent."""


class AgainstDocument(ExplainDocument, kw_only=True):
    """What the first version decides; what the other one does stands in `against`."""

    against: ExplainDocument
    upgrade: UpgradeDocument


def explain_against(
    snapshot: NodeSnapshot,
    names: tuple[str | None, str],
    pair: tuple[str | None, str | None],
    changes: Mapping[str, str | None],
    gpus: tuple[str, ...] | None,
    nodes: int,
    *,
    as_json: bool,
) -> None:
    """Print what changes from one version to the other; `names`: --nccl and --against.

    Raises NoGpusError, UnknownVersionError.
    """
    try:
        first, second = pair_of_names(snapshot, *names)
    except OtherLibraryError as error:
        raise Exit(f"--against: {error}", USAGE) from error
    settings = Settings.of(snapshot, changes)
    ranks = None
    if pair != (None, None):
        alone = predict_with_flags(snapshot, settings, library=first, gpus=gpus, nodes=nodes)
        ranks = pair_of(*pair, snapshot.machine, alone)
    found = upgrade(
        snapshot,
        first,
        second,
        settings=settings,
        gpus=gpus,
        nodes=nodes,
        pair=ranks,
        figures=as_json,
    )
    whole = gpus is None and nodes == 1
    cost = "" if ranks is not None else cost_line(found, snapshot, whole=whole)
    head = answer(found, _where(snapshot, ranks), cost)
    if as_json:
        print_json(_document(found, snapshot, head, ranks))
        return
    for line in _lines(found, head, text_width(), ranks):
        click.echo(clean(line, 400))


def _where(snapshot: NodeSnapshot, pair: tuple[int, int] | None) -> str:
    source = " ".join(snapshot.source) if snapshot.source else "this node"
    source = "this node" if source == "live" else source.removeprefix("demo ")
    return source if pair is None else f"{source} for ranks {pair[0]} and {pair[1]}"


def _document(
    found: Upgrade, snapshot: NodeSnapshot, head: tuple[str, ...], pair: tuple[int, int] | None
) -> AgainstDocument:
    one, other = (
        document(side, gputop=__version__, source=snapshot.source, pair=pair)
        for side in (found.before, found.after)
    )
    names = [f"{side.library.name}-{side.library.version}" for side in (found.before, found.after)]
    made = UpgradeDocument(
        before=names[0],
        after=names[1],
        answer=head,
        changes=found.topics,
        differences=found.differences,
        compared=found.compared,
        estimates={
            name: why
            for name, side in zip(names, (found.before, found.after), strict=True)
            if (why := estimate(side))
        },
    )
    return AgainstDocument(**msgspec.structs.asdict(one), against=other, upgrade=made)


def _lines(
    found: Upgrade, head: tuple[str, ...], width: int, pair: tuple[int, int] | None
) -> Iterator[str]:
    for text in head:
        yield from wrapped_text(text, width, 2)
    told = list(decisions(found))
    if told:
        yield ""
        yield heading(found)
        for rules, lines in told:
            for rule in rules:
                yield from wrapped_text(f"  {rule}", width, 4)
            for line in lines:
                yield from wrapped_text(f"    - {line}", width, 6)
    if pair is not None:
        for side in (found.before, found.after):
            decided = side.pair(*pair)
            if decided is not None:
                yield ""
                yield f"{library_name(side)}:"
                yield from pair_lines(decided, width)
    yield ""
    yield from texts(blocks_of(sections(found)), width)
