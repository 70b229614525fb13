"""The variables of a log as one setting for all ranks."""

from .report import LogReport, Variable


def settings_from(log: LogReport) -> dict[str, str]:
    """The variables in the log, name -> value; where ranks differ, the most frequent value."""
    best: dict[str, Variable] = {}
    for variable in log.environment:
        known = best.get(variable.name)
        if known is None or variable.count > known.count:
            best[variable.name] = variable
    return {name: variable.value for name, variable in best.items()}
