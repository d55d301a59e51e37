# Tangled from chapters/autodiff.ipynb; edit that, not this file.
"""Elementary functions: each a forward line and its way back."""

from __future__ import annotations

from collections.abc import Sequence

from lucid.autograd import (
    Tensor,
    check_floats,
    check_same_backend,
    check_same_kind,
    record,
    unbroadcast,
)
from lucid.backend import Array, array_module


def exp(x: Tensor) -> Tensor:
    """Exponential, elementwise.

    Notes
    -----
    :doc:`/chapters/autodiff`, equation (autodiff-elementwise-grad).
    """
    check_floats(x=x)
    y = array_module(x.data).exp(x.data)
    return record(y, (x,), lambda g: (g * y,))


def log(x: Tensor) -> Tensor:
    """Natural logarithm, elementwise.

    Notes
    -----
    :doc:`/chapters/autodiff`, equation (autodiff-elementwise-grad).
    """
    check_floats(x=x)
    y = array_module(x.data).log(x.data)
    return record(y, (x,), lambda g: (g / x.data,))


def sqrt(x: Tensor) -> Tensor:
    """Square root, elementwise.

    Notes
    -----
    :doc:`/chapters/autodiff`, equation (autodiff-elementwise-grad).
    """
    check_floats(x=x)
    y = array_module(x.data).sqrt(x.data)
    return record(y, (x,), lambda g: (g / (2 * y),))


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    Notes
    -----
    :doc:`/chapters/autodiff`, equation (autodiff-elementwise-grad).
    """
    check_floats(x=x)
    y = array_module(x.data).tanh(x.data)
    return record(y, (x,), lambda g: (g * (1 - y * y),))


def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Elements of ``a`` where ``condition`` holds, else of ``b``.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    check_same_backend(a=a, b=b, condition=condition)
    check_same_kind(a, b)
    xp = array_module(a.data)

    def vjp(g: Array) -> tuple[Array, Array]:
        return (
            unbroadcast(xp.where(condition.data, g, 0), a.shape),
            unbroadcast(xp.where(condition.data, 0, g), b.shape),
        )

    return record(xp.where(condition.data, a.data, b.data), (a, b), vjp)


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis that they have.

    Notes
    -----
    Explained in :doc:`/chapters/autodiff`.
    """
    if not tensors:
        raise ValueError("tensors: there is none to join")
    for other in tensors:
        check_same_kind(tensors[0], other)
    arrays = [t.data for t in tensors]
    xp = array_module(arrays[0])
    ends, total = [], 0
    for array in arrays[:-1]:
        total += array.shape[axis]
        ends.append(total)

    def vjp(g: Array) -> tuple[Array, ...]:
        return tuple(xp.split(g, ends, axis))

    return record(xp.concatenate(arrays, axis), tuple(tensors), vjp)
