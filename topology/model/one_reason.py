"""One fault has one reason, in one wording: what of several findings says the same."""

from collections.abc import Iterable, Sequence

from .finding import FLAG_COSTS, JOB, Finding, Kind


def without_told(findings: Iterable[Finding], jobs: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings without those on variables that a job blames itself: one fault, one reason."""
    return tuple(one for one in findings if not any(_says(job, one) for job in jobs))


def _says(job: Finding, finding: Finding) -> bool:
    if job.id != JOB or finding.id != FLAG_COSTS or job.severity.order > finding.severity.order:
        return False
    kinds = (Kind.FLAG, Kind.PROCESS)
    return all(
        finding.names(kind) and {*finding.names(kind)} <= {*job.names(kind)} for kind in kinds
    )
