"""One fault has one reason, in one wording: what of several findings says the same."""

from collections.abc import Iterable, Sequence

from .finding import FLAG_COSTS, JOB, Finding, Kind

_SAYS_MORE = {"oom-killed": "rank-out-of-memory"}
"""A fault in the kernel's lines, and the row of a text's table that tells more of those lines."""


def without_told(findings: Iterable[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings without what others tell already, with more: one fault, one reason.

    Of variables that is a job which blames them itself, of lines a row of a text's table.
    """
    rows = {one.id for one in others}
    return tuple(
        one
        for one in findings
        if _SAYS_MORE.get(one.id) not in rows and not any(_says(other, one) for other in others)
    )


def _says(job: Finding, finding: Finding) -> bool:
    if job.id != JOB or finding.id != FLAG_COSTS or job.severity.order > finding.severity.order:
        return False
    kinds = (Kind.FLAG, Kind.PROCESS)
    return all(
        finding.names(kind) and {*finding.names(kind)} <= {*job.names(kind)} for kind in kinds
    )
