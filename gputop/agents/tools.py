"""The tools: each takes its arguments, asks what its command asks, and tells facts.

Nothing is computed here: what a tool says is an answer of the library or of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gputop.agents.finding_facts import told_finding
from gputop.agents.log_facts import log_facts
from gputop.agents.places import confined
from gputop.agents.requests import (
    CheckTool,
    CompareTool,
    CostTool,
    ExplainTool,
    FiguresTool,
    JobsTool,
    NextMeasurementTool,
    NodeTool,
    ReadTextTool,
    ToolRequest,
    TopologyTool,
    WhatIfTool,
    WhichTool,
)
from gputop.agents.told import AgentAnswer, AgentFact, FactKind, bounded, document_of
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.library import NodeAnswers, demo, read_text
from gputop.topology.model.errors import GputopError
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Page
from gputop.topology.model.severity import RungState
from gputop.topology.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.answers.places import NicAnswer, NumaAnswer, P2pAnswer

PREDICTED, CONCLUDED, READ, OPEN = (
    FactKind.PREDICTED,
    FactKind.CONCLUDED,
    FactKind.READ,
    FactKind.OPEN,
)
_COLUMNS = 100
_MEASURING = Lock()
_PROBE = re.compile(r"\bprobe ([a-z][a-z0-9-]+)")


class Heard(NamedTuple):
    """What a tool found: the node that it is about, where there is one, and the facts."""

    node: NodeSnapshot | None
    facts: Iterable[AgentFact]
    assumptions: tuple[str, ...] = ()
    other: NodeSnapshot | None = None
    """The node that it is held against."""


def _node(asked: NodeTool) -> Heard:
    found = asked.node()
    return Heard(found.snapshot, _node_facts(found), found.snapshot.assumptions)


def _node_facts(found: NodeAnswers) -> Iterator[AgentFact]:
    machine, source = found.snapshot.machine, ", ".join(found.snapshot.source)
    for what, records, names in (
        ("host", (machine.host,), _HOST),
        ("software", (machine.software,), None),
        ("GPU", machine.gpus, _GPU),
    ):
        for record in records:
            value = {} if record is None else _known(record, names)
            why = () if value else ("nobody told it",)
            yield AgentFact(what, value or None, READ, source, why=why)
    nics = [nic.name for nic in machine.rdma] or [one.name for one in machine.interfaces]
    why = () if nics else ("no NIC was read",)
    yield AgentFact("NICs", nics or None, READ, source, why=why)
    for problem in found.problems:
        yield AgentFact("could not be read", None, OPEN, "", why=(problem,))


_HOST = ("hostname", "os_name", "kernel", "cpu_model_name", "memory_bytes", "hypervisor")
_GPU = (
    "index", "address", "name", "memory_bytes", "numa_node", "pcie_gen_max", "pcie_width_max",
    "power_limit_watts", "mig_enabled", "ecc_enabled",
)  # fmt: skip


def _known(record: Any, names: tuple[str, ...] | None) -> dict[str, Any]:
    """The fields of a record that somebody told."""
    fields = {name: getattr(record, name) for name in names or record.__struct_fields__}
    return {name: value for name, value in fields.items() if value not in (None, (), "")}


def _topology(asked: TopologyTool) -> Heard:
    found = asked.node()
    if asked.peer and not asked.gpu:
        raise Exit("peer needs gpu: a pair has two", USAGE)
    if asked.peer:
        pair = found.p2p(asked.gpu, asked.peer)
        return Heard(found.snapshot, _pair(pair), pair.assumptions)
    if asked.gpu:
        nic = found.nic_of(asked.gpu)
        return Heard(found.snapshot, _places(nic, found.numa_of(asked.gpu)), nic.assumptions)
    from gputop.topology.exports.written import exported

    written = exported("matrix", found.node)
    source = ", ".join(found.snapshot.source)
    matrix = AgentFact("matrix", written.text.expandtabs(10), READ, source)
    return Heard(found.snapshot, (matrix,), written.assumptions)


def _pair(pair: P2pAnswer) -> Iterator[AgentFact]:
    source = ", ".join(pair.source)
    who = f"{pair.src} to {pair.dst}"
    why = tuple(dict.fromkeys(text.rstrip(".") for text in pair.why))
    unasked = ("nobody asked the driver",) if pair.granted is None else ()
    for what, value, kind, because in (
        ("P2P granted by the driver", pair.granted, READ, unasked),
        ("P2P used by the library", pair.uses_p2p, PREDICTED, why),
        ("way", pair.way, PREDICTED, ()),
    ):
        yield AgentFact(f"{what}, {who}", value, kind, source, why=because)
    for what, gbs in (
        ("healthy large copy", pair.healthy_gbs),
        ("large copy that this pair should reach", pair.expected_gbs),
    ):
        yield AgentFact(
            f"{what}, {who}",
            gbs,
            OPEN if gbs is None else FactKind(pair.basis or FactKind.TYPICAL.value),
            ", ".join(pair.references),
            unit="GB/s one way",
            why=() if gbs is not None else ("no reference for such a pair", *why),
            disproof="another figure of `gputop probe p2p` on idle GPUs",
        )
    for rung in pair.ladder:
        open_ = rung.state in (RungState.OPEN, RungState.ASSUMED)
        yield AgentFact(
            f"ladder: {rung.title}",
            f"{rung.state}: {rung.answer}",
            OPEN if open_ else CONCLUDED,
            source,
        )


def _places(nic: NicAnswer, numa: NumaAnswer) -> Iterator[AgentFact]:
    source = ", ".join(nic.source)
    place = {"nic": nic.nic, "place": nic.place, "taken_by_library": nic.taken}
    kind = PREDICTED if nic.taken else CONCLUDED
    yield AgentFact(f"NIC of {nic.gpu}", place if nic.nic else None, kind, source, why=nic.why)
    near = {"numa_node": numa.numa_node, "cpus": numa.cpus}
    told = numa.numa_node is not None or numa.cpus
    yield AgentFact(f"NUMA of {nic.gpu}", near if told else None, READ, source, why=numa.why)


def _text_of(page: Page) -> str:
    from gputop.printing.render import texts

    return "\n".join(texts(page.blocks, _COLUMNS))


def _explain(asked: ExplainTool) -> Heard:
    from gputop.answers import explain

    found = asked.node()
    if bool(asked.collective) != (asked.size_bytes is not None):
        raise Exit("a call needs a collective and a size_bytes", USAGE)
    request = explain.ExplainRequest(
        given=found.snapshot,
        gpus=asked.gpus or None,
        nodes=asked.nodes,
        library=asked.library or None,
    )
    answer = explain.answer(request)
    by = f"{answer.library.name} {answer.library.version}: gputop's model of its source"
    facts = []
    if asked.collective and asked.size_bytes is not None:
        call = explain.call_of(request, answer, asked.collective, asked.size_bytes)
        why = () if call.choices else ("not known for this library and node",)
        choices = call.choices or (None,)
        what = f"{asked.collective} of {asked.size_bytes} bytes"
        facts = [AgentFact(what, one, PREDICTED, by, why=why) for one in choices]
    page = AgentFact(
        "explanation",
        _text_of(explain.QUESTION.page(answer)),
        PREDICTED,
        by,
        disproof="other words in a log of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,GRAPH",
    )
    return Heard(found.snapshot, (*facts, page), answer.assumptions)


def _what_if(asked: WhatIfTool) -> Heard:
    from gputop.answers import explain, flags

    found = asked.node()
    if not (asked.variable or asked.set):
        raise Exit("name a variable, or set some", USAGE)
    shared: dict[str, Any] = {
        "given": found.snapshot,
        "settings": tuple(f"{name}={value}" for name, value in asked.set.items()),
        "library": asked.library or None,
    }
    facts = []
    for name in dict.fromkeys(filter(None, (asked.variable, *asked.set))):
        try:
            told = flags.QUESTION.answer(flags.FlagsRequest(name=name, **shared | {"settings": ()}))
        except Exit as error:
            facts.append(AgentFact(name, None, OPEN, "", why=(str(error),)))
            continue
        text = _text_of(flags.QUESTION.page(told))
        source = "" if told.flag is None else told.flag.source
        facts.append(AgentFact(name, text, CONCLUDED, source))
    if asked.set:
        answer = explain.answer(explain.ExplainRequest(**shared))
        by = f"{answer.library.name} {answer.library.version}: gputop's model of its source"
        text = _text_of(explain.QUESTION.page(answer))
        facts.insert(0, AgentFact("what would change", text, PREDICTED, by))
    return Heard(found.snapshot, facts)


def _which(asked: WhichTool) -> Heard:
    from gputop.answers import which

    found = asked.node()
    answer = found.which(asked.count, busy=asked.busy)
    source = ", ".join(answer.source)
    out = tuple(f"left out: {one.name}: {one.why}" for one in answer.left_out)
    text = _text_of(which.QUESTION.page(answer))
    best = None if answer.best is None else answer.best.gpus
    kind = PREDICTED if answer.library else CONCLUDED
    facts = (
        AgentFact(f"best {asked.count} GPUs, by rank", best, CONCLUDED, source, why=out),
        AgentFact("why, and what the second best loses", text, kind, answer.library or source),
    )
    return Heard(found.snapshot, facts, answer.assumptions)


def _cost(asked: CostTool) -> Heard:
    from gputop.agents.cost_facts import facts, known
    from gputop.answers.cost import QUESTION

    model = known(asked)
    found = asked.node()
    answer = found.cost(
        model, config=asked.config, nodes=asked.nodes, layout=asked.layout,
        sequence=asked.sequence, dtype=asked.dtype, serve=asked.serve,
    )  # fmt: skip
    return Heard(found.snapshot, facts(answer, _text_of(QUESTION.page(answer))), answer.assumptions)


def _check(asked: CheckTool) -> Heard:
    from gputop.answers.check import CheckRequest, answer

    found = asked.node()
    if asked.measure and (asked.file or asked.text):
        raise Exit("a recording cannot be measured", USAGE)
    request = CheckRequest(
        given=found.snapshot,
        demo=asked.demo or None,
        quick=not asked.measure,
        expect=asked.expect or None,
    )
    # Two that measure at a time would falsify each other's figures.
    with _MEASURING if asked.measure else nullcontext():
        of = answer(request)
    return Heard(of.snapshot, _verdict(of), of.assumptions)


def _verdict(of: Any) -> Iterator[AgentFact]:
    source = ", ".join(of.source)
    missing = tuple(f"not known: {lack.what}: {lack.why}" for lack in of.evidence_missing)
    yield AgentFact("verdict", of.verdict_line, CONCLUDED, source, why=missing)
    yield from map(told_finding, of.findings)


def _read_text(asked: ReadTextTool) -> Heard:
    node = demo(asked.demo) if asked.demo else None
    try:
        answer: Any = read_text(asked.text, node)
    except Exit as error:
        why = f"{error}. What describes a node goes to node, topology or check as `text`"
        raise Exit(why, error.exit_code) from error
    if hasattr(answer, "jobs"):
        return Heard(None, _jobs_facts(answer), answer.assumptions)
    read, said = answer.read, answer.read.outcome.sentence
    facts = [
        *(AgentFact("outcome", said, CONCLUDED, "the text"),) * bool(said),
        *map(told_finding, read.findings),
        *log_facts(read),
    ]
    if answer.next:
        facts.append(AgentFact("next step", answer.next, CONCLUDED, ""))
    unknown = tuple(f"line {note.line}: {note.text}" for note in answer.unexplained)
    if unknown:
        facts.append(AgentFact("not explained", len(unknown), OPEN, "", quoted=unknown))
    return Heard(None, facts, answer.assumptions)


def _jobs(asked: JobsTool) -> Heard:
    found = asked.node()
    answer = found.jobs()
    return Heard(found.snapshot, _jobs_facts(answer), answer.assumptions)


def _jobs_facts(answer: Any) -> Iterator[AgentFact]:
    kind = FactKind.SIMULATED if answer.simulated else READ
    source = ", ".join(answer.source)
    if not answer.jobs:
        from gputop.answers.jobs import nothing

        why = (nothing(answer.snapshot),)
        yield AgentFact("jobs", None, OPEN, source, why=why)
    for job in answer.jobs:
        yield AgentFact(
            f"job {job['name']}: {job['verdict']}",
            job["sentence"],
            kind,
            source,
            why=tuple(f"{fact['text']} ({fact['from']})" for fact in job["facts"]),
            do=tuple(map(str, job["next"])),
        )
        ranks = [{name: rank[name] for name in _RANK if rank[name]} for rank in job["ranks"]]
        yield AgentFact(f"ranks of {job['name']}", ranks, kind, source)


_RANK = ("rank", "pid", "gpus", "trouble", "last_collective", "gpu_busy_percent")


def _figures(asked: FiguresTool) -> Heard:
    from gputop.agents.figures import facts

    return Heard(None, facts(asked))


def _compare(asked: CompareTool) -> Heard:
    from gputop.agents.diff_facts import facts
    from gputop.answers.diff import LIVE, DiffRequest, answer_of, compared
    from gputop.terminal.lines import unsaid

    with unsaid():
        found = compared(DiffRequest(before=asked.before, now=asked.after or LIVE))
    now, before = (
        None if side.node is None else side.node.snapshot for side in (found.now, found.before)
    )
    answer = answer_of(found)
    return Heard(now, facts(answer), answer.assumptions, before)


def _next(asked: NextMeasurementTool) -> Heard:
    from gputop.answers.check import CheckRequest, answer

    found = asked.node()
    of = answer(CheckRequest(given=found.snapshot, demo=asked.demo or None, quick=True))
    log: Any = read_text(asked.log, found) if asked.log else None
    more = log.read.findings if hasattr(log, "read") else ()
    return Heard(of.snapshot, _deciding((*more, *of.findings), of, len(found.gpus)))


def _deciding(findings: Iterable[Finding], of: Any, gpus: int) -> Iterator[AgentFact]:
    """What decides between candidates first, then the probes that rules wait for."""
    for finding in findings:
        for one in finding.candidates:
            if one.needs:
                what, sources = f"decides about: {finding.title}", ", ".join(finding.sources)
                why = (f"possible: {one.cause}",)
                yield AgentFact(what, one.needs, OPEN, sources, why=why)
    yield from _waited_for(of, gpus)
    for lack in of.evidence_missing:
        yield AgentFact(f"read {lack.what}", lack.printed_by or None, OPEN, "", why=(lack.why,))


def _waited_for(of: Any, gpus: int) -> Iterator[AgentFact]:
    """The probes that rules wait for, the one that most wait for first."""
    from gputop.checking.runs import all_rules
    from gputop.measuring.quantities import specs

    waiting: dict[str, list[str]] = {}
    for rule in all_rules():
        asks = _PROBE.search(rule.evidence) if rule.id in of.not_examined else None
        if asks and asks[1] in specs():
            waiting.setdefault(asks[1], []).append(rule.title)
    for probe in sorted(waiting, key=lambda name: -len(waiting[name])):
        yield AgentFact(
            f"gputop probe {probe}",
            f"about {specs()[probe].estimate_seconds(gpus):.0f} s on {gpus} idle GPUs",
            FactKind.ESTIMATE,
            specs()[probe].measures,
            why=tuple(f"would decide: {title}" for title in waiting[probe]),
        )


class AgentTool(NamedTuple):
    """One tool. Its description is the docstring of its request."""

    name: str
    request: type[ToolRequest]
    call: Callable[[Any], Heard]


TOOLS = (
    AgentTool("node", NodeTool, _node),
    AgentTool("topology", TopologyTool, _topology),
    AgentTool("explain", ExplainTool, _explain),
    AgentTool("what_if", WhatIfTool, _what_if),
    AgentTool("which", WhichTool, _which),
    AgentTool("cost", CostTool, _cost),
    AgentTool("check", CheckTool, _check),
    AgentTool("read_text", ReadTextTool, _read_text),
    AgentTool("jobs", JobsTool, _jobs),
    AgentTool("figures", FiguresTool, _figures),
    AgentTool("compare", CompareTool, _compare),
    AgentTool("next_measurement", NextMeasurementTool, _next),
)


def asked_for(name: str, arguments: dict[str, Any]) -> tuple[AgentTool, ToolRequest]:
    """The tool and its arguments; raises Exit for what it does not take."""
    tool = next((one for one in TOOLS if one.name == name), None)
    if tool is None:
        raise Exit(f"no tool {name[:60]!r}; there are: {', '.join(t.name for t in TOOLS)}", USAGE)
    try:
        return tool, msgspec.convert(arguments, tool.request)
    except msgspec.ValidationError as error:
        raise Exit(f"{name}: {error}", USAGE) from error


def _unknown_is_open(fact: AgentFact) -> AgentFact:
    return fact if fact.value is not None else msgspec.structs.replace(fact, kind=OPEN)


def _error_text(error: GputopError, *, redact: bool) -> str:
    """An error without lines of a text: a tool would show any file that its user may read, and
    an agent could take them for words of gputop.
    """  # noqa: D205
    text, cause = str(error), error.__cause__
    while cause is not None:
        text, cause = text.replace(getattr(cause, "quoted", ""), ""), cause.__cause__
    if redact:
        from gputop.checking.redacting import hidden

        text = hidden({"error": text}, None)["error"]
    return text


def answer_text(
    name: str, arguments: dict[str, Any], *, redact: bool = False, roots: Sequence[str] = ()
) -> str:
    """What a tool answers, as JSON of bounded size. Raises GputopError.

    `roots`: the folders below which it may open files, where not all are allowed.
    """
    tool, request = asked_for(name, arguments)
    try:
        request = confined(request, roots)
        heard = tool.call(request)
        facts = tuple(map(_unknown_is_open, heard.facts))
    except GputopError as error:
        raise Exit(_error_text(error, redact=redact), error.exit_code) from error
    node = () if heard.node is None else tuple(heard.node.source)
    if not facts:
        raise Exit("nothing is known about that", CANNOT_TELL)
    answer = AgentAnswer(tool=name, node=node, facts=facts, assumptions=heard.assumptions)
    document = document_of(answer)
    if redact:
        from gputop.checking.redacting import hidden

        document = hidden(document, heard.node, heard.other)
    return bounded(document, request.most_bytes)
