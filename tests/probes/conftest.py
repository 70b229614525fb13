"""Made-up GPUs behind the names of the drivers, for all tests of probes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.device_kernels.built import NoCompilerError, built, installed
from tests.device_kernels.made_up import MadeUpDriver, MadeUpNode


@pytest.fixture(scope="session")
def made_up_library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The driver's file; skips where there is no g++."""
    cache = getattr(request.config, "cache", None)  # not there with -p no:cacheprovider
    folder = Path(cache.mkdir("made-up-driver")) if cache else tmp_path_factory.getbasetemp().parent
    try:
        return built(folder)
    except NoCompilerError:
        pytest.skip("no g++, which compiles the made-up driver")


@pytest.fixture(scope="session")
def loaded_library(made_up_library: Path) -> ctypes.CDLL:
    """The driver in this process, under no name that anybody looks for."""
    library = ctypes.CDLL(str(made_up_library))
    library.counted.restype = ctypes.c_long
    return library


@pytest.fixture
def driver(loaded_library: ctypes.CDLL) -> Iterator[MadeUpDriver]:
    """A driver in this process, which has no GPU until the test says otherwise."""
    made = MadeUpDriver(loaded_library)
    made.becomes()
    yield made
    made.becomes()


@pytest.fixture(scope="session")
def libraries(
    made_up_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Give a folder for LD_LIBRARY_PATH: its vendor, and which function its driver lacks."""

    def install(vendor: str, lacks: str = "") -> str:
        return installed(made_up_library, tmp_path_factory.mktemp("driver"), vendor, lacks)

    return install


@pytest.fixture(scope="session")
def nvidia_node(libraries: Callable[..., str]) -> Iterator[MadeUpNode]:
    """A bare Python that finds the driver as libcuda.so.1."""
    node = MadeUpNode(libraries("nvidia"), "nvidia")
    yield node
    node.close()


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python without any site-packages, so without torch."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    path.chmod(0o755)
    return str(path)
