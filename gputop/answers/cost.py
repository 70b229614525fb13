"""What a model costs on this node, layout by layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import msgspec

from gputop.answers.cost_asked import divided, free_again, seconds_of, shape_called, ways_of
from gputop.answers.cost_page import page
from gputop.answers.cost_records import (
    CostAnswer,
    CostCalibration,
    calibration_of,
    layout_of,
)
from gputop.answers.predicting import LIBRARY, SETTINGS, changes_of
from gputop.answers.question import Clash, NodeRequest, Option, Question
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.cost.calibration import Calibration, calibrated, told
from gputop.topology.cost.edges import LayoutEdges
from gputop.topology.cost.gpu import GpuRates, measured_rates, rates_of
from gputop.topology.cost.layer import launches_here
from gputop.topology.cost.layout import StepPlan
from gputop.topology.cost.memory import STATES, KernelStyle, kv_bytes
from gputop.topology.cost.models import is_spelled, models
from gputop.topology.cost.node_wires import NETWORK_SHARE, NodeWires
from gputop.topology.cost.ranked import Free, RankedLayout, fits_from, layouts, ranked, sequences_of
from gputop.topology.cost.rooflines import JoinedRanks, rooflines
from gputop.topology.cost.sentences import (
    EXPERTS_FAR,
    LAUNCHES,
    LAUNCHES_HERE,
    NOT_MODELLED,
    SERVING_NOTES,
    tensor_balance,
    why,
)
from gputop.topology.cost.serving import Serving, servings
from gputop.topology.cost.shape import ModelShape
from gputop.topology.cost.step import step_time
from gputop.topology.cost.wires import GroupWire
from gputop.topology.cost.work import Recompute, work_of
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.flags.what_if.changes import with_changes
from gputop.topology.hardware.specs import Sku
from gputop.topology.model.english import listing, plural
from gputop.topology.model.severity import FigureBasis
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.versions import UnknownVersionError, asked_for, version_for
from gputop.topology.node import Node

SEQUENCE = 4096
"""Where nobody says and the model was made for as many."""
LONGEST = 1 << 24
AGAINST_P2P = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE")
"""Variables that take GPUs from their links, or from the memory of the host."""
WORTH = 0.99
"""A step that is no shorter than this share without them says nothing."""
ANY = "any"


class CostRequest(NodeRequest, frozen=True, kw_only=True):
    """Say what training a model costs on this node, layout by layout.

    MODEL is a name ("Llama 3 8B") or the config.json of a model. All layouts that divide it are
    ranked by tokens a second; each with the memory of a GPU, what is exposed of its communication,
    and one sentence on why. Nothing is measured: times are predicted from healthy figures.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(
            ("--batch",), ("--accum",), "--batch and --accum each say how many sequences there are"
        ),
        Clash(("--observed-step",), ("--layout",), "--observed-step needs --layout", needed=True),
        Clash(
            ("--serve",),
            ("--layout", "--observed-step"),
            "--serve is about no training: it tries every width of tensor parallelism",
        ),
    )

    names: Annotated[tuple[str, ...], Option("MODEL", "")] = ()
    model: Annotated[
        str,
        Option(
            "--model",
            "The model, as a name or a config.json, if it does not stand in front.",
            "NAME",
        ),
    ] = ""
    layout: Annotated[
        str, Option("--layout", "Only these ways: tp=8,pp=2,dp=4,ep=1,cp=1; some may be left out.")
    ] = ""
    sequence: Annotated[
        int | None, Option("--seq", "Tokens of a sequence.", "N", least=1, most=LONGEST)
    ] = None
    micro: Annotated[
        int | None,
        Option("--micro", "Sequences of a micro-batch.", "N", least=1, most=1 << 16),
    ] = None
    accumulation: Annotated[
        int | None,
        Option("--accum", "Micro-batches of a step on each rank.", "N", least=1, most=1 << 20),
    ] = None
    batch: Annotated[
        int | None,
        Option("--batch", "Sequences of a step, over all GPUs.", "N", least=1, most=1 << 24),
    ] = None
    interleave: Annotated[
        int | None,
        Option(
            "--interleave",
            "Groups of layers that each stage of a pipeline has (Megatron's virtual stages).",
            "N",
            least=1,
            most=1 << 10,
        ),
    ] = None
    dtype: Annotated[str, Option("--dtype", "Type of the weights.", choices=tuple(STATES))] = "bf16"
    zero: Annotated[
        int | None, Option("--zero", "Stage of ZeRO; 3 is FSDP.", "0-3", least=0, most=3)
    ] = None
    recompute: Annotated[
        str,
        Option(
            "--recompute",
            "What backward works out again; any is tried where it is left out.",
            choices=(ANY, *(one.value for one in Recompute)),
        ),
    ] = ANY
    offload: Annotated[
        bool, Option("--offload", "States of the optimizer lie in the memory of the host.")
    ] = False
    eager: Annotated[
        bool, Option("--eager", "PyTorch operator by operator, without torch.compile.")
    ] = False
    nodes: Annotated[
        int, Option("--nodes", "So many nodes like this one.", "N", least=1, most=1024)
    ] = 1
    serve: Annotated[
        bool, Option("--serve", "Serving instead of training: prefill, decode, the KV cache.")
    ] = False
    observed: Annotated[
        str,
        Option(
            "--observed-step",
            "What a step of --layout takes, 1.9s or 350ms; the others are scaled by it.",
            "TIME",
        ),
    ] = ""
    settings: Annotated[tuple[str, ...], SETTINGS] = ()
    library: Annotated[str | None, LIBRARY] = None
    config: str = ""
    """The content of a config.json, which `names` then name."""


class _Case(NamedTuple):
    """What was asked, understood."""

    asked: CostRequest
    shape: ModelShape
    node: Node
    wires: NodeWires
    rates: GpuRates
    free: Free
    plan: StepPlan
    assumed: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return self.wires.each * self.asked.nodes

    @property
    def sku(self) -> Sku | None:
        return self.node.devices.sku(self.node.machine.gpus[0])

    def ranked(self, rates: GpuRates) -> list[RankedLayout]:
        """All layouts. Raises Exit where there is none."""
        wires, free = self.wires, self.free
        found = ranked(self.shape, self.gpus, wires.domain, free, self.plan, rates, wires.of)
        if not found:
            raise Exit(_none(self.shape, self.gpus, free), USAGE)
        return found


def _name(asked: CostRequest) -> str:
    """The model, which stands in front or behind --model. Raises Exit."""
    front = " ".join(asked.names)
    if front and asked.model:
        raise Exit("the model is given twice, in front and by --model", USAGE)
    if not (front or asked.model):
        raise Exit('which model? Its name ("Llama 3 8B") or its config.json is needed', USAGE)
    return front or asked.model


def answer(asked: CostRequest) -> CostAnswer:
    """Rank layouts, or widths of serving. Raises Exit with one sentence."""
    case = _case(asked)
    if asked.serve:
        return _answered(case, serving=_serving(case), notes=SERVING_NOTES)
    if not asked.observed:
        found = case.ranked(case.rates)
        return _answered(case, found, notes=_notes(case, found))
    observed = calibrate(case.ranked(case.rates), case, seconds_of(asked.observed))
    every = case._replace(free=free_again(case.free), plan=observed.plan_of(case.plan))
    found = every.ranked(observed.rates(case.rates))
    notes = (told(observed), *_notes(case, found))
    return _answered(every, found, notes=notes, calibration=calibration_of(observed))


def calibrate(found: list[RankedLayout], case: _Case, observed_s: float) -> Calibration:
    """Fit the one layout that --layout leaves. Raises Exit."""
    if len(found) != 1:
        raise Exit(
            f"--layout leaves {len(found)} layouts; --observed-step is about one, such as "
            f"{found[0].layout.text.replace(' ', ',')}",
            USAGE,
        )
    one = found[0]
    fitted = calibrated(case.shape, one.layout, one.plan, case.rates, case.wires.of, observed_s)
    if isinstance(fitted, str):
        raise Exit(fitted, CANNOT_TELL)
    return fitted


