# Tangled from chapters/modules.ipynb; edit that, not this file.
"""Dropout: silence a random part, scale up the rest."""

from __future__ import annotations

import numpy as np

from lucid.autograd import Tensor, check_floats, record
from lucid.backend import Array, array_module, device_rng
from lucid.nn.module import Module


def dropout_mask(like: Array, p: float) -> Array:
    """Return 0 with probability ``p``, else 1/(1-p), shaped as ``like``.

    Notes
    -----
    Derived in :doc:`/chapters/modules`, equation (modules-dropout-mean).
    """
    xp = array_module(like)
    drawn = device_rng(xp).random(like.shape, dtype=np.float32)
    return (drawn >= p).astype(like.dtype) * (1.0 / (1.0 - float(p)))


def check_probability(p: float) -> float:
    """Return ``p`` as a float if it can be a probability, else raise.

    Notes
    -----
    See :doc:`/chapters/modules`.
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p: a dropout probability lies in [0, 1), got {p}")
    return float(p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element to 0 with probability ``p``, else divide by 1 - p.

    Parameters
    ----------
    x : Tensor of floating point, any shape
    p : float
        Probability in [0, 1).
    training : bool
        If False, ``x`` is returned as it is.

    Returns
    -------
    Tensor of the same shape and dtype

    Raises
    ------
    TypeError
        If ``x`` is not floating point.
    ValueError
        If ``p`` is outside [0, 1).

    Notes
    -----
    Derived in :doc:`/chapters/modules`, equations (modules-dropout-forward)
    and (modules-dropout-grad).

    Examples
    --------
    >>> x = lucid.tensor([1.0, 2.0])
    >>> dropout(x, 0.1, training=False) is x
    True
    """
    check_floats(x=x)
    check_probability(p)
    if not training or p == 0.0:
        return x
    mask = dropout_mask(x.data, p)
    return record(x.data * mask, (x,), lambda g: (g * mask,))


class Dropout(Module):
    """Dropout at work while the module is in training mode.

    Parameters
    ----------
    p : float
        Probability in [0, 1) that an element is set to 0.

    Notes
    -----
    Derived in :doc:`/chapters/modules`.
    """

    def __init__(self, p: float) -> None:
        self.p = check_probability(p)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``, thinned out in training mode."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}"
