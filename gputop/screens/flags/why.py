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
        return Page.why(title=name, claim=f"{name} is {unknown(name, catalogue())}.")
    library = study.whose()
    flag = for_library(flag, library)
    default = flag.default_of(library.name, numbers(library.version))
    facts = [Fact(what="values", value=flag.values, source=flag.source)]
    facts.append(Fact(what="when not set", value=default, source=""))
    reading = None if value is None else read_value(flag, value, library)
    if value is not None and reading is not None:
        answer = f"{value} (counts as {reading.effective})"
        facts.append(Fact(what="value", value=answer, because=reading.why, decides=True, source=""))
    closed = unread(flag, library)
    if closed:
        facts.append(Fact(what="read by this library?", value="no", because=closed, source=""))
    # A variable that is not set has no consequence, and nothing needs a fix.
    if flag.set_when:
        facts.append(Fact(what="when to set it", value=flag.set_when, basis="", source=""))
    if flag.trap and value is None:
        facts.append(Fact(what="what to watch for", value=flag.trap, basis="", source=""))
    return Page.why(
        title=name,
        claim=flag.changes,
        facts=tuple(facts),
        impact="" if value is None else flag.trap or "",
    )
