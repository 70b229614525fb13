"""Lines that tell of a message which nobody printed here: sentences about it, and quotations.

A sentence is known by its form: it quotes the message between backticks, or somebody tells what he
saw, did or read. What has the head of a log's line, or begins with the message, was printed.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from .no_output import MOST, without_numbers

_HEAD = re.compile(
    r"^[\s>|]*(?:\d{4}[-/]\d\d|\[(?![^\]]*\]\()|<\d|[\w./-]+:\d+|\(\w{1,30}(?: [^)]{1,60})?\) "
    r"|[A-Z][a-z]{2} +\d+ \d\d:"
    r"|[A-Z]\d{4} |(?:\w+\.)*\w*(?:Error|Exception|Warning)\b|NVRM|what\(\)|terminate called"
    r"|Traceback|(?:ERROR|FATAL|INFO|WARN|WARNING)\b|[NR]CCL (?:WARN|INFO))"
)
"""How lines begin that a program printed."""
_SPAN = re.compile(r"`[^`]{2,300}`|\*\*[^*]{2,300}\*\*|(?<=^[-+*] )\*[^*]{2,300}\*(?=[ :.,])")
_QUOTED = re.compile(r"\"[^\"]{8,300}\"|(?<![\w])'[^']{8,300}'(?!\w)|\u201c[^\u201d]{8,300}\u201d")
_WORD = re.compile(r"(?<![\w./-])[A-Za-z']{2,20}(?![\w/(=])")
_PERSON = (
    r"(?i:I|we|they|he|she|some(?:body|one)|people|users|customers|colleagues?|others)"
    r"(?:'ve|'d| have| had| once| also| still| always| often| sometimes| usually| just| only| never"
    r"| did(?:n't)?| do(?:n't)?)*"
)
_TELLS = re.compile(
    rf"\b{_PERSON} (?:saw|seen|see|gets?|got|had|have|hit|(?:ran|run) into|noticed|found|observed?"
    r"|reported|encounter(?:ed)?|experienced?|fixed|solved|changed|reseated|updated|upgraded|rebooted"
    r"|switched|moved|tried|thought|used to|lost|replaced)\b"
    r"|\bused to (?:get|see|fail|crash|hang|be|have|say|die|end)\b"
    r"|\b(?:last|the other|this) (?:week|month|year|night|summer|winter|time|day)\b|\byesterday\b"
    r"|\b(?:days?|weeks?|months?|years?) ago\b"
    r"|\b(?:the|a|my|our|known|possible|common) (?:fix|cure|solution|workaround|reason|cause)"
    r" (?:for|of|was|is)\b"
    r"|\b(?:went away|(?:is|was) gone\b(?! *$)|turned out"
    r"|(?:is|was|got|been) (?:fixed|solved|resolved))\b"
    r"|^\W*(?:If|When|Whenever|In case) (?:you|your|we|training|it|the|an?)\b"
    r"|^[\s>]*(?:[-*+\u2022]|\d{1,3}[.)]) +(?:\[\w{1,20}\] )?(?:\w{1,30}(?:[./]\w{1,30})*: )?"
    r"(?i:fix(?:e[sd])?"
    r"|handles?|handled|adds?|added|supports?|avoids?|prevents?|do not|don't|improved?|removed?"
    r"|reports?|retry|retries|ignored?|documents?|detects?|catch|workaround)\b"
    r"|^\W*(?:Fix(?:e[sd])?|Workaround) (?:a |an |the |for |[\"'`#])"
    r"|^#{2,6} "
    r"|\(#\d{2,6}\)\W*$|^\W{0,3}\[[^\]]{12,300}\]\(https?://"
)
"""Somebody tells of it: what was seen or done, when, what helped; words of changelogs, manuals."""
_LISTED = re.compile(
    r"^[\s>]*(?:[-*+\u2022] +)?(?:[Kk]nown issues?|[Bb]ug ?[Ff]ix(?:es)?|Fixe[sd]|Resolved"
    r"|Changelog|\[BUG ?FIX\]|Release notes|Closes #\d+|Subject: \[PATCH|\[[ xX]\] |Bug \d{2,7}: "
    r"|Q: |Changed: (?!MRL)|(?:commit )?[0-9a-f]{7,40}:? (?:Fix|Add|Handle|Avoid|Do not|Don't"
    r"|Remove|Improve|Report|Retry)"
    r"|#\d{3,6}:? (?!\d|ERROR|in )|v\d+\.\d+[.\d]*: (?:no|fix|add|better)\b)"
)
"""Entries of changelogs, of lists of issues and of what is known."""
_COMMENT = re.compile(
    r"[\s>]*(?:#+:? (?!\s|Out of bounds|Avg|Using|n[Tt]hread|Rank|Collective test)"
    r"|#+(?![\d#\s])\S|[;%] (?=[\w\[-]))"
)
"""How a remark begins in a file of settings, a script or a query; tests of NCCL begin so too."""
_USUALLY = r"(?:usually |often |just |simply |only |normally |typically )*"
_NAMED = re.compile(
    r"(?:\b[Tt]h(?:e|is|at)|\b[Aa]n?|\bno|\bsuch an?) (?:error |warning )?"
    r"(?:error|message|warning|line|word)s?"
    r"(?: like| such as| of| called| saying)? \u2026"
    rf"|\u2026 {_USUALLY}(?:mean[st]?|indicates?|is (?:printed|harmless|expected|normal|logged)"
    r"|(?:can|may|should) be (?:safely )?ignored"
    r"|in (?:the|your|my|its|a) (?:log|output|file|journal)|anywhere)\b"
    r"|^\W*(?:[Ll]ook|[Ss]earch|[Gg]rep) for \u2026|\b[Tt]here (?:was|is|were|are) no \u2026"
    r"|\b(?:do(?:n't| not)|did(?:n't| not)|never) see \u2026|^\W*(?:such as|like) \u2026"
)
"""Words beside a message in quotation marks that speak of it as of a message."""
_SPEAKS = re.compile(
    r"^\W*(?:What|Why|How|When|Where|Does|Do|Did|Has|Have|Any(?:one|body)) .*\?\W*$"
    r"|(?<![Tt]his )(?<!which )\b(?:usually|often|normally|typically|simply|just) means\b"
    r"|\b(?:can|may|should) (?:be )?(?:safely )?(?:be )?ignored?\b|\bis harmless\b"
    r"|^\W*According to\b"
    r"|\b[Ii]t (?:may|might|will|would|could) (?:then )?(?:print|say|report|log)\b"
)
"""A question about a message, or a word about how much it means."""


def is_told(line: str) -> bool:
    """Whether a sentence tells of a message: nobody printed it here.

    A message between backticks with words around it, or words of somebody who tells.
    """
    return _is_told(without_numbers(line))


@lru_cache(1024)  # a program that fails says one thing again and again
def _is_told(text: str) -> bool:
    if _COMMENT.match(text) or _LISTED.match(text):
        return True
    if _HEAD.match(text):
        return False
    beside = _SPAN.sub(" \u2026 ", text)
    if beside != text and len(_WORD.findall(beside)) >= MOST_LABEL:
        return True
    if any(form.search(beside) for form in (_TELLS, _SPEAKS)):
        return True
    return _NAMED.search(" ".join(_QUOTED.sub(" \u2026 ", text).split())) is not None


MOST_LABEL = 3
"""So many words beside a quoted message are a sentence; fewer are a label of it."""


_WROTE = re.compile(
    r"(?i)(?:\bwrote|\bsaid|\bwrites|\bposted|schrieb|a \u00e9crit)\b.{0,40}:?\s*$|^@[\w-]{2,40}\b"
)
_ANSWERS = re.compile(
    r"(?i)\b(?:same here|me too|(?:had|have|saw|got|hit) (?:this|that|the same)(?: one| error)? too"
    r"|mine was|in my case|(?:we|I) (?:have )?(?:fixed|solved) (?:it|this|that)"
    r"|that was .{1,40} for me)\b"
)
"""How lines begin or answer a quotation of what another person posted."""


def answered(lines: Sequence[str]) -> list[bool]:
    """Which lines somebody quotes of another one's post, to answer them: not of this machine.

    A block of lines that begin with ">", where the line before says who wrote it, or the line
    behind answers. Whoever quotes an own output does neither.
    """
    quoted = [line.lstrip(" ")[:1] == ">" for line in lines]
    found = [False] * len(lines)
    at = 0
    while at < len(lines):
        if not quoted[at]:
            at += 1
            continue
        end = at
        while end < len(lines) and (quoted[end] or not lines[end].strip()):
            end += 1
        before = next((line for line in reversed(lines[:at]) if line.strip()), "")
        behind = lines[end] if end < len(lines) else ""
        if _WROTE.search(before[-MOST:]) or _ANSWERS.search(behind[:MOST]):
            found[at:end] = quoted[at:end]
        at = end
    return found
