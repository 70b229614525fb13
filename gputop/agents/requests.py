"""What an agent may ask for: the arguments of each tool, whose schema follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from gputop.agents.told import LONGEST, MOST
from gputop.exits import USAGE, Exit
from gputop.library import NodeAnswers, demo, load, read

_TEXT = msgspec.Meta(max_length=4_000_000)
_WORD = msgspec.Meta(max_length=400)
Words = Annotated[str, _WORD]
FileName = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^(?!-$)[^\0]*$")]
"""No "-": stdin is what the client writes into."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of every tool."""

    most_bytes: Annotated[int, msgspec.Meta(ge=1000, le=MOST)] = LONGEST
    """Longest answer in bytes."""


class OfNode(ToolRequest, frozen=True, kw_only=True):
    """A question about a node: this machine, unless one of three others is named."""

    demo: Annotated[
        Words, msgspec.Meta(description="A built-in demo instead, such as hgx-h100-8.")
    ] = ""
    file: Annotated[
        FileName,
        msgspec.Meta(description="A recording instead: a snapshot, nvidia-smi -q -x, lspci, ..."),
    ] = ""
    text: Annotated[
        str, _TEXT, msgspec.Meta(description="The text of such a recording instead.")
    ] = ""

    def node(self) -> NodeAnswers:
        """Read the node. Raises GputopError."""
        given = [name for name in ("demo", "file", "text") if getattr(self, name)]
        if len(given) > 1:
            raise Exit(f"use one of {', '.join(given)}", USAGE)
        if self.text:
            # A line break at the end: what has none could be taken for a path.
            return load(self.text.encode(errors="replace") + b"\n")
        if self.file:
            return load(Path(self.file))
        return demo(self.demo) if self.demo else read()


class NodeTool(OfNode, frozen=True, kw_only=True):
    """The node: host, GPUs, NICs, versions, and what could not be read."""


class TopologyTool(OfNode, frozen=True, kw_only=True):
    """How devices are connected: all GPUs and NICs, or one pair of GPUs (P2P: may they, do they,
    GB/s, why), or the NIC and the NUMA node of one GPU.
    """  # noqa: D205

    gpu: Annotated[Words, msgspec.Meta(description="0, cuda:0, a UUID or a PCI address.")] = ""
    peer: Annotated[Words, msgspec.Meta(description="The other GPU of a pair.")] = ""


class ExplainTool(OfNode, frozen=True, kw_only=True):
    """What NCCL or RCCL will do here and why: transports, rings, trees, NICs, algorithms."""

    collective: Annotated[
        Words, msgspec.Meta(description="AllReduce, AllGather, ReduceScatter, Broadcast, Reduce.")
    ] = ""
    size_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    gpus: Annotated[Words, msgspec.Meta(description="0,2 or 0-3; by default all.")] = ""
    nodes: Annotated[int, msgspec.Meta(ge=1, le=64, description="Equal hosts.")] = 1
    library: Annotated[Words, msgspec.Meta(description="nccl-2.28.9, rccl-2.21.5, ...")] = ""


class WhichTool(OfNode, frozen=True, kw_only=True):
    """The best so many GPUs here and now, why, what the second best loses, lines to copy."""

    count: Annotated[int, msgspec.Meta(ge=1)]
    busy: Annotated[bool, msgspec.Meta(description="Choose as if no GPU were in use.")] = False


class CostTool(OfNode, frozen=True, kw_only=True):
    """What a model costs on this node, predicted: layouts by tokens a second, what fits, and why.

    With `serve` of each width of tensor parallelism prefill, decode, requests and the KV cache.
    """

    model: Annotated[
        Words, msgspec.Meta(description='"Llama 3 70B", "DeepSeek V3"; an unknown one lists all.')
    ]
    config: Annotated[
        str,
        msgspec.Meta(max_length=1_000_000, description="The text of its config.json instead."),
    ] = ""
    nodes: Annotated[int, msgspec.Meta(ge=1, le=1024, description="Equal nodes.")] = 1
    layout: Annotated[Words, msgspec.Meta(description="Only these: tp=8,pp=2")] = ""
    sequence: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)] | None = None
    dtype: Annotated[Words, msgspec.Meta(description="bf16, fp32, fp8, ...")] = "bf16"
    serve: bool = False


class WhatIfTool(OfNode, frozen=True, kw_only=True):
    """What a variable means and does on this node, and what setting it would change."""

    variable: Annotated[Words, msgspec.Meta(description="One variable to explain.")] = ""
    set: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=80, pattern="^[^=]+$")], Annotated[str, _WORD]],
        msgspec.Meta(max_length=32, description="Variables as they would be set."),
    ] = {}
    library: Words = ""


class CheckTool(OfNode, frozen=True, kw_only=True):
    """What is wrong with the node: findings with proof, what would disprove each, and what helps.

    Reads only, unless `measure` is true: then idle GPUs of this machine are measured for some
    seconds. A busy GPU is never measured.
    """

    measure: bool = False
    expect: Annotated[
        Words, msgspec.Meta(description="What it should be: dgx-h100, aws-p5.48xlarge, ...")
    ] = ""


class ReadTextTool(ToolRequest, frozen=True, kw_only=True):
    """What a pasted log says: errors of NCCL, RCCL, torch, the kernel, drivers, with the lines."""

    text: Annotated[str, _TEXT]
    demo: Annotated[Words, msgspec.Meta(description="The node that it is of.")] = ""


class JobsTool(OfNode, frozen=True, kw_only=True):
    """What runs on the GPUs, how far each job is, who waits for whom. Takes some seconds."""


class FiguresTool(ToolRequest, frozen=True, kw_only=True):
    """What is known of a product, a node, a link, a NIC, a variable or a code such as "Xid 79".

    Of a GPU: data sheet and healthy figures with their sources; with `quantity` and `measured`,
    whether that number is normal.
    """

    product: Annotated[
        Words, msgspec.Meta(description='"H100", "MI300X", "L40S", or "PCIe gen4 x16".')
    ]
    quantity: Annotated[
        Words, msgspec.Meta(description="p2p, h2d, d2h, allreduce, hbm, gemm_bf16, ...")
    ] = ""
    measured: Annotated[float, msgspec.Meta(gt=0, lt=1e9)] | None = None
    gpus: Annotated[int, msgspec.Meta(ge=2, le=1024)] | None = None


class CompareTool(ToolRequest, frozen=True, kw_only=True):
    """What differs between two readings of a node, or two nodes, the most harmful first, and what
    that means: devices, links, variables, versions, what the library decides, counters.
    """  # noqa: D205

    before: Annotated[
        FileName,
        msgspec.Meta(min_length=1, description="The first: a recording, a saved check, or a demo."),
    ]
    after: Annotated[
        FileName, msgspec.Meta(description="The second; by default this machine as it is now.")
    ] = ""


class NextMeasurementTool(OfNode, frozen=True, kw_only=True):
    """Which measurement or look would decide between the explanations that are still open."""

    log: Annotated[str, _TEXT, msgspec.Meta(description="A log whose causes are open.")] = ""
