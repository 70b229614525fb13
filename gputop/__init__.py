"""A terminal explorer for the inside of a GPU node."""

import os

__version__ = "0.1.0"
DISTRIBUTION = "gputopo"
"""What installers call this program: on PyPI, `gputop` is another one."""
own_process = False
"""Whether this process began in order to carry out one command; `main` says so."""

_HERE = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_HERE, "topology")):
    # A checkout: probes/, themes/ and topology/ lie beside this folder, as pyproject.toml says.
    __path__.append(os.path.dirname(_HERE))

_LIBRARY = ("GputopError", "NodeAnswers", "as_json", "demo", "diff", "load", "read_text")
"""What gputop is as a library: names of library.py, which is imported with the first of them."""
__all__ = ["__version__", "read", *_LIBRARY]


def __getattr__(name: str) -> object:
    if name not in _LIBRARY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.library"), name)


def read() -> object:
    """Read this machine, as it is now, as a NodeAnswers. Stable.

    A driver that does not answer is waited for 10 s at most; what is missing is in `problems`.
    """
    from importlib import import_module

    # The driver takes 0.1 s to start: as long as what asks it takes to be imported.
    import_module(f"{__name__}.waking").wake_driver()
    return import_module(f"{__name__}.library").read()


def __dir__() -> list[str]:
    return sorted({*globals(), *_LIBRARY})
