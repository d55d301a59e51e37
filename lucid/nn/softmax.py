"""Softmax and its logarithm."""

from __future__ import annotations

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    r"""Exponentials that sum to 1: :math:`p_i = e^{x_i}/\sum_j e^{x_j}`.

    Parameters
    ----------
    x : Tensor, any shape
    axis : int
        The axis that sums to 1.

    Returns
    -------
    Tensor of the same shape
    """
    xp = array_module(x.data)
    p = xp.exp(x.data - x.data.max(axis, keepdims=True))
    p /= p.sum(axis, keepdims=True)

    def vjp(g: Array) -> tuple[Array]:
        return (p * (g - (g * p).sum(axis, keepdims=True)),)

    return record(p, (x,), vjp)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    r"""Logarithm of the softmax, :math:`x_i - \log\sum_j e^{x_j}`.

    Parameters
    ----------
    x : Tensor, any shape
    axis : int
        The axis over which the probabilities sum to 1.

    Returns
    -------
    Tensor of the same shape
    """
    xp = array_module(x.data)
    shifted = x.data - x.data.max(axis, keepdims=True)
    total = xp.exp(shifted).sum(axis, keepdims=True)
    y = shifted - xp.log(total)

    def vjp(g: Array) -> tuple[Array]:
        return (g - xp.exp(y) * g.sum(axis, keepdims=True),)

    return record(y, (x,), vjp)
