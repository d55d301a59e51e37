# Tangled from chapters/optimisers.ipynb; edit that, not this file.
"""Bound the gradient of a whole model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from lucid.backend import Array, array_module, run_rows, to_numpy
from lucid.optim.optimizer import by_name


def _scale(factor: float, g: Array) -> None:
    g *= factor


def _sum_of_squares(g: Array) -> Array:
    """Return the sum of a gradient's squares, without an array of them."""
    xp = array_module(g)

    def kernel(g: Array) -> Array:
        flat = g.reshape(-1)
        return xp.einsum("i,i->", flat, flat)

    return xp.stack(run_rows(kernel, g if g.ndim else g[None])).sum()


def clip_grad_norm(parameters: Iterable[Any], max_norm: float) -> float:
    """Scale all gradients, in place, so that their norm is at most a bound.

    Parameters
    ----------
    parameters : iterable of Parameter or of (str, Parameter)
        With names, as `Module.named_parameters` gives them, an error can
        say which one is broken. Those without a gradient do not count.
    max_norm : float
        The bound; ``math.inf`` only measures.

    Returns
    -------
    float
        The norm before. On a CUDA device this waits, once.

    Raises
    ------
    FloatingPointError
        If the norm is not finite; names the first parameter to blame. The
        gradients are left as they are.
    ValueError
        If ``max_norm`` is not positive.

    Notes
    -----
    Derived in :doc:`/chapters/optimisers`, equations
    (optimisers-norm-forward) and (optimisers-clip-forward).

    Examples
    --------
    >>> from lucid.nn import Parameter
    >>> parameter = Parameter(np.zeros(2, np.float32))
    >>> parameter.grad = lucid.tensor([3.0, 4.0])
    >>> clip_grad_norm([parameter], max_norm=1.0)
    5.0
    >>> parameter.grad
    tensor([0.6, 0.8])
    """
    if not max_norm > 0.0:
        raise ValueError(f"max_norm: wanted more than 0, got {max_norm}")
    gradients = {
        name: parameter.grad.data
        for name, parameter in by_name(parameters)
        if parameter.grad is not None
    }
    if not gradients:
        return 0.0
    sums = [_sum_of_squares(g) for g in gradients.values()]
    squares = to_numpy(array_module(sums[0]).stack(sums)).astype(np.float64)
    for name, square in zip(gradients, squares, strict=True):
        if not np.isfinite(square):
            raise FloatingPointError(
                f"the gradient of parameter {name} has a norm of "
                f"{math.sqrt(square)}"
            )
    norm = math.sqrt(squares.sum())
    if norm > max_norm:
        for g in gradients.values():
            run_rows(
                partial(_scale, max_norm / norm), g if g.ndim else g[None]
            )
    return norm
