"""What another version of the library would change here: `gputop explain --against`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gputop.answers.explain import ExplainAnswer, ExplainRequest, answer_of
from gputop.answers.predicting import pair_of
from gputop.exits import USAGE, Exit
from gputop.topology.explain.prediction import pair_blocks
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.model.page import Blank, Block, Text
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.summary import library_name
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import taken_for
from gputop.topology.upgrade.known_defects import differing
from gputop.topology.upgrade.known_defects import sections as defect_sections
from gputop.topology.upgrade.text import (
    cost_line,
    decisions,
    estimate,
    head_lines,
    heading,
    sections,
)
from gputop.topology.upgrade.upgrade import (
    Difference,
    OtherLibraryError,
    Upgrade,
    pair_of_names,
    upgrade,
)


class UpgradeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of two answers of `gputop explain`, with the rules behind them."""

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
    left: tuple[str, ...] = ()
    """Known defects that the other version does not have, as far as this node may meet them."""
    brought: tuple[str, ...] = ()
    """Known defects that the other version has and the first one has not."""


class AgainstAnswer(ExplainAnswer, frozen=True, kw_only=True, tag="gputop.explain/1"):
    """What the first version decides; what the other one does stands in `against`."""

    against: ExplainAnswer
    upgrade: UpgradeDocument


class Compared(msgspec.Struct, frozen=True):
    """What a page on an upgrade shows."""

    found: Upgrade
    head: tuple[str, ...]
    pair: tuple[int, int] | None
    left: tuple[str, ...]
    brought: tuple[str, ...]

    @classmethod
    def of(
        cls,
        found: Upgrade,
        head: tuple[str, ...],
        pair: tuple[int, int] | None,
        snapshot: NodeSnapshot,
    ) -> Compared:
        """The page, with the known defects in which the two versions differ on this node."""
        then, now = found.before.library, found.after.library
        left, brought = differing(snapshot, then, now), differing(snapshot, now, then)
        return cls(found, head, pair, left, brought)

    def blocks(self) -> Iterator[Block]:
        """The answer first, then what changes by which rule, then the tables."""
        for text in self.head:
            yield Text(text)
        told = list(decisions(self.found))
        if told:
            yield from (Blank(), Text(heading(self.found)))
        for rules, lines in told:
            yield from (Text(rule, indent=2) for rule in rules)
            yield from (Text(f"- {line}", indent=4) for line in lines)
        for side in (self.found.before, self.found.after):
            decided = None if self.pair is None else side.pair(*self.pair)
            if decided is not None:
                yield from (Blank(), Text(f"{library_name(side)}:"), *pair_blocks(decided))
        yield Blank()
        for section in (*defect_sections(self.left, self.brought), *sections(self.found)):
            yield from section.blocks()


def answer(
    asked: ExplainRequest,
    snapshot: NodeSnapshot,
    changes: Mapping[str, str | None],
    gpus: tuple[str, ...] | None,
) -> AgainstAnswer:
    """Say what changes from the version of --nccl to that of --against.

    Raises NoGpusError, UnknownVersionError.
    """
    try:
        first, second = pair_of_names(snapshot, asked.library, str(asked.against))
    except OtherLibraryError as error:
        raise Exit(f"--against: {error}", USAGE) from error
    settings = Settings.of(snapshot, changes)
    nodes, pair = asked.nodes, None
    if (asked.src, asked.dst) != (None, None):
        alone = predict_with_flags(snapshot, settings, library=first, gpus=gpus, nodes=nodes)
        pair = pair_of(asked.src, asked.dst, snapshot.machine, alone)
    found = upgrade(
        snapshot,
        first,
        second,
        settings=settings,
        gpus=gpus,
        nodes=nodes,
        pair=pair,
        figures=asked.as_json,
    )
    whole = gpus is None and nodes == 1
    cost = "" if pair is not None else cost_line(found, snapshot, whole=whole)
    typed = (asked.library or first, first), (str(asked.against), second)
    taken = [text for name, whole in typed if (text := taken_for(name, whole))]
    head = (*head_lines(found, _where(snapshot, pair), cost), *taken)
    sides = found.before, found.after
    names = [f"{side.library.name}-{side.library.version}" for side in sides]
    guesses = dict(zip(names, map(estimate, sides), strict=True))
    view = Compared.of(found, head, pair, snapshot)
    one, other = (answer_of(side, snapshot.source, pair) for side in sides)
    fields: dict[str, Any] = msgspec.structs.asdict(one)
    return AgainstAnswer(
        **fields | {"view": view},
        against=other,
        upgrade=UpgradeDocument(
            before=names[0],
            after=names[1],
            answer=head,
            changes=found.topics,
            differences=found.differences,
            compared=found.compared,
            estimates={name: why for name, why in guesses.items() if why},
            left=view.left,
            brought=view.brought,
        ),
    )


def _where(snapshot: NodeSnapshot, pair: tuple[int, int] | None) -> str:
    source = " ".join(snapshot.source) if snapshot.source else "this node"
    source = "this node" if source == "live" else source.removeprefix("demo ")
    return source if pair is None else f"{source} for ranks {pair[0]} and {pair[1]}"
