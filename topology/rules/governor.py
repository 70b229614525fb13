"""CPU frequency governors."""

from __future__ import annotations

from collections.abc import Iterable

from .case import Case
from .finding import NOTICE, Evidence, Finding, Fix
from .rule import Rule

_FAST = "performance"


def _check(case: Case) -> Iterable[Finding] | None:
    governors = case.host.cpu_governors
    if governors is None:
        return None
    others = [(name, count) for name, count in governors if name != _FAST]
    if not others:
        return []
    total = sum(count for _, count in governors)
    names = " and ".join(name for name, _ in others)
    return [
        GOVERNOR.finding(
            NOTICE,
            f"CPU governor {names} instead of {_FAST}",
            evidence=[
                Evidence(
                    what=f"CPUs with the governor {name}",
                    value=f"{count} of {total}",
                    source="/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
                )
                for name, count in others
            ],
            consequence="Cores clock up only once they are busy: kernel launches and small "
            "messages may take longer. How much depends on the frequency driver; intel_pstate's "
            "powersave is close to performance.",
            fix=[
                Fix(
                    text="Set the governor until the next boot.",
                    command=f"cpupower frequency-set -g {_FAST}",
                    needs_root=True,
                )
            ],
        )
    ]


GOVERNOR = Rule(
    id="cpu-governor",
    title="CPU governors other than performance",
    evidence="the governor of each cpufreq policy",
    disproof="performance in every scaling_governor, or the same latency with it",
    sources=("Linux Documentation/admin-guide/pm/cpufreq.rst",),
    check=_check,
)

RULES = (GOVERNOR,)
