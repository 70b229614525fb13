"""CPU frequency governors."""

from __future__ import annotations

from ....model.severity import NOTICE, SLOW
from ...case import Case
from ...rule import Found, Rule

_FAST = "performance"
LOWEST = "powersave"
ADAPTING = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
"""Drivers that choose the clock themselves, under whatever governor; with the others powersave is
the lowest clock that there is (Linux Documentation/admin-guide/pm/cpufreq.rst)."""


def _check(case: Case) -> Found:
    governors = case.host.cpu_governors
    if governors is None:
        return None
    others = [(name, count) for name, count in governors if name != _FAST]
    if not others:
        return []
    total = sum(count for _, count in governors)
    names = " and ".join(name for name, _ in others)
    driver = case.host.cpu_frequency_driver
    lowest = driver is not None and driver not in ADAPTING and LOWEST in dict(others)
    return GOVERNOR.finding(
        SLOW if lowest else NOTICE,
        f"CPU governor {names} instead of {_FAST}",
        evidence=[
            (
                f"CPUs with the governor {name}",
                f"{count} of {total}",
                "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            )
            for name, count in others
        ]
        + [
            (
                "frequency driver",
                driver or "not read",
                "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
            )
        ],
        impact="These CPUs stay at their lowest clock: kernel launches, small messages "
        "and data loaders take longer."
        if lowest
        else "Cores clock up only once they are busy: kernel launches and small messages may "
        "take longer. How much depends on the frequency driver; intel_pstate's powersave is "
        "close to performance.",
        fix=[f"Set the governor until the next boot. # cpupower frequency-set -g {_FAST}"],
    )


GOVERNOR = Rule(
    id="cpu-governor",
    title="CPU governors other than performance",
    evidence="the governor of each cpufreq policy",
    disproof="performance in every scaling_governor, or the same latency with it",
    sources=("Linux Documentation/admin-guide/pm/cpufreq.rst",),
    check=_check,
)

RULES = (GOVERNOR,)
