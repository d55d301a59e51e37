"""The activation functions of BERT's feed-forward block."""

from __future__ import annotations

import math
from collections.abc import Callable

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module, erf, run_rows

_SQRT_HALF = math.sqrt(0.5)
_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715


def _elementwise(
    x: Tensor,
    value: Callable[[Array], Array],
    slope: Callable[[Array], Array],
) -> Tensor:
    """Apply a function and its derivative, in blocks of rows."""
    xp = array_module(x.data)

    def apply(function: Callable[..., Array], *arrays: Array) -> Array:
        rows = [a.reshape(-1, a.shape[-1] if a.ndim else 1) for a in arrays]
        out = xp.empty_like(rows[0])

        def kernel(out: Array, *blocks: Array) -> None:
            out[...] = function(*blocks)

        run_rows(kernel, out, *rows)
        return out.reshape(arrays[0].shape)

    return record(
        apply(value, x.data),
        (x,),
        lambda g: (apply(lambda g, x: g * slope(x), g, x.data),),
    )


def gelu(x: Tensor) -> Tensor:
    r"""Gaussian error linear unit, :math:`x\,\Phi(x)`, with the exact erf.

    Hugging Face's name for it is ``"gelu"``.

    Parameters
    ----------
    x : Tensor, any shape

    Returns
    -------
    Tensor of the same shape
    """
    xp = array_module(x.data)

    def probability(x: Array) -> Array:
        return 0.5 * (1.0 + erf(x * _SQRT_HALF))

    def slope(x: Array) -> Array:
        return probability(x) + x * _DENSITY_AT_0 * xp.exp(-0.5 * x * x)

    return _elementwise(x, lambda x: x * probability(x), slope)


def gelu_tanh(x: Tensor) -> Tensor:
    r"""Gaussian error linear unit through a tanh, as in Google's code.

    .. math:: \tfrac12 x\,(1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715\,x^3)))

    Hugging Face's names for it are ``"gelu_new"`` and
    ``"gelu_pytorch_tanh"``. It differs from `gelu` by up to 4.73e-4.

    Parameters
    ----------
    x : Tensor, any shape

    Returns
    -------
    Tensor of the same shape
    """
    xp = array_module(x.data)

    def inner_tanh(x: Array) -> Array:
        return xp.tanh(_TANH_SCALE * x * (1.0 + _TANH_CUBIC * x * x))

    def slope(x: Array) -> Array:
        t = inner_tanh(x)
        inner = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner

    return _elementwise(x, lambda x: 0.5 * x * (1.0 + inner_tanh(x)), slope)


def relu(x: Tensor) -> Tensor:
    """Rectified linear unit: the positive part. Its slope at 0 is 0."""
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
