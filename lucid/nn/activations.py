# Tangled from chapters/feed-forward.ipynb; edit that, not this file.
"""The activation functions of BERT's feed-forward block."""

from __future__ import annotations

import math
from collections.abc import Callable

from lucid.autograd import Tensor, check_floats, record
from lucid.backend import Array, array_module, erf, run_rows


def _in_blocks(function: Callable[..., Array], *arrays: Array) -> Array:
    """Apply an elementwise function in blocks of rows, on every core."""
    shape = arrays[0].shape
    rows = (math.prod(shape[:-1]), shape[-1] if shape else 1)
    out = array_module(arrays[0]).empty(rows, dtype=arrays[0].dtype)

    def kernel(out: Array, *blocks: Array) -> None:
        out[...] = function(*blocks)

    run_rows(kernel, out, *(a.reshape(rows) for a in arrays))
    return out.reshape(shape)


def _elementwise(
    x: Tensor,
    value: Callable[[Array], Array],
    slope: Callable[[Array], Array],
) -> Tensor:
    """Record a function of each element together with its derivative."""
    return record(
        _in_blocks(value, x.data),
        (x,),
        lambda g: (_in_blocks(lambda g, x: g * slope(x), g, x.data),),
    )


_SQRT_HALF = math.sqrt(0.5)
_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)


def gelu(x: Tensor) -> Tensor:
    r"""Gaussian error linear unit, :math:`x\,\Phi(x)`, with the exact erf.

    Hugging Face's name for it is ``"gelu"``.

    Parameters
    ----------
    x : Tensor of float32 or float64, any shape

    Returns
    -------
    Tensor of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/feed-forward`, equations
    (feed-forward-gelu-forward), (feed-forward-phi) and
    (feed-forward-gelu-grad). Hendrycks and Gimpel, "Gaussian error linear
    units", section 2.

    Examples
    --------
    >>> round(lucid.nn.functional.gelu(lucid.tensor([2.7])).item(), 5)
    2.69064
    """
    check_floats(x=x)
    xp = array_module(x.data)

    def probability(x: Array) -> Array:
        p = erf(x * _SQRT_HALF)
        p += 1.0
        p *= 0.5
        return p

    def slope(x: Array) -> Array:
        return probability(x) + x * _DENSITY_AT_0 * xp.exp(-0.5 * x * x)

    return _elementwise(x, lambda x: x * probability(x), slope)


_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715


def gelu_tanh(x: Tensor) -> Tensor:
    r"""Gaussian error linear unit through a tanh, as in Google's code.

    .. math:: \tfrac12 x\,(1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715\,x^3)))

    Hugging Face's names for it are ``"gelu_new"`` and
    ``"gelu_pytorch_tanh"``. It differs from `gelu` by up to 4.73e-4.

    Parameters
    ----------
    x : Tensor of float32 or float64, any shape

    Returns
    -------
    Tensor of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/feed-forward`, equations
    (feed-forward-tanh-forward) and (feed-forward-tanh-grad).

    Examples
    --------
    >>> round(lucid.nn.functional.gelu_tanh(lucid.tensor([2.7])).item(), 5)
    2.69111
    """
    check_floats(x=x)
    xp = array_module(x.data)

    def inner_tanh(x: Array) -> Array:
        return xp.tanh(_TANH_SCALE * x * (1.0 + _TANH_CUBIC * x * x))

    def slope(x: Array) -> Array:
        t = inner_tanh(x)
        inner = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner

    return _elementwise(x, lambda x: 0.5 * x * (1.0 + inner_tanh(x)), slope)


def relu(x: Tensor) -> Tensor:
    """Rectified linear unit: the positive part. Its slope at 0 is 0.

    Parameters
    ----------
    x : Tensor of float32 or float64, any shape

    Returns
    -------
    Tensor of the same shape and dtype

    Notes
    -----
    Derived in :doc:`/chapters/feed-forward`, equations
    (feed-forward-relu-forward) and (feed-forward-relu-grad).
    """
    check_floats(x=x)
    xp = array_module(x.data)
    return _elementwise(
        x, lambda x: xp.maximum(x, 0), lambda x: (x > 0).astype(x.dtype)
    )


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
}
