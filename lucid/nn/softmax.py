# Tangled from chapters/attention.ipynb; edit that, not this file.
"""Softmax and its logarithm."""

from __future__ import annotations

from lucid.autograd import Tensor, check_floats, record
from lucid.backend import Array, array_module


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    r"""Exponentials that sum to 1: :math:`p_i = e^{x_i}/\sum_j e^{x_j}`.

    The largest element is taken off first, so nothing overflows.

    Parameters
    ----------
    x : Tensor of float32 or float64, any shape
    axis : int
        The axis that sums to 1.

    Returns
    -------
    Tensor of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/attention`, equations
    (attention-softmax-forward), (attention-shift) and
    (attention-softmax-grad).

    Examples
    --------
    >>> lucid.nn.functional.softmax(lucid.tensor([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    check_floats(x=x)
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
    x : Tensor of float32 or float64, any shape
    axis : int
        The axis over which the probabilities sum to 1.

    Returns
    -------
    Tensor of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/attention`, equations
    (attention-logsoftmax-forward) and (attention-logsoftmax-grad).

    Examples
    --------
    >>> logits = lucid.tensor([0.0, -800.0])
    >>> lucid.nn.functional.log_softmax(logits).tolist()
    [0.0, -800.0]
    """
    check_floats(x=x)
    xp = array_module(x.data)
    shifted = x.data - x.data.max(axis, keepdims=True)
    y = shifted - xp.log(xp.exp(shifted).sum(axis, keepdims=True))

    def vjp(g: Array) -> tuple[Array]:
        return (g - xp.exp(y) * g.sum(axis, keepdims=True),)

    return record(y, (x,), vjp)
