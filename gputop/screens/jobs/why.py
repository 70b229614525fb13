"""Explains how a job or a process is bound, compared with where its GPUs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.screens.jobs.details import CPUS, MEMORY, bindings
from gputop.screens.jobs.list import JobRow
from gputop.terminal.clean import clean
from gputop.topology.jobs.binding import FAR
from gputop.topology.model.page import Fact, Fix, Page
from gputop.topology.model.units import whole
from gputop.topology.wiring.graph import gpu_label

if TYPE_CHECKING:
    from gputop.topology.jobs.binding import Binding
    from gputop.topology.jobs.grouping import GpuUser
    from gputop.topology.model.finding import Finding
    from gputop.topology.model.snapshot import NodeSnapshot

BASIS = (
    "Copies between host and GPU, and the threads that start kernels and serve NICs, are fastest "
    "on the GPU's own NUMA node; between GPUs joined by NVLink it makes little difference."
)


def why_job(row: JobRow, snapshot: NodeSnapshot, findings: Sequence[Finding]) -> Page:
    """Evidence for each process and GPU, then what follows."""
    users = row.job.processes if row.user is None else (row.user,)
    found = [(user, binding) for user in users for binding in bindings(user, snapshot)]
    far = [(user, binding) for user, binding in found if binding.cpus == FAR]
    odd = [clean(finding.title, 200) for finding in findings]
    unknown = sum(1 for _, binding in found if binding.cpus is None)
    if far:
        claim = f"{len({user.pid for user, _ in far})} of {len(users)} run far from a GPU of theirs"
    elif unknown:
        claim = f"of {unknown} of {len(found)} it is not known how near to the GPU they run"
    else:
        claim = "none runs far from its GPU"
    facts = [_fact(user, binding, snapshot) for user, binding in found]
    facts += [
        Fact(what="What else is odd?", value=text, source="rules", decides=True) for text in odd
    ]
    return Page.why(
        title=row.job.name if row.user is None else f"pid {row.user.pid} of {row.job.name}",
        claim=claim[0].upper() + claim[1:] + ".",
        facts=tuple(facts),
        impact=BASIS if far else "",
        fix=_fix(far),
    )


def _fact(user: GpuUser, binding: Binding, snapshot: NodeSnapshot) -> Fact:
    gpu = snapshot.machine.gpu(binding.gpu)
    label = binding.gpu if gpu is None else gpu_label(gpu)
    cpus, nodes = user.reading.cpu_affinity, user.reading.memory_nodes
    return Fact(
        what=f"pid {user.pid} on {label} (NUMA node {whole(binding.node)}): which CPUs?",
        value=f"{cpus or 'not known'}, {CPUS[binding.cpus]}",
        because=f"memory of NUMA {nodes or 'not known'}: {MEMORY[binding.memory]}",
        source=f"/proc/{user.pid}/status",
        decides=binding.cpus == FAR,
    )


def _fix(far: Sequence[tuple[GpuUser, Binding]]) -> tuple[Fix, ...]:
    nodes = sorted({binding.node for _, binding in far if binding.node is not None})
    run = "numactl --cpunodebind={0} --membind={0} PROGRAM   # for the GPUs of node {0}"
    return tuple(Fix(text=run.format(node)) for node in nodes)
