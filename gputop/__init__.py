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
