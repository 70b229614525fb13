"""A flag as a page: what it is, what it is set to, and what to watch for."""

from __future__ import annotations

from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.values.own_words import for_library
from gputop.topology.flags.values.values import read_value, unknown, unread
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.page import Fact, Page
from gputop.topology.model.versions import numbers


def explanation(name: str, value: str | None, study: Study | None) -> Page | None:
    """Claim, facts and trap; None without a name."""
    flag = catalogue().flag(name)
    if not name or study is None:
        return None
    if flag is None:
        return Page(title=name, claim=f"{name} is {unknown(name, catalogue())}.")
    library = study.whose()
    flag = for_library(flag, library)
    default = flag.default_of(library.name, numbers(library.version))
    facts = [Fact(question="values", answer=flag.values, source=flag.source)]
    facts.append(Fact(question="when not set", answer=default))
    reading = None if value is None else read_value(flag, value, library)
    if value is not None and reading is not None:
        answer = f"{value} (counts as {reading.effective})"
        facts.append(Fact(question="value", answer=answer, because=reading.why, decides=True))
    closed = unread(flag, library)
    if closed:
        facts.append(Fact(question="read by this library?", answer="no", because=closed))
    # A variable that is not set has no consequence, and nothing needs a fix.
    if flag.set_when:
        facts.append(Fact(question="when to set it", answer=flag.set_when, basis=""))
    if flag.trap and value is None:
        facts.append(Fact(question="what to watch for", answer=flag.trap, basis=""))
    return Page(
        title=name,
        claim=flag.changes,
        facts=tuple(facts),
        consequence="" if value is None else flag.trap or "",
    )
