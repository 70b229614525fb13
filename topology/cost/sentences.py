"""What a layout's figures say, as sentences."""

from __future__ import annotations

from ..model.units import figure
from .ranked import RankedLayout
from .step import StepTime

NOT_MODELLED = (
    "Tuned software reaches such steps: seventeen published ones of dense models on A100, H100 and "
    "GB200 took 0.9 to 1.5 times as long, in the middle 1.1.",
    "Data loading, checkpoints, evaluation, and GPUs that are slower than others are not in it.",
    "Power and clocks that fall under a long load are in it as far as the healthy figures are.",
)
EXPERTS_FAR = (
    "Tokens go to experts by plain all-to-alls, each copy by itself: over a network libraries that "
    "send a token once to a node (DeepEP) and overlap it (DualPipe) take less."
)
SERVING_NOTES = (
    "Decoding reads all weights and keys for each token; prompts in a batch, queues, speculation "
    "and the tokenizer are not in it.",
    "All-reduces are NCCL's; a server's own kernels for small sizes take a half to two thirds.",
)
LAUNCHES = (
    "Tensor parallelism and FSDP in eager PyTorch are bound by launches from the host where the "
    "layers are small, which depends on the CPU: their times are a guess there (two H200 on a slow "
    "host took up to 4.3 times as long). gputop probe launch measures it, --observed-step tells "
    "it; torch.compile or CUDA graphs help."
)
LAUNCHES_HERE = (
    "launches in eager PyTorch take this host {:.2g} times as long as a usual one (probe launch)"
)


SAME = 1.05
"""Steps that differ by less take equally long, as far as this can tell."""


def gigabytes(size: float) -> str:
    """A size with three digits, "61.3 GB"."""
    return f"{figure(size / 1e9)} GB"


def why(one: RankedLayout, memory: int | None) -> str:
    """One sentence on what decides about a layout."""
    if one.fits is False:
        return _too_large(one, memory)
    if one.time is None:
        return f"{one.why_none[:1].upper()}{one.why_none[1:]}."
    return _losses(one.time)


def _too_large(one: RankedLayout, memory: int | None) -> str:
    peak = one.peak
    parts = {
        "weights, gradients and optimizer": peak.states,
        "activations": peak.activations,
        "the loss": peak.loss,
        "gathered parameters": peak.gathered,
    }
    largest = max(parts, key=lambda name: parts[name])
    has = "" if memory is None else f" of {gigabytes(memory)}"
    return (
        f"It needs {gigabytes(peak.needed)}{has}, of which {largest} are "
        f"{gigabytes(parts[largest])}."
    )


def losses(time: StepTime) -> dict[str, float]:
    """What a step is made of besides the products and attention: seconds by name."""
    found = {f"{one.what} over {one.wire}": one.exposed_s for one in time.exposed if one.exposed_s}
    found["the bubble of the pipeline"] = time.bubble_s
    found["kernels between the products"] = time.between_s
    found["the optimizer"] = time.optimizer_s
    return {name: seconds for name, seconds in found.items() if seconds > 0}


def _losses(time: StepTime) -> str:
    share = (time.products_s + time.attention_s) / time.step_s
    start = f"Matrix products and attention take {100 * share:.0f} % of the step"
    if time.launch_bound:
        return f"{start}; the host needs {figure(1e3 * time.host_s)} ms to launch it."
    lost = losses(time)
    two = sorted(lost, key=lambda name: -lost[name])[:2]
    told = " and ".join(f"{name} ({100 * lost[name] / time.step_s:.0f} %)" for name in two)
    return f"{start}; the rest is mainly {told}."


def tensor_balance(every: list[RankedLayout], most: int) -> str:
    """What tensor parallelism over `most` GPUs costs against none; "" where neither fits."""
    timed = [one for one in every if one.time is not None]
    wide = [one for one in timed if one.layout.tp == most]
    none = [one for one in timed if one.layout.tp == 1]
    if not wide or not none or most == 1:
        return ""
    ratio = none[0].tokens_per_s / wide[0].tokens_per_s
    who = f"Tensor parallelism over {most} GPUs"
    if SAME > ratio > 1 / SAME:
        return f"{who} costs as much as it saves."
    if ratio > 1:
        return f"{who} costs more than it saves: a step takes {ratio:.1f} times as long as without."
    return f"{who} pays: without it a step takes {1 / ratio:.1f} times as long."
