"""Lines with a message that nobody printed: commands and source that hold it, sentences about it.

A sentence is known by its form: it quotes the message between backticks, or somebody tells what he
saw, did or read. What has the head of a log's line, or begins with the message, was printed.
"""

import re
from collections.abc import Sequence

_PROMPT = (
    r"^\W{0,3}(?:\([\w.-]{1,40}\) ?)?(?:\[?[\w.-]{1,40}@[\w.-]{1,64}[^$#\n]{0,80})?[$#%] +"
    r"(?:sudo +)?"
)
_BEFORE = r"^\s*(?:\d{1,6}(?:[:|]| +)\s*|-{1,6}> *(?:\d{1,6} +)?|> +(?:\d{1,6} +)?|[+-] *|\| *)?\s*"
"""What stands before a line of source: its number, a debugger's arrow, the sign of a diff."""
_STATEMENT = (
    r"(?:raise\b|assert\b.*[\"']|throw [\w:]{1,60}\(|(?:f|s|sn|k)?printk?f?\("
    r"|(?:std::)?c(?:err|out) *<<"
    r"|(?:\w{1,30}\.)?logg(?:er|ing)\.\w{1,20}\(|log\.\w{1,20}\(|warnings\.warn\(|fmt\.\w{1,20}\("
    r"|(?:el)?if\b.*(?:\bin str\(|\)\s*:\s*$|\bin \w{1,40}:\s*$|[\w\"']:\s*$"
    r"|\{\s*$|; *then\b|\)\s*f?printf\()"
    r"|(?:if|while|until) .{0,80}\b[ezr]?grep\b|except\b.*:\s*$|catch *\("
    r"|return +(?:f?[\"']|\w+;)|#\s?define\b|\*?(?:\"[^\"]*\"|'[^']*')\*?(?:[,;]|\))|case\b.*:\s*$"
    r"|(?:WARN|ERROR|INFO|FATAL)\("
    r"|(?:echo|printf|logger) +[\"'-]|\w{0,20}CHECK\w{0,20}\(.{0,200}[\"']|//|/\*"
    r"|(?:static |const |auto |let |var |self\.)*\w{1,40}(?: \*?\w{1,40})?(?:\[\])? = [frb]?[\"'])"
)
"""Python, C, Go and shell that print, raise, compare or keep words. In a trace a `raise` is where
something happened; what happened is its last line."""
_NO_OUTPUT = re.compile(
    rf"{_PROMPT}(?:echo|printf|logger|[ezr]?grep|rg|awk|sed|dmesg|journalctl|z?cat|tail|less)\b"
    rf"|{_BEFORE}{_STATEMENT}"
    r"|^\s*[A-Z]\w{0,20}CHECK\w{0,20}\(.{0,200}\); *(?://.*)?$"
)
_HEAD = re.compile(
    r"^[\s>|]*(?:\d{4}[-/]\d\d|\[(?![^\]]*\]\()|<\d|[\w./-]+:\d+|\(\w{1,30}(?: [^)]{1,60})?\) "
    r"|[A-Z][a-z]{2} +\d+ \d\d:"
    r"|[A-Z]\d{4} |(?:\w+\.)*\w*(?:Error|Exception|Warning)\b|NVRM|what\(\)|terminate called"
    r"|Traceback|(?:ERROR|FATAL|INFO|WARN|WARNING)\b|[NR]CCL (?:WARN|INFO))"
)
"""How lines begin that a program printed."""
_SPAN = re.compile(r"`[^`]{2,300}`|\*\*[^*]{2,300}\*\*|(?<=^[-+*] )\*[^*]{2,300}\*(?=[ :.,])")
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
)
"""Somebody tells of it: what was seen or done, when, what helped; words of changelogs, manuals."""
MOST = 400


def is_no_output(line: str) -> bool:
    """Whether what a line says was typed, or stands in a program: it did not happen."""
    return _NO_OUTPUT.search(line[:MOST]) is not None


def is_told(line: str) -> bool:
    """Whether a sentence tells of a message: nobody printed it here.

    A message between backticks with words around it, or words of somebody who tells.
    """
    text = line[:MOST]
    if _HEAD.match(text):
        return False
    beside = _SPAN.sub(" \u2026 ", text)
    if beside != text and len(_WORD.findall(beside)) >= MOST_LABEL:
        return True
    return _TELLS.search(beside) is not None


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
