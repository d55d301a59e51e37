# Tangled from chapters/arrays.ipynb, chapters/optimisers.ipynb; edit those,
# not this file.
"""Checks of what callers give; each names the argument it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any


def check_integer(
    name: str, value: Any, least: int = 0, most: int | None = None
) -> int:
    """Return a value as an int; raise unless it is an integer in a range.

    Parameters
    ----------
    name : str
        What the error calls it.
    value : int
        NumPy's integers will do, True and False will not.
    least, most : int
        The range, both ends included; by default from 0 on.

    Raises
    ------
    ValueError
        If it is not an integer, or out of the range.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.

    Examples
    --------
    >>> check_integer("batch_size", np.int64(8), least=1)
    8
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        end = "on" if most is None else f"to {most}"
        raise ValueError(
            f"{name}: wanted an integer from {least} {end}, got {value!r}"
        )
    return int(value)


def check_number(name: str, value: Any) -> float:
    """Return a value as a float; raise unless it is a number from 0 on.

    Raises
    ------
    ValueError
        If it is negative, infinite, NaN or no number.

    Notes
    -----
    Explained in :doc:`/chapters/optimisers`.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not 0.0 <= value < math.inf:
        raise ValueError(f"{name}: wanted a number from 0 on, got {value!r}")
    return float(value)


def check_keys(state: Mapping[str, Any], wanted: Iterable[str]) -> None:
    """Raise unless a state has just the names that are wanted.

    Raises
    ------
    ValueError
        If names are missing or unexpected; it lists them.

    Notes
    -----
    Explained in :doc:`/chapters/optimisers`.
    """
    names = set(wanted)
    if state.keys() != names:
        raise ValueError(
            f"state: missing {sorted(names - state.keys())}, unexpected "
            f"{sorted(state.keys() - names)}"
        )