def _case(asked: CostRequest) -> _Case:
    name, ways = _name(asked), ways_of(asked.layout)
    shape = shape_called(name, asked.config)
    node = Node(_tried(asked)).decide()
    if not node.machine.gpus:
        raise Exit("no GPU here; --demo shows what it looks like", CANNOT_TELL)
    wires = NodeWires(node, asked.nodes)
    gpus = wires.each * asked.nodes
    divided(shape, ways, gpus, wires.domain)
    style = KernelStyle.EAGER if asked.eager else KernelStyle.FUSED
    rates, assumed = _rates(node, asked.dtype, style)
    sequence = asked.sequence or min(SEQUENCE, shape.context or SEQUENCE)
    free = Free(
        sequence=sequence, micro=asked.micro, accumulation=asked.accumulation, zero=asked.zero,
        batch=asked.batch, interleave=asked.interleave,
        recompute=None if asked.recompute == ANY else Recompute(asked.recompute), **ways,
    )  # fmt: skip
    if not asked.config and shape.name in models() and not is_spelled(name, shape):
        assumed.append(f"{clean(name, 60)} has the shape of {shape.name}")
    launches = launches_here(node.snapshot.measurements) if asked.eager else None
    plan = StepPlan(
        sequence=sequence, states=STATES[asked.dtype], dtype=rates.dtype, style=style,
        sequence_parallel=not asked.eager, offload=asked.offload, host=launches or 1.0,
    )  # fmt: skip
    if launches is not None:
        assumed.append(LAUNCHES_HERE.format(launches))
    if asked.accumulation is None and asked.batch is None and not asked.serve:
        count = sequences_of(gpus, free)
        assumed.append(f"a step is {plural(count, 'sequence')} of {sequence:,} tokens (--batch)")
    assumed += _of_nodes(wires, asked.nodes)
    return _Case(asked, shape, node, wires, rates, free, plan, tuple(assumed))


def _tried(asked: CostRequest) -> NodeSnapshot:
    """The node with --set and --nccl."""
    snapshot, changes = asked.snapshot(), changes_of(asked.settings)
    if asked.library:
        try:
            name = asked_for(asked.library, snapshot.machine)
            changes[version_for(name)[0].library.upper()] = name.rpartition("-")[2]
        except UnknownVersionError as error:
            raise Exit(str(error), USAGE) from error
    return with_changes(snapshot, changes) if changes else snapshot


def _rates(node: Node, dtype: str, style: KernelStyle) -> tuple[GpuRates, list[str]]:
    """The rates of the GPUs, and what had to be assumed."""
    gpu, assumed = node.machine.gpus[0], []
    sku = node.devices.sku(gpu)
    figures = node.snapshot.measurements
    rates = measured_rates(rates_of(gpu, sku, dtype.split("-")[0], style), figures)
    if rates.flops is None and sku is not None and sku.tflops.get("fp16"):
        rates = measured_rates(rates_of(gpu, sku, "fp16", style), figures)
        assumed.append(f"{rates.name} has no {dtype}: products are in FP16")
    if len({(one.name, one.pci_id) for one in node.machine.gpus}) > 1:
        assumed.append(f"all GPUs are taken to be like the first one, {rates.name}")
    host = costs_of(node).host(gpu.address)
    known = None if host is None or host.here is None else host.here * 1e9
    each = len(node.machine.gpus)
    if any(one.mig_enabled or one.partition is not None for one in node.machine.gpus):
        assumed.append("GPUs that are divided into parts are taken to be whole")
    return msgspec.structs.replace(rates, host_bytes_per_s=known, sharing=each), assumed


def _of_nodes(wires: NodeWires, nodes: int) -> list[str]:
    """What is assumed of several nodes."""
    if nodes == 1:
        return []
    if wires.domain > wires.each:
        return [f"NVLink joins {wires.domain} GPUs of one rack, whose IMEX domain is up"]
    return [
        "collectives between nodes take what their share of the NICs carries; switches are taken "
        "not to be oversubscribed"
    ]


def _serving(case: _Case) -> tuple[Serving, ...]:
    wires, weights = case.wires, STATES[case.asked.dtype].weights
    nics = None if wires.nics_gbs is None else NETWORK_SHARE * wires.nics_gbs * 1e9
    found = servings(
        case.shape, wires.each, case.free.sequence, weights, case.rates, wires.of, nics
    )
    return tuple(found)


def _notes(case: _Case, found: list[RankedLayout]) -> tuple[str, ...]:
    balance = tensor_balance(found, min(case.wires.each, case.gpus))
    whole = costs_of(case.node).all_reduce
    sick = "" if whole is None or not whole.lost else f"Links are not healthy here: {whole.text}."
    remedies = () if whole is None else (_without_variables(case, found),)
    guessed = case.asked.eager and launches_here(case.node.snapshot.measurements) is None
    guessed = guessed and any(one.layout.gpus > 1 for one in found)
    far = EXPERTS_FAR if case.shape.experts and case.gpus > case.wires.domain else ""
    said = [sick, *remedies, balance, far, *NOT_MODELLED, LAUNCHES if guessed else ""]
    return tuple(filter(None, said))


