"""Names of result files that say where they are from: DIR/%n-%j.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_PLACES = re.compile(r"%(.?)")
_ODD = re.compile(r"[^A-Za-z0-9._#-]")
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "TORCHELASTIC_RUN_ID")
"""Variables of schedulers and launchers that name the job; the first that is set counts."""


def job_of(environment: Mapping[str, str]) -> str | None:
    """The job that this process belongs to; None outside of one."""
    return next((environment[name] for name in JOBS if environment.get(name)), None)


def named(template: str, host: str, job: str | None) -> Path:
    """The path with %n for the host, %j for the job ("none" outside of one) and %% for %.

    Whatever is odd in a name becomes "_", so that none leads to another folder. Raises ValueError
    for another letter after %.
    """
    words = {"n": host, "j": job or "none", "%": "%"}

    def word(found: re.Match[str]) -> str:
        if found[1] not in words:
            raise ValueError(f"%{found[1]} stands for nothing: use %n for the host, %j for the job")
        return found[1] if found[1] == "%" else _ODD.sub("_", words[found[1]])[:200]

    return Path(_PLACES.sub(word, template))
