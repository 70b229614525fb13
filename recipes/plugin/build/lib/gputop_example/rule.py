"""A check of the number of GPUs."""

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rule import Found, Rule
from gputop.topology.model.severity import NOTICE


def _check(case: Case) -> Found:
    count = len(case.gpus)
    if not count & (count - 1):
        return ()
    return POWER_OF_TWO.finding(
        NOTICE,
        f"{count} GPUs take part, which is no power of two",
        evidence=[("GPUs that take part", str(count), case.source)],
        impact="A model that is cut into equal parts often needs a power of two.",
        fix=["Choose GPUs $ gputop check --gpus 0-3"],
    )


POWER_OF_TWO = Rule(
    id="example-power-of-two",
    title="a number of GPUs that is no power of two",
    evidence="the GPUs that take part",
    disproof="another number of GPUs in {asked}",
    asked=(("nvidia", "`nvidia-smi -L`"), ("amd", "`amd-smi list`")),
    sources=("an example of gputop",),
    check=_check,
    extra=True,
    severities=(NOTICE,),
)
RULES = (POWER_OF_TWO,)