def _without_variables(case: _Case, found: list[RankedLayout]) -> str:
    """What variables against P2P cost the first layout; "" where they cost nothing."""
    first = next((one for one in found if one.time is not None and one.time.exposed), None)
    snapshot = case.node.snapshot
    to_blame = [one for one in snapshot.environment if one.name in AGAINST_P2P]
    if first is None or first.time is None or not to_blame:
        return ""
    others = tuple(one for one in snapshot.environment if one not in to_blame)
    node = Node(msgspec.structs.replace(snapshot, environment=others)).decide()
    wires = NodeWires(node, case.asked.nodes)
    better = step_time(case.shape, first.layout, first.plan, case.rates, wires.of)
    if isinstance(better, str) or better.step_s >= WORTH * first.time.step_s:
        return ""
    verb = "is" if len(to_blame) == 1 else "are"
    given = listing([f"{one.name}={clean(one.value, 20)}" for one in to_blame])
    return (
        f"{given} {verb} set here: without {'it' if len(to_blame) == 1 else 'them'} a step of "
        f"{first.layout.text} takes {better.step_s / first.time.step_s:.2f} times as long."
    )


def _enough(case: _Case, found: Sequence[RankedLayout]) -> int | None:
    """How many GPUs would do, where these do not."""
    memory = case.rates.memory_bytes
    if memory is None or any(one.fits is not False for one in found):
        return None
    domain = case.wires.domain
    nodes = fits_from(case.shape, domain, free_again(case.free), case.plan, memory)
    return None if nodes is None else nodes * domain


def _answered(
    case: _Case,
    found: Sequence[RankedLayout] = (),
    *,
    notes: tuple[str, ...],
    serving: tuple[Serving, ...] = (),
    calibration: CostCalibration | None = None,
) -> CostAnswer:
    rates, shape = case.rates, case.shape
    inside = case.wires.of(case.wires.each, 1)
    bounds = rooflines(shape, rates, case.sku, _joined(case, inside))
    bases = {rates.basis, FigureBasis.ESTIMATE if inside is None else inside.basis}
    known = (rates.source, "" if inside is None else inside.source)
    edges = LayoutEdges(case.wires)
    return CostAnswer(
        source=case.node.snapshot.source,
        assumptions=case.assumed,
        model=shape.name,
        model_source=shape.source,
        parameters=shape.parameters,
        active_parameters=shape.active,
        flop_per_token=work_of(shape, case.free.sequence).model,
        gpu=rates.name,
        gpus=case.gpus,
        memory_bytes=rates.memory_bytes,
        sequence=case.free.sequence,
        tflops=None if rates.flops is None else rates.flops / 1e12,
        sheet_tflops=None if rates.sheet_flops is None else rates.sheet_flops / 1e12,
        basis=FigureBasis.ESTIMATE if FigureBasis.ESTIMATE in bases else FigureBasis.PREDICTED,
        fits_from_gpus=_enough(case, found),
        layouts=tuple(layout_of(one, why(one, rates.memory_bytes), edges) for one in found),
        rooflines=bounds,
        serving=serving,
        kv_bytes_per_token=kv_bytes(shape),
        calibration=calibration,
        notes=notes,
        sources=tuple(dict.fromkeys(source for source in known if source)),
    )


def _joined(case: _Case, inside: GroupWire | None) -> JoinedRanks:
    wires = case.wires
    return JoinedRanks(
        inside=inside,
        ranks=wires.each,
        over=wires.of(case.gpus, 1),
        network_gbs=wires.nics_gbs,
        by_network=case.gpus > wires.domain,
    )


def _none(shape: ModelShape, gpus: int, free: Free) -> str:
    if any(layouts(shape, gpus, gpus, free)):
        if free.interleave not in (None, 1):
            return (
                f"no layout has stages whose layers {free.interleave} groups divide, with "
                "micro-batches in multiples of the stages"
            )
        return (
            f"no layout divides a step of {sequences_of(gpus, free)} sequences; give --micro 1, "
            "--batch or --accum"
        )
    return f"no layout divides {clean(shape.name, 60)} over {plural(gpus, 'GPU')}"


QUESTION = Question(name="cost", request=CostRequest, answer=answer, page=page, listed=False)
