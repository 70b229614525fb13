"""What is known of a product, a node, a link, a NIC, a variable or a code; two side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from gputop.answers.known import Known, KnownFact, every_known_name, known
from gputop.answers.naming import grouped
from gputop.answers.question import Answer, Option, Question, Request
from gputop.answers.rule import RuleRequest
from gputop.answers.rule import answer as rule_of
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import did_you_mean
from gputop.terminal.size import text_width
from gputop.topology.hardware.specs import PublishedFigure
from gputop.topology.hardware.statements import ENOUGH
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.page import Block, Bullets, Column, Heading, Page, Table

WIDEST = 120
SYMPTOM = "it is a symptom in a log"
UNCONFIRMED = "?"
"""Stands behind what no source confirms."""
SINGLE = "~"
"""Stands behind a figure of a data sheet that fewer than two sources on record bear out."""
QUANTITIES = {
    "h2d": "host to GPU",
    "d2h": "GPU to host",
    "p2p_uni": "GPU to GPU, one way",
    "p2p_bidir": "GPU to GPU, both ways added",
    "hbm_init": "memory, written",
    "hbm_read": "memory, read",
    "hbm_write": "memory, written (OpenCL)",
    "hbm_lbm": "memory, lattice Boltzmann in FP32",
    "hbm_lbm_fp16": "memory, lattice Boltzmann in FP16",
    "vector_fp64": "vector FP64",
    "vector_fp32": "vector FP32",
    "vector_fp16": "vector FP16",
    "vector_int8": "INT8 dot products, without matrix units",
}
"""Quantities of specs.toml that say too little by themselves -> words."""


class AboutRequest(Request, frozen=True, kw_only=True):
    """Say what is known of a product, a node, a link, a NIC, a variable or a code.

    A GPU has its data sheet and what others measured on healthy ones, with the source of each
    figure. Several names stand side by side. Figures marked ? are confirmed by no source, those
    marked ~ by fewer than two on record.
    """

    names: Annotated[tuple[str, ...], Option("NAME", "", completes="known_names")]


class AboutAnswer(Answer, frozen=True, kw_only=True, tag="gputop.about/1"):
    """What the tables hold of each name."""

    known: tuple[Known, ...]


def answer(asked: AboutRequest) -> AboutAnswer:
    """Look the names up. Raises Exit, with what is like an unknown one."""
    found: list[Known] = []
    for name in grouped(asked.names, lambda name: bool(known(name))):
        of_name = known(name)
        if not of_name:
            raise _unknown(name, asked.names)
        found += of_name
    return AboutAnswer(source=(), known=tuple(dict.fromkeys(found)))


def _unknown(name: str, names: tuple[str, ...]) -> Exit:
    """Why there is nothing: it is a rule or a symptom, or like a name that is known."""
    for word in dict.fromkeys((name, *names)):
        try:
            rule = rule_of(RuleRequest(id=word)).rule
        except Exit as error:
            if SYMPTOM in str(error):
                return error
            continue
        return Exit(f"{rule.id} is a rule of check: see `gputop rule {rule.id}`", USAGE)
    whole = " ".join(names)
    hint = did_you_mean(whole, every_known_name()) or did_you_mean(name, every_known_name())
    return Exit(f"nothing is known of {clean(name, 60)!r}{hint}", USAGE)


def page(found: AboutAnswer) -> Page:
    """Facts side by side, then the figures and the sources of each."""
    blocks: list[Block] = []
    for kind in dict.fromkeys(one.kind for one in found.known):
        several = [one for one in found.known if one.kind is kind]
        blocks += [Heading(", ".join(one.name for one in several)), _side_by_side(several)]
        for one in several:
            if one.figures:
                blocks += [Heading(f"Healthy figures of {one.name}"), _figures(one.figures)]
        sources = dict.fromkeys(source for one in several for source in one.sources)
        if sources:
            blocks += [Heading("Sources"), Bullets(tuple(sources))]
    return Page(title="about", blocks=tuple(blocks))


def _side_by_side(several: Iterable[Known]) -> Table:
    of_each = [{fact.what: fact for fact in one.facts} for one in several]
    rows = dict.fromkeys(what for facts in of_each for what in facts)
    cells = ((what, *(_value(facts.get(what)) for facts in of_each)) for what in rows)
    names = (Column(one.name if len(of_each) > 1 else "") for one in several)
    return Table((Column(""), *names), tuple(cells))


def _value(fact: KnownFact | None) -> str:
    if fact is None:
        return ""
    value = fact.value if isinstance(fact.value, str) else f"{fact.value:g}"
    unsure = "" if fact.confirmed else f" {UNCONFIRMED}"
    if fact.confirmed and fact.agree is not None and len(fact.agree) < ENOUGH:
        unsure = f" {SINGLE}"
    return f"{value} {fact.unit}".rstrip() + unsure + _elsewhere(fact)


def _elsewhere(fact: KnownFact) -> str:
    """What others say instead, without the unit."""
    others = dict.fromkeys(f"{one.value:g}" for one in fact.differ)
    return f" (also {', '.join(others)})" if others else ""


def _figures(figures: Iterable[PublishedFigure]) -> Table:
    heads = (
        Column("quantity"), Column("measured", right=True), Column("of peak", right=True),
        Column("kind"), Column("source, note"),
    )  # fmt: skip
    of_quantity = gathered_by(figures, lambda one: one.quantity)
    rows = (_figure(one) for several in of_quantity.values() for one in several)
    return Table(heads, tuple(rows))


def _figure(one: PublishedFigure) -> tuple[str, ...]:
    what = QUANTITIES.get(one.quantity, one.quantity.replace("_", " "))
    how = (one.gpus and f"{one.gpus} GPUs", one.algorithm)
    what += "".join(f", {part}" for part in how if part)
    share = "" if one.fraction is None else f"{100 * one.fraction:.0f} %"
    told = "; ".join(filter(None, (one.source, one.note)))
    return what, f"{one.measured:g} {one.unit}", share, one.kind, told


QUESTION = Question(
    name="about",
    request=AboutRequest,
    answer=answer,
    page=page,
    width=lambda: text_width(WIDEST),
)
