"""Rules about one fact of each GPU: the same evidence for every GPU that shows the fault."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import msgspec

from ..model.finding import Finding
from ..model.machine import Gpu
from ..model.severity import Severity
from . import vendors
from .case import Case
from .rule import Proof, Rule, Step, address_of, needed

Known = Union[Gpu, str, tuple[Any, ...]]  # noqa: UP007 - evaluated at import
"""A GPU, its address, or a tuple that begins with one of them and goes on with facts of it."""
Part = Union[str, Callable[..., str]]  # noqa: UP007 - as above
"""A text, or what makes it of a GPU and its facts."""
EachProof = tuple[Part, Part, Part]
"""What is shown of each GPU, its value, and the source.

"power limit" stands for "power limit of GPU3"; "{gpu}" in it puts the name elsewhere. A source in
NVML is replaced by the library of the GPU's own vendor.
"""


class Says(msgspec.Struct, frozen=True):
    """A finding that a rule makes of all GPUs that fit `when`."""

    severity: Severity
    when: Callable[[Case, Gpu], object]
    title: str
    """With "{gpus}" for their names."""
    impact: str
    fix: tuple[str, ...]
    """With "{-i}" for the option of nvidia-smi that picks these GPUs."""


def gpu_rule(
    *,
    reads: tuple[str, ...],
    proof: EachProof,
    says: Sequence[Says],
    only: Callable[[Case, Gpu], object] = lambda case, gpu: True,
    **fields: Any,
) -> Rule:
    """Make a rule about fields of each GPU; each GPU is in the first finding of `says` it fits."""

    def check(case: Case) -> list[Finding]:
        left = needed([gpu for gpu in case.having(*reads) if only(case, gpu)])
        found = []
        for said in says:
            hit = [gpu for gpu in left if said.when(case, gpu)]
            left = [gpu for gpu in left if gpu not in hit]
            if hit:
                title, impact, fix = said.title, said.impact, said.fix
                found.append(
                    of_gpus(rule, case, hit, said.severity, title, proof, impact=impact, fix=fix)
                )
        return found

    rule = Rule(check=check, **fields)
    return rule


def of_gpus(
    rule: Rule,
    case: Case,
    known: Sequence[Known],
    severity: Severity,
    title: str,
    proof: EachProof,
    *,
    first: Sequence[Proof] = (),
    last: Sequence[Proof] = (),
    most: int = 0,
    fix: Sequence[Step] = (),
    **rest: Any,
) -> Finding:
    """Make a finding of a rule about these GPUs, with one piece of evidence for each.

    `title` has "{gpus}" for their names, a step of `fix` "{-i}" for the option that picks them;
    `first` and `last` are evidence before and behind that of the GPUs; `most` limits that of one
    GPU, 0 for all.
    """
    rows = [entry if isinstance(entry, tuple) else (entry,) for entry in known]
    devices = list(dict.fromkeys(address_of(row[0]) for row in rows))
    gpus = [gpu for device in devices if (gpu := case.machine.gpu(device)) is not None]
    return rule.finding(
        severity,
        title.replace("{gpus}", case.names(devices)),
        devices=devices,
        evidence=[*first, *_proofs(case, rows, proof, most), *last],
        fix=[
            step.replace("{-i}", selected(gpus)) if isinstance(step, str) else step for step in fix
        ],
        **rest,
    )


def _proofs(
    case: Case, rows: Sequence[tuple[Any, ...]], proof: EachProof, most: int
) -> Iterator[Proof]:
    shown: Counter[str] = Counter()
    for row in rows:
        address = address_of(row[0])
        shown[address] += 1
        if most and shown[address] > most:
            continue
        what, value, source = (part if isinstance(part, str) else part(*row) for part in proof)
        what = what if "{gpu}" in what else f"{what} of {{gpu}}"
        gpu = case.machine.gpu(address)
        if gpu is not None and source.startswith("NVML"):
            source = vendors.source([gpu], source)
        yield what.replace("{gpu}", case.name(address)), value, source


def selected(gpus: Sequence[Gpu]) -> str:
    """The option of nvidia-smi that picks these GPUs, with a blank before it; "" for all."""
    numbers = [gpu.index for gpu in gpus]
    return " -i " + ",".join(map(str, numbers)) if None not in numbers else ""
