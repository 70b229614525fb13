"""What a model costs on this node, layout by layout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from gputop.answers.cost_page import page
from gputop.answers.cost_records import CostAnswer, layout_of, roofline_of
from gputop.answers.question import NodeRequest, Option, Question
from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import did_you_mean
from gputop.topology.cost.config import MOST_BYTES, ConfigError, shape_of_config
from gputop.topology.cost.gpu import GpuRates, rates_of
from gputop.topology.cost.layout import Layout, StepPlan, why_not
from gputop.topology.cost.memory import STATES, KernelStyle
from gputop.topology.cost.models import model_named, models
from gputop.topology.cost.node_wires import NodeWires
from gputop.topology.cost.ranked import Free, RankedLayout, layouts, ranked, sequences_of
from gputop.topology.cost.rooflines import rooflines
from gputop.topology.cost.sentences import LAUNCHES, NOT_MODELLED, tensor_balance, why
from gputop.topology.cost.shape import ModelShape
from gputop.topology.cost.work import Recompute, work_of
from gputop.topology.model.english import plural
from gputop.topology.model.severity import FigureBasis
from gputop.topology.node import Node

SEQUENCE = 4096
"""Where nobody says and the model was made for as many."""
LONGEST = 1 << 24
ANY = "any"
_WAY = re.compile(r"(tp|pp|dp|ep|cp)=([1-9][0-9]{0,5})")


class CostRequest(NodeRequest, frozen=True, kw_only=True):
    """Say what training a model costs on this node, layout by layout.

    MODEL is a name ("Llama 3 8B") or the config.json of a model. All layouts that divide it are
    ranked by tokens a second; each with the memory of a GPU, what is exposed of its communication,
    and one sentence on why. Nothing is measured: times are predicted from healthy figures.
    """

    names: Annotated[tuple[str, ...], Option("MODEL", "")]
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


def answer(asked: CostRequest) -> CostAnswer:
    """Rank. Raises Exit with one sentence."""
    shape = _shape(" ".join(asked.names))
    ways = _ways(asked.layout)
    snapshot = asked.snapshot()
    node = Node(snapshot).decide()
    if not node.machine.gpus:
        raise Exit("no GPU here; --demo shows what it looks like", CANNOT_TELL)
    wires = NodeWires(node, asked.nodes)
    gpus = wires.each * asked.nodes
    _divided(shape, ways, gpus, wires.each)
    style = KernelStyle.EAGER if asked.eager else KernelStyle.FUSED
    assumed: list[str] = []
    gpu = node.machine.gpus[0]
    sku = node.devices.sku(gpu)
    rates = rates_of(gpu, sku, _type(asked.dtype), style)
    if rates.flops is None and sku is not None and sku.tflops.get("fp16"):
        rates = rates_of(gpu, sku, "fp16", style)
        assumed.append(f"{rates.name} has no {asked.dtype}: products are in FP16")
    if len({(one.name, one.pci_id) for one in node.machine.gpus}) > 1:
        assumed.append(f"all GPUs are taken to be like the first one, {rates.name}")
    sequence = asked.sequence or min(SEQUENCE, shape.context or SEQUENCE)
    free = Free(
        sequence=sequence, micro=asked.micro, accumulation=asked.accumulation, zero=asked.zero,
        recompute=None if asked.recompute == ANY else Recompute(asked.recompute), **ways,
    )  # fmt: skip
    base = StepPlan(
        sequence=sequence, states=STATES[asked.dtype], dtype=rates.dtype, style=style,
        sequence_parallel=not asked.eager, offload=asked.offload,
    )  # fmt: skip
    found = ranked(shape, gpus, wires.each, free, base, rates, wires.of)
    if not found:
        raise Exit(_none(shape, gpus, free), USAGE)
    if asked.accumulation is None:
        count = sequences_of(gpus, free)
        assumed.append(f"a step is {plural(count, 'sequence')} of {sequence:,} tokens (--accum)")
    if asked.nodes > 1:
        assumed.append(
            "collectives between nodes take what their share of the NICs carries; switches are "
            "taken not to be oversubscribed"
        )
    return _told(shape, found, rates, node, wires, free, asked, tuple(assumed))


def _told(
    shape: ModelShape,
    found: list[RankedLayout],
    rates: GpuRates,
    node: Node,
    wires: NodeWires,
    free: Free,
    asked: CostRequest,
    assumed: tuple[str, ...],
) -> CostAnswer:
    gpus = wires.each * asked.nodes
    inside = wires.of(wires.each, 1)
    sku = node.devices.sku(node.machine.gpus[0])
    bounds = rooflines(shape, rates, sku, inside, wires.each)
    work = work_of(shape, free.sequence)
    balance = tensor_balance(found, min(wires.each, gpus))
    bases = {rates.basis, FigureBasis.ESTIMATE if inside is None else inside.basis}
    known = (rates.source, "" if inside is None else inside.source)
    notes = (*((balance,) if balance else ()), *NOT_MODELLED)
    notes += (LAUNCHES,) if asked.eager and any(one.layout.tp > 1 for one in found) else ()
    return CostAnswer(
        source=node.snapshot.source,
        assumptions=assumed,
        model=shape.name,
        model_source=shape.source,
        parameters=shape.parameters,
        active_parameters=shape.active,
        flop_per_token=work.model,
        gpu=rates.name,
        gpus=gpus,
        memory_bytes=rates.memory_bytes,
        sequence=free.sequence,
        tflops=None if rates.flops is None else rates.flops / 1e12,
        sheet_tflops=None if rates.sheet_flops is None else rates.sheet_flops / 1e12,
        basis=FigureBasis.ESTIMATE if FigureBasis.ESTIMATE in bases else FigureBasis.PREDICTED,
        layouts=tuple(layout_of(one, why(one, rates.memory_bytes)) for one in found),
        rooflines=tuple(roofline_of(one) for one in bounds),
        notes=notes,
        sources=tuple(dict.fromkeys(source for source in known if source)),
    )


def _shape(name: str) -> ModelShape:
    """A model by its name, else by its config.json. Raises Exit."""
    known = model_named(name)
    if known is not None:
        return known
    path = Path(name)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        hint = did_you_mean(name, models()) or f"; known are {', '.join(models())}"
        raise Exit(f"no model and no file is called {clean(name, 60)!r}{hint}", USAGE)
    try:
        with path.open("rb") as file:
            return shape_of_config(file.read(MOST_BYTES + 1), clean(path.name, 60))
    except OSError as error:
        raise Exit(f"{clean(name, 60)}: {error.strerror}", USAGE) from error
    except ConfigError as error:
        raise Exit(clean(str(error), 300), CANNOT_TELL) from error


def _ways(text: str) -> dict[str, Any]:
    """The ways that --layout names. Raises Exit."""
    found: dict[str, int] = {}
    for part in filter(None, text.replace(" ", ",").split(",")):
        match = _WAY.fullmatch(part)
        if match is None or match[1] in found:
            raise Exit(
                f"--layout {clean(part, 40)!r}: write tp=8,pp=2,dp=4,ep=1,cp=1, each once", USAGE
            )
        found[match[1]] = int(match[2])
    return found


def _divided(shape: ModelShape, ways: dict[str, int], gpus: int, each: int) -> None:
    """Refuse what divides neither the GPUs nor the model, and say which. Raises Exit."""
    taken = 1
    for name in ("tp", "pp", "dp", "cp"):
        taken *= ways.get(name, 1)
    if gpus % taken or (len(ways.keys() - {"ep"}) == 4 and taken != gpus):
        raise Exit(f"a layout of {taken:,} GPUs does not divide the {gpus:,} that there are", USAGE)
    whole = Layout(**{"dp": gpus // taken * ways.get("dp", 1)} | ways if "dp" not in ways else ways)
    reason = why_not(shape, whole, each)
    if reason:
        raise Exit(f"{clean(shape.name, 60)}: {reason}", USAGE)


def _none(shape: ModelShape, gpus: int, free: Free) -> str:
    if any(layouts(shape, gpus, gpus, free)):
        return (
            f"no layout divides a step of {sequences_of(gpus, free)} sequences; give --micro 1 or "
            "--accum"
        )
    return f"no layout divides {clean(shape.name, 60)} over {plural(gpus, 'GPU')}"


def _type(dtype: str) -> str:
    """The type of products: that of the weights."""
    return dtype.split("-")[0]


QUESTION = Question(name="cost", request=CostRequest, answer=answer, page=page, listed=False)
