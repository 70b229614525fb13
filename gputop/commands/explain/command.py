"""`gputop explain`: what NCCL or RCCL will do on this node, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from gputop import __version__
from gputop.commands.explain.document import Advice, ExplainDocument, document
from gputop.commands.explain.text import installed, lines
from gputop.commands.options import completing, json_option, say_problems, source_options
from gputop.commands.predicting import changes_of, pair_of, predicting_options, selected
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.printing.render import blocks_of, texts, wrapped_text
from gputop.reading import read_snapshot
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json
from gputop.terminal.size import text_width
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.amd.links import FEW
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.flags.account.whatif_text import sections
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.flags.what_if.whatif import compare
from gputop.topology.nccl.decide.predict import NoGpusError
from gputop.topology.nccl.hosts.equal_hosts import LIMIT, predict_hosts
from gputop.topology.nccl.hosts.missing import UnknownNicError
from gputop.topology.nccl.prediction import NO_NVLS
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import UnknownVersionError
from gputop.topology.node import Node

if TYPE_CHECKING:
    from gputop.topology.expectation.cost.cost import Cost
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.nccl.hosts.records import MultiNode
    from gputop.topology.nccl.prediction import Prediction

HOST = re.compile(r"[0-9]{1,4}", re.ASCII)

ADVISED = "NCCL_MIN_NCHANNELS"
ENOUGH = 32


@click.command("explain")
@click.argument("src", required=False, shell_complete=completing("ranks"))
@click.argument("dst", required=False, shell_complete=completing("ranks"))
@source_options
@predicting_options
@click.option(
    "--nodes",
    type=click.IntRange(1, LIMIT),
    default=1,
    metavar="N",
    help=f"Also predict N hosts like this one, up to {LIMIT}: rings, trees, rails.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="HOST:NIC",
    help="With --nodes: a NIC that one host lacks, 3:mlx5_2; hosts count from 0. May be repeated.",
)
@click.option(
    "--against",
    metavar="VERSION",
    shell_complete=completing("versions"),
    default=None,
    help="What would change from the version of --nccl to this one, and by which rule.",
)
@json_option
def command(
    src: str | None,
    dst: str | None,
    sources: tuple[str, ...],
    demo: str | None,
    settings: tuple[str, ...],
    library: str | None,
    gpus: str | None,
    nodes: int,
    missing: tuple[str, ...],
    against: str | None,
    as_json: bool,
) -> None:
    """Predict transport, path, rings, trees and algorithms, with the reason for each.

    SRC and DST name one pair: a rank, a PCI address, a UUID, nvml:N or cuda:N. Without them
    all pairs of the communicator are shown.
    """
    changes = changes_of(settings)
    lacking = missing_of(missing, nodes)
    snapshot = read_snapshot(sources, demo)
    say_problems(snapshot)
    addresses = selected(gpus, snapshot.machine)
    asked = _Asked(snapshot, changes, library, addresses, nodes)
    with _refusals():
        if against is not None:
            if missing:
                raise Exit("--missing and --against: compare versions on equal hosts", USAGE)
            # What few ask for is imported where it is asked for.
            from gputop.commands.explain.against import explain_against

            names, ends = (library, against), (src, dst)
            explain_against(snapshot, names, ends, changes, addresses, nodes, as_json=as_json)
            return
        predicted = asked.predict(lacking)
    pair = pair_of(src, dst, snapshot.machine, predicted.prediction)
    suggestions = advice(snapshot, predicted.prediction)
    if as_json:
        print_json(_document(asked, predicted, pair, suggestions))
    else:
        _print_all(asked, predicted, pair, suggestions)


class _Predicted(NamedTuple):
    """The predictions that the options ask for."""

    baseline: Prediction
    """Without --set."""
    prediction: Prediction
    two: Prediction | None
    """Of a job over two hosts."""
    many: MultiNode | None
    """Of a job over several hosts."""


class _Asked(NamedTuple):
    """The node, the variables and the GPUs that are predicted."""

    snapshot: NodeSnapshot
    changes: dict[str, str | None]
    library: str | None
    addresses: tuple[str, ...] | None
    nodes: int

    @property
    def whole(self) -> bool:
        """Whether it is the node as it is."""
        return not self.changes and self.addresses is None and self.library is None

    def one(self, changes: dict[str, str | None], nodes: int = 1) -> Prediction:
        """The prediction with some changes."""
        settings = Settings.of(self.snapshot, changes)
        return predict_with_flags(
            self.snapshot, settings, library=self.library, gpus=self.addresses, nodes=nodes
        )

    def predict(self, lacking: tuple[tuple[int, str], ...]) -> _Predicted:
        """Everything that is asked for; `lacking`: NICs that single hosts lack."""
        baseline = self.one({})
        prediction = self.one(self.changes) if self.changes else baseline
        two = self.one(self.changes, 2) if self.nodes == 2 else None
        many = None
        if self.nodes > 1:
            many = predict_hosts(
                self.snapshot,
                Settings.of(self.snapshot, self.changes),
                library=self.library,
                gpus=self.addresses,
                hosts=self.nodes,
                missing=lacking,
            )
        return _Predicted(baseline, prediction, two, many)


@contextmanager
def _refusals() -> Iterator[None]:
    """End the command with a sentence where something cannot be predicted."""
    try:
        yield
    except UnknownNicError as error:
        raise Exit(f"--missing: {error}", USAGE) from error
    except UnknownVersionError as error:
        raise Exit(str(error), USAGE) from error
    except NoGpusError as error:
        raise Exit(f"nothing to explain: {error}", CANNOT_TELL) from error


def _document(
    asked: _Asked,
    predicted: _Predicted,
    pair: tuple[int, int] | None,
    suggestions: tuple[Advice, ...],
) -> ExplainDocument:
    def one(prediction: Prediction, advised: tuple[Advice, ...] = ()) -> ExplainDocument:
        source = asked.snapshot.source
        return document(prediction, gputop=__version__, source=source, pair=pair, advice=advised)

    shown = one(predicted.prediction, suggestions)
    if asked.changes:
        shown.baseline = one(predicted.baseline)
    if predicted.two is not None:
        shown.two_node = one(predicted.two)
    if predicted.many is not None:
        shown.multi_node = predicted.many
    return shown


def _print_all(
    asked: _Asked,
    predicted: _Predicted,
    pair: tuple[int, int] | None,
    suggestions: tuple[Advice, ...],
) -> None:
    baseline, prediction, two, many = predicted
    snapshot = asked.snapshot
    if many is not None:
        from gputop.commands.explain.hosts import sections as sections_of_hosts

        for line in texts(blocks_of(sections_of_hosts(many, prediction.assumptions)), text_width()):
            click.echo(clean(line, 400))
        click.echo("\nOne host alone:")
    whole = asked.whole and pair is None
    known = costs_of(Node(snapshot).deciding(baseline)).all_reduce if whole else None
    if named := installed(snapshot):
        click.echo(clean(named, 400))
    _print(prediction, pair, known)
    if suggestions:
        click.echo()
    for line in advice_lines(suggestions, text_width()):
        click.echo(clean(line, 400))
    if asked.changes:
        click.echo()
        slower = asked.one({**asked.changes, **NO_NVLS}) if prediction.by_nvls_alone else None
        comparison = compare(baseline, prediction, asked.changes, slower)
        for line in texts(blocks_of(sections(comparison)), text_width()):
            click.echo(clean(line, 400))
    if two is not None and pair is not None:
        click.echo("\nThe same pair in a job over two hosts:")
        _print(two, pair)


def missing_of(words: tuple[str, ...], nodes: int) -> tuple[tuple[int, str], ...]:
    """--missing HOST:NIC as pairs, each once."""
    found: dict[tuple[int, str], None] = {}
    for text in words:
        host, colon, nic = text.partition(":")
        if not colon or not nic or not HOST.fullmatch(host):
            raise Exit(f"--missing {clean(text, 60)!r}: write HOST:NIC, such as 3:mlx5_2", USAGE)
        found[int(host), nic] = None
    if found and nodes == 1:
        raise Exit("--missing needs --nodes: which host of how many lacks the NIC?", USAGE)
    return tuple(found)


def _print(prediction: Prediction, pair: tuple[int, int] | None, cost: Cost | None = None) -> None:
    for line in lines(prediction, text_width(), pair, "" if cost is None else cost.text):
        click.echo(clean(line, 400))


# Advice that a prediction does not show: for a job on some of the GPUs of an Instinct board.
def advice(snapshot: NodeSnapshot, prediction: Prediction) -> tuple[Advice, ...]:
    """The remarks of `check --gpus` on these GPUs; only RCCL has any."""
    gpus = sorted({pair.src_bus_id for pair in prediction.pairs})
    if prediction.library.name != "rccl" or len(gpus) < 2:
        return ()
    found = FEW.answer(Case(Node(snapshot), gpus=gpus))
    return tuple(
        Advice(
            id=finding.id,
            title=finding.title,
            why=f"{finding.evidence[0].value}; {finding.impact}",
            text="" if _set(prediction) else finding.fix[0].text,
            command="" if _set(prediction) else finding.fix[0].command,
        )
        for finding in found or ()
    )


def _set(prediction: Prediction) -> bool:
    value = prediction.environment.get(ADVISED, "")
    return value.isdecimal() and len(value) < 6 and int(value) >= ENOUGH


def advice_lines(suggestions: tuple[Advice, ...], width: int) -> Iterator[str]:
    """The advice as lines of text."""
    for suggestion in suggestions:
        yield from wrapped_text(f"{suggestion.title}: {suggestion.why}", width, 2)
        if suggestion.command:
            yield from wrapped_text(
                f"  {suggestion.text.rstrip('.')}: {suggestion.command}", width, 4
            )
