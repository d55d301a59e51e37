# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""The few array operations that NumPy and CuPy spell differently."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from lucid.backend.switch import active_module

Array = Any  # a numpy.ndarray or a cupy.ndarray


def _is_cupy(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "cupy"


def array_module(x: Array) -> ModuleType:
    """Return the module whose array ``x`` is: ``numpy`` or ``cupy``.

    Raises
    ------
    TypeError
        If ``x`` is no array.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.

    Examples
    --------
    >>> array_module(np.ones(3)).__name__
    'numpy'
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return np
    if _is_cupy(x):
        return sys.modules["cupy"]
    raise TypeError(
        f"x: wanted an array of NumPy or CuPy, got {type(x).__name__}"
    )


def asarray(x: Any, dtype: Any = None) -> Array:
    """Turn ``x`` into an array of the active backend, moving it if need be.

    Raises
    ------
    TypeError
        If ``x`` is neither an array nor made of numbers.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    xp = active_module()
    if _is_cupy(x):
        x = x.get() if xp is np else x
    elif not isinstance(x, np.ndarray):
        kind = type(x).__name__
        is_tensor = hasattr(x, "requires_grad")  # would lose its way back
        x = np.asarray(None if is_tensor else x)
        if x.dtype.kind in "OSU":
            raise TypeError(f"x: wanted an array or numbers, got {kind}")
    return xp.asarray(x, dtype=dtype)


def to_numpy(x: Array) -> np.ndarray:
    """Return ``x`` as a NumPy array; from a device this copies and waits.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    return x.get() if _is_cupy(x) else np.asarray(x)


def scatter_add(target: Array, index: Array, values: Array) -> None:
    """Do ``target[index] += values`` in place, adding repeated indices up.

    Plain ``target[index] += values`` keeps one of several equal indices.
    On a device the order of the additions varies, and with it the last bits.

    Parameters
    ----------
    target : array
    index : what ``target[index]`` takes
        For a table, an array of row numbers.
    values : array or number
        Of the shape of ``target[index]``, or broadcast to it.

    Notes
    -----
    Derived in :doc:`/chapters/arrays`, equation (arrays-scatter-grad).

    Examples
    --------
    >>> counts = np.zeros(2)
    >>> scatter_add(counts, np.array([0, 0, 0]), 1.0)
    >>> counts
    array([3., 0.])
    """
    array_module(target).add.at(target, index, values)
