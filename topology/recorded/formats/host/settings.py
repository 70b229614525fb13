"""`NAME=VALUE` lines: the output of `env`, `export` lines, `-x NAME=VALUE` of mpirun.

Only listed variables are kept: no other name or value is ever shown or stored.
"""

from __future__ import annotations

import re

from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.snapshot import EnvironmentVariable
from ....model.variable_names import listed

LIMIT_CHARACTERS = 512
MOST = 1000
_NAMES = r"(?:(?:TORCH_|OFI_)?[NR]CCL|CUDA|HIP|ROCR|HSA|NVIDIA|FI|GPU|AMD|PYTORCH)_[A-Z0-9_]{1,60}"
_VALUE = r"(?:\"([^\"\n]{0,512})\"|'([^'\n]{0,512})'|([^\s;\"']{0,512}))"
_SET = re.compile(rf"(?:^|[\s;]|-x |-e |--env[ =])({_NAMES})={_VALUE}")
_LEAD = r"[ \t]*(?:(?:export|declare -x|setenv|set|ENV|-x|-e) +)?"


def _parse(lines: list[str]) -> PartialNode:
    values: dict[str, str] = {}
    for line in lines:
        if line.lstrip()[:1] == "#":
            continue
        for found in _SET.finditer(line[:8192]):
            if listed(found[1]) and len(values) < MOST:
                value = next(filter(None, found.groups()[1:]), "")
                values[found[1]] = value[:LIMIT_CHARACTERS]  # the last one is in effect
    if not values:
        raise FormatError("no variable in it that changes what NCCL, RCCL or CUDA does")
    return PartialNode(
        environment=tuple(
            EnvironmentVariable(name=name, value=value, origin="environment")
            for name, value in values.items()
        )
    )


_STARTS = re.compile(rf"(?m)^{_LEAD}(?=[NRTOCHFGAP]){_NAMES}=(?!=)")
FORMAT = text_format(
    id="NAME=VALUE",
    parse=_parse,
    starts=_STARTS,
    goes_on=re.compile(rf"{_LEAD}[A-Z_a-z][A-Z_a-z0-9]{{1,60}}=(?!=)|[ \t]*-[xe] "),
    repeats=True,
    together=True,
    yields=True,
)
