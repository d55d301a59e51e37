# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""The switch between NumPy on the CPU and CuPy on a CUDA device."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

import numpy as np

BACKENDS = ("numpy", "cupy")

_INSTALL_CUPY = (
    "Install it with `pip install 'lucid-bert[cuda12]'` or "
    "`pip install 'lucid-bert[cuda13]'`, whichever matches your driver."
)


@functools.cache
def _load_cupy() -> ModuleType:
    """Import CuPy and prove that it can run one kernel."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ImportError(
            f"backend 'cupy': CuPy is not installed. {_INSTALL_CUPY}"
        ) from error
    if not cupy.is_available():
        raise RuntimeError(
            "backend 'cupy': no CUDA device was found. Check `nvidia-smi`, "
            "or stay on the CPU with lucid.set_backend('numpy')."
        )
    try:
        float((cupy.arange(2) + 1).sum())
    except Exception as error:
        raise RuntimeError(
            "backend 'cupy': CuPy found a device but could not compile a "
            "kernel (is NVRTC missing?). Install CuPy with its [ctk] extra: "
            "`pip install 'cupy-cuda12x[ctk]'`."
        ) from error
    return cupy


def _load(name: str) -> ModuleType:
    if name not in BACKENDS:
        raise ValueError(
            f"backend: {name!r} is not one of {', '.join(BACKENDS)}"
        )
    return np if name == "numpy" else _load_cupy()


_default: ModuleType | None = None  # of the whole process
_chosen: ContextVar[ModuleType | None] = ContextVar("backend", default=None)


def active_module() -> ModuleType:
    """Return the array module (``numpy`` or ``cupy``) that makes new arrays.

    On first use the environment variable ``LUCID_BACKEND`` decides.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    global _default
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    if _default is None:
        _default = _load(os.environ.get("LUCID_BACKEND", "numpy"))
    return _default


def get_backend() -> str:
    """Return the name of the active backend, ``"numpy"`` or ``"cupy"``.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    return active_module().__name__


def set_backend(name: str) -> None:
    """Choose where new tensors live: ``"numpy"`` (CPU) or ``"cupy"`` (CUDA).

    Parameters
    ----------
    name : str
        ``"numpy"`` or ``"cupy"``.

    Raises
    ------
    ValueError
        If the name is unknown.
    ImportError
        If CuPy is not installed.
    RuntimeError
        If there is no CUDA device, or CuPy cannot compile a kernel.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    global _default
    _default = _load(name)


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Choose a backend for the length of a ``with`` block.

    Other threads do not see the choice. In the block it counts more than
    what `set_backend` says.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    token = _chosen.set(_load(name))
    try:
        yield
    finally:
        _chosen.reset(token)
