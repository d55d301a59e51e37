# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""The error function, which NumPy does not have."""

from __future__ import annotations

import importlib

import numpy as np

from lucid.backend.arrays import Array, array_module

# erf(z) = tanh(z p(z^2)) to 7e-8; beyond |z| = 4 both are 1 in float32.
_ERF_COEFFICIENTS = (
    1.12837979e00,
    1.02764697e-01,
    -1.82486233e-04,
    -6.27447411e-04,
    9.03941056e-05,
    -6.10197885e-06,
    1.65903689e-07,
)


def erf(z: Array) -> Array:
    r"""Error function, elementwise, in the precision of ``z``.

    NumPy has vectorised ``tanh`` but no ``erf``. In float32 we use
    :math:`\tanh(z\,p(z^2))` with a fitted polynomial, off by at most 2e-7;
    in float64 SciPy's; on a CUDA device CuPy's.

    Parameters
    ----------
    z : array of float32 or float64, any shape

    Returns
    -------
    array of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/arrays`, equation (arrays-erf-forward).
    """
    xp = array_module(z)
    if xp is not np:
        return importlib.import_module("cupyx.scipy.special").erf(z)
    if z.dtype != np.float32:
        return importlib.import_module("scipy.special").erf(z)
    with np.errstate(over="ignore"):
        square = z * z
        p = square * _ERF_COEFFICIENTS[-1]
        for coefficient in _ERF_COEFFICIENTS[-2:0:-1]:
            p += coefficient
            p *= square
        p += _ERF_COEFFICIENTS[0]
        p *= z
    return np.tanh(p)
