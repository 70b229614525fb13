"""The base of all errors of the worker process, which runs without the rest of gputop.

WorkerError
├── ProtocolError      a line that is not a message
├── ProbeStopped       a probe that cannot go on
├── EngineError        a driver's refusal of a call
├── NcclError          an error of the communication library
└── ...                each beside the code that raises it
"""


class WorkerError(Exception):
    """An error that the worker or a rank expects.

    Subclasses may derive from RuntimeError too, where callers treat them as such.
    """
