"""Byte code of the program, kept where Python can keep none beside the code.

That is so where nobody compiled at installation and site-packages cannot be written, or the
environment has PYTHONDONTWRITEBYTECODE. Python then compiles everything at every start.
"""

from __future__ import annotations

import os
import stat
import sys
from importlib import machinery


class KeptSource(machinery.SourceFileLoader):
    """Loads a source, whose byte code lies beside it or in `folder`; what is new goes there.

    `sys.pycache_prefix` would not do: the standard library's own byte code would go unread.
    """

    folder = ""

    def get_data(self, path: str) -> bytes:
        """Read a file, of byte code the one in `folder` if there is none beside the source."""
        try:
            return super().get_data(path)
        except OSError:
            if not path.endswith(".pyc"):
                raise
            return super().get_data(self.folder + path)

    def set_data(self, path: str, data: bytes, *, _mode: int = 0o666) -> None:  # type: ignore[override]
        """Write byte code into `folder`; Python passes over it where that fails."""
        super().set_data(self.folder + path, data, _mode=_mode)


def keep() -> None:
    """Let Python keep byte code in the user's cache folder, where it lies not beside the code.

    Not with -B or PYTHONPYCACHEPREFIX, by which somebody said what is to become of it.
    """
    given_here = sys.dont_write_bytecode and not os.environ.get("PYTHONDONTWRITEBYTECODE")
    if given_here or sys.pycache_prefix is not None:
        return
    folder = own_folder()
    if folder is None:
        return
    KeptSource.folder = folder
    loaders = (
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (KeptSource, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
    sys.path_hooks.insert(0, machinery.FileFinder.path_hook(*loaders))
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = False


def own_folder() -> str | None:
    """A folder for byte code in the user's cache folder, made where it is not there yet; or None.

    It, the folders up to the cache folder, and HOME where that one lies in it, must belong to the
    user of this process and be closed to writing by others: what another user wrote would be run.
    Members of their group may write where the mode lets them. Folders above these and access
    lists are not looked at.
    """
    home = os.environ.get("HOME", "")
    cache = os.environ.get("XDG_CACHE_HOME") or (home and os.path.join(home, ".cache"))
    if not os.path.isabs(cache):
        return None
    own = os.path.join(cache, "gputop")
    folder = os.path.join(own, "bytecode")
    above = [folder, own, cache, *([home] if cache.startswith(home) else [])]
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        private = all(map(_is_private, above))
    except OSError:
        return None
    return folder if private and os.access(folder, os.W_OK) else None


def _is_private(place: str) -> bool:
    found = os.stat(place)
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH
