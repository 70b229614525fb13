"""The base of all errors of gputop.

GputopError
├── Exit               ends a command with a sentence and an exit code (gputop/exits.py)
├── FormatError        a text that `--from` cannot use
├── SourceAbsent       a source that has nothing to ask on this machine
└── ...                each beside the code that raises it

The worker process runs without this package: its base is WorkerError in probes/protocol.
"""


class GputopError(Exception):
    """An error that gputop expects; its text is a sentence for a person.

    Subclasses may derive from ValueError or OSError too, where callers treat them as such.
    """

    exit_code = 3
    """The exit code of a command that this error ends: 3, "could not tell", unless it says more."""
