"""Lines with a message that nobody printed: a command that looks for it, source that has it."""

import re

_PROMPT = (
    r"^\W{0,3}(?:\([\w.-]{1,40}\) ?)?(?:\[?[\w.-]{1,40}@[\w.-]{1,64}[^$#\n]{0,80})?[$#%] +"
    r"(?:sudo +)?"
)
_NO_OUTPUT = re.compile(
    rf"{_PROMPT}(?:echo|printf|logger|[ezr]?grep|rg|awk|sed|dmesg|journalctl|z?cat|tail|less)\b"
    r"|^\s*(?:throw [\w:]{1,60}\(|printk?f?\(|logg(?:er|ing)\.\w{1,20}\(|log\.\w{1,20}\()"
    r"|^\s*(?:WARN|ERROR|INFO|FATAL)\(|^\s*[A-Z]\w{0,20}CHECK\w{0,20}\([^)]{0,200}\);\s*$"
)
"""A shell's prompt with a command that prints or seeks words; statements of a program that print
them. No `raise` of Python: in a trace it is what happened."""


def is_no_output(line: str) -> bool:
    """Whether what a line says was typed, or stands in a program: it did not happen."""
    return _NO_OUTPUT.search(line[:400]) is not None
