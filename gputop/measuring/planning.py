"""Plans what a suite runs, in which order, and what that costs; it starts nothing.

Probes run one after the other: each loads links, host, memory or compute, and two at the same time
would falsify each other's figures. Only a single probe may load several GPUs at once, where they
do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gputop.measuring.runs import requests_for
from gputop.measuring.state import ProbeRequest, ProbeRun, SuiteState
from gputop.probes import catalog
from gputop.probes.protocol.spec import ProbeSpec
from gputop.probes.protocol.status import ProbeLevel, Status
from gputop.topology.model import units
from gputop.topology.model.machine import Machine

ORDER = (
    "p2p", "p2p-concurrent", "host", "memory", "nccl", "collectives",
    "launch", "gemm", "train-step",
)  # fmt: skip
"""Those that the driver measures come first, then those that NCCL alone will do for: they answer at
once, and torch is imported meanwhile."""
SELFTEST_DEVICES = 3


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a suite."""

    steps: tuple[ProbeRun, ...]
    level: ProbeLevel
    addresses: tuple[str, ...]
    force: bool = False
    selftest: bool = False
    python: str | None = None
    nccl_lib: str | None = None
    """A file of NCCL or RCCL, or "torch"; None for the one that torch would load."""
    simulated: bool = False
    """Whether it belongs to a demo, on which nothing is measured."""

    @property
    def runs(self) -> tuple[ProbeRun, ...]:
        """The steps that will run, which are neither skipped nor refused."""
        return tuple(planned for planned in self.steps if not planned.over)

    @property
    def estimate_seconds(self) -> float:
        """Estimate for all steps."""
        return sum(planned.estimate_seconds for planned in self.runs)

    @property
    def memory_bytes_per_gpu(self) -> int:
        """The most memory that a step needs on one GPU."""
        return max((planned.spec.memory_bytes_per_gpu for planned in self.runs), default=0)

    @property
    def host_memory_bytes(self) -> int:
        """The most memory that a step needs on the host."""
        return max((planned.spec.host_memory_bytes for planned in self.runs), default=0)

    @property
    def sentence(self) -> str:
        """Describe the cost and how the plan runs."""
        gpus = len(self.addresses) or SELFTEST_DEVICES
        what = "CPU devices of the self-test" if self.selftest else f"GPU{'s' * (gpus != 1)}"
        host = self.host_memory_bytes
        needs = f"up to {units.size(self.memory_bytes_per_gpu)} on each"
        if host:
            needs += f" and {units.size(host)} of the host"
        single = len(self.runs) == 1
        if self.simulated:
            return (
                f"{len(self.runs)} probe{'' if single else 's'} on {gpus} {what} at the level "
                f"{self.level}, simulated: about {self.estimate_seconds:.0f} s, no GPU is measured"
            )
        how = "" if single else ", one after the other, since they load the same links and memory"
        return (
            f"{len(self.runs)} probe{'' if single else 's'} on {gpus} {what} at the level "
            f"{self.level}: about {self.estimate_seconds:.0f} s, {needs}{how}"
        )

    def state(self) -> SuiteState:
        """The state before anything runs."""
        return SuiteState(
            steps=self.steps,
            level=self.level,
            estimate_seconds=self.estimate_seconds,
            simulated=self.simulated,
        )


def plan(
    names: Sequence[str],
    machine: Machine,
    addresses: tuple[str, ...] = (),
    *,
    level: ProbeLevel = ProbeLevel.NORMAL,
    force: bool = False,
    selftest: bool = False,
    python: str | None = None,
    nccl_lib: str | None = None,
    deadline_seconds: float | None = None,
    params: Mapping[str, tuple[tuple[str, Any], ...]] | None = None,
) -> Plan:
    """Plan these probes on these GPUs; without names all probes, without addresses all GPUs.

    `params`: further parameters by name of the probe. KeyError for an unknown probe.
    """
    wanted = in_order(names or catalog.NAMES)
    specs: dict[str, ProbeSpec] = {name: catalog.load(name).SPEC for name in wanted}
    requests = requests_for(
        tuple(wanted),
        machine,
        addresses,
        params=params,
        level=level,
        force=force,
        selftest=selftest,
        python=python,
        deadline_seconds=deadline_seconds,
    )
    gpus = len(requests[0].addresses) if not selftest else SELFTEST_DEVICES
    steps: list[ProbeRun] = []
    started: set[bool] = set()
    for request in requests:
        spec = specs[request.probe]
        fresh = spec.needs_torch not in started
        step = step_of(spec, request, gpus, fresh=fresh, named=request.probe in names)
        if not step.over:
            started.add(spec.needs_torch)
        steps.append(step)
    return Plan(
        steps=tuple(steps),
        level=level,
        addresses=requests[0].addresses,
        force=force,
        selftest=selftest,
        python=python,
        nccl_lib=nccl_lib,
    )


def in_order(names: Collection[str]) -> list[str]:
    """Each name once, in the order in which probes run; names not in ORDER follow by kind."""
    place = {name: number for number, name in enumerate(ORDER)}
    known = list(dict.fromkeys(names))
    return sorted(known, key=lambda name: place.get(name, len(ORDER)))


def step_of(
    spec: ProbeSpec,
    request: ProbeRequest,
    gpus: int,
    *,
    fresh: bool = True,
    named: bool = False,
) -> ProbeRun:
    """A probe before it runs; `fresh`: its worker has to be started."""
    estimate = spec.estimate_seconds if fresh else spec.measuring_seconds
    run = ProbeRun(
        spec=spec,
        request=request,
        named=named,
        estimate_seconds=estimate(gpus, request.level),
        memory_bytes_per_gpu=spec.memory_bytes_per_gpu,
    )
    if gpus >= spec.minimum_gpus:
        return run
    here = f"{gpus} {'is' if gpus == 1 else 'are'} used here"
    return replace(
        run,
        status=Status.REFUSED if named else Status.SKIPPED,
        text=f"{spec.name} needs {spec.minimum_gpus} GPUs; {here}.",
    )
