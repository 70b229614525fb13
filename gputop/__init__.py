"""A terminal explorer for the inside of a GPU node."""

from pathlib import Path

__version__ = "0.1.0"

_HERE = Path(__file__).parent
if not (_HERE / "topology").is_dir():
    # A checkout: probes/, themes/ and topology/ lie beside this folder, as pyproject.toml says.
    __path__.append(str(_HERE.parent))
