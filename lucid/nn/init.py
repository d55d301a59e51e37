# Tangled from chapters/modules.ipynb; edit that, not this file.
"""Initial weights, drawn on the host so that a seed fixes the model."""

from __future__ import annotations

import math

import numpy as np

from lucid.backend import Array, active_module, asarray, host_rng


def truncated_normal(shape: tuple[int, ...], std: float) -> Array:
    """Draw from a normal distribution cut off at two standard deviations.

    Values beyond ``2 * std`` are drawn again, so the spread of what remains
    is 0.88 ``std``. This is the initialiser of Google's BERT.

    Parameters
    ----------
    shape : tuple of int
    std : float
        Standard deviation before the cut.

    Returns
    -------
    array of float32 on the active backend

    Raises
    ------
    ValueError
        If ``std`` is negative, infinite or NaN.

    Notes
    -----
    Explained in :doc:`/chapters/modules`; the spread is equation
    (modules-truncated), the choice of ``std`` equation (modules-growth).
    """
    if not 0.0 <= std < math.inf:
        raise ValueError(f"std: wanted a number from 0 on, got {std}")
    rng = host_rng()
    values = rng.standard_normal(shape, dtype=np.float32)
    flat = values.reshape(-1)
    outside = np.flatnonzero(np.abs(flat) > 2)
    while outside.size:
        flat[outside] = rng.standard_normal(outside.size, dtype=np.float32)
        outside = outside[np.abs(flat[outside]) > 2]
    values *= std
    return asarray(values)


def zeros(shape: tuple[int, ...]) -> Array:
    """Return float32 zeros on the active backend.

    Notes
    -----
    See :doc:`/chapters/modules`.
    """
    return active_module().zeros(shape, dtype=np.float32)


def ones(shape: tuple[int, ...]) -> Array:
    """Return float32 ones on the active backend.

    Notes
    -----
    See :doc:`/chapters/modules`.
    """
    return active_module().ones(shape, dtype=np.float32)
