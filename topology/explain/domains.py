"""A job over hosts of one NVLink domain, in sections: its figure, where from, what it needs."""

from __future__ import annotations

from collections.abc import Iterator

from ..expectation.domains import FLAG, RackDomain
from ..model.page import Section
from ..model.units import figure as three
from ..nccl.hosts.records import MultiNode


def sections_of_domain(many: MultiNode, domain: RackDomain) -> Iterator[Section]:
    """The answer first; no rings, trees or rails, which are those of hosts that NCCL joins not."""
    faults = tuple(f"✗ {fault}" for fault in (*domain.faults, *domain.apart))
    yield Section(title=answer_of_domain(many, domain), paragraphs=(*faults, *domain.notes))
    yield Section(title="Measured in such domains", bullets=domain.measured)


def answer_of_domain(many: MultiNode, domain: RackDomain) -> str:
    """What a large all-reduce reaches, and by which way, in a line."""
    over = f"{many.hosts} hosts, {many.ranks} GPUs"
    if domain.faults:
        nics = "" if domain.by_nics is None else f" at {three(domain.by_nics)} GB/s bus (predicted)"
        return f"{over}: the job would not start; with {FLAG}=0 it goes by the NICs alone{nics}"
    rate = f"{three(domain.low)} to {three(domain.high)} GB/s bus (estimate)"
    if domain.low == domain.high:
        rate = f"{three(domain.low)} GB/s bus (predicted)"
    if domain.joined is False:
        way = "NICs, since NVLink does not join all of these GPUs"
    elif domain.joined is None:
        way = "NVLink if the hosts are of one domain, else NICs"
    elif domain.spanned > 1:
        way = f"NVLink in each of {domain.spanned} domains, NICs between them"
    else:
        way = f"NVLink in one domain of {domain.gpus} GPUs (MNNVL)"
    return f"{over}: all-reduce 1 GiB {rate}, by {way}"
