"""Rule: known defects of the versions that are installed, where all else that they need is true."""

from ....model.severity import NOTICE
from ...case import Case
from ...defects.scene import fitting, of_machine
from ...defects.words import ID, MOST_TOLD, proof, steps, title
from ...rule import Found, Rule, needed


def _check(case: Case) -> Found:
    settings = {name: value for name, (value, _) in case.variables.items()}
    scene = of_machine(case.machine, settings)
    needed(scene.versions)
    return [
        KNOWN.finding(
            NOTICE,
            f"{product} {' and '.join(scene.versions[product])} {title(found)}",
            evidence=[proof(defect) for defect in found[:MOST_TOLD]],
            impact="Jobs on this node may meet what is listed. That one did is not shown by this.",
            fix=steps(found),
        )
        for product, found in fitting(scene).items()
    ]


KNOWN = Rule(
    id=ID,
    title="known defects of the installed versions that this node meets the conditions of",
    evidence="versions of the driver, NCCL or RCCL, the kernel and the firmware of NICs",
    disproof="a version with the fix, or one of the settings that avoid it",
    sources=("docs/defects.md, which names the source of each",),
    check=_check,
    without_gpus=True,
)
RULES = (KNOWN,)
