# Tangled from chapters/layernorm.ipynb; edit that, not this file.
"""Layer normalisation with its derived gradient."""

from __future__ import annotations

from functools import partial

from lucid.autograd import Tensor, check_floats, record
from lucid.backend import Array, array_module, run_rows
from lucid.nn.init import ones, zeros
from lucid.nn.module import Module, Parameter


def _normalise_rows(
    weight: Array,
    bias: Array,
    eps: float,
    x: Array,
    normal: Array,
    inverse: Array,
    y: Array,
) -> None:
    """Fill in `normal`, `inverse` and `y`: equation (layernorm-forward)."""
    xp = array_module(x)
    xp.subtract(x, x.mean(-1, keepdims=True), out=normal)  # c
    squares = xp.einsum("ij,ij->i", normal, normal)[:, None]
    variance = squares / x.shape[-1]
    xp.divide(1.0, xp.sqrt(variance + eps), out=inverse)  # 1 / sigma
    xp.multiply(normal, inverse, out=normal)  # x hat
    xp.multiply(normal, weight, out=y)
    xp.add(y, bias, out=y)


def _normalise_rows_grad(
    weight: Array, g: Array, normal: Array, inverse: Array, dx: Array
) -> tuple[Array, Array]:
    """Fill in `dx`, equation (layernorm-grad); return sums of the rows.

    The sums are the block's share of the gradients of scale and shift,
    equation (layernorm-params-grad).
    """
    xp = array_module(g)
    h = g * weight
    along = (h * normal).mean(-1, keepdims=True)
    h -= h.mean(-1, keepdims=True)
    h -= normal * along
    xp.multiply(h, inverse, out=dx)
    return (g * normal).sum(0), g.sum(0)


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-12
) -> Tensor:
    r"""Normalise the last axis, then scale and shift it.

    .. math:: y = \gamma\,\hat x + \beta, \qquad
        \hat x = (x - \mu)/\sqrt{\mathrm{var}(x) + \epsilon}

    Parameters
    ----------
    x : Tensor, shape (..., H)
    weight : Tensor, shape (H,)
        Scale, :math:`\gamma`.
    bias : Tensor, shape (H,)
        Shift, :math:`\beta`.
    eps : float
        Added to the variance. BERT's checkpoints were trained with 1e-12.

    Returns
    -------
    Tensor, shape (..., H)

    Raises
    ------
    TypeError
        If the tensors are not all of one floating point dtype.
    ValueError
        If the last axis of ``x`` is not H long, or the tensors do not all
        lie on one backend.

    Notes
    -----
    Ba, Kiros and Hinton (2016), section 3. Derived in
    :doc:`/chapters/layernorm`, equations (layernorm-forward),
    (layernorm-grad) and (layernorm-params-grad).

    Examples
    --------
    >>> row = lucid.tensor([[1.0, -1.0, 2.0, -2.0]])
    >>> layer_norm(row, lucid.tensor([1.0] * 4), lucid.tensor([0.0] * 4))
    tensor([[ 0.6325, -0.6325,  1.2649, -1.2649]])
    """
    check_floats(weight=weight, x=x, bias=bias)
    if not x.shape[-1:] == weight.shape == bias.shape != ():
        raise ValueError(
            f"x: the last axis of {x.shape} must fit the weight "
            f"{weight.shape} and the bias {bias.shape}"
        )
    xp = array_module(x.data)
    rows = x.data.reshape(-1, x.shape[-1])
    normal = xp.empty_like(rows)
    inverse = xp.empty((len(rows), 1), dtype=x.dtype)
    y = xp.empty_like(rows)
    kernel = partial(_normalise_rows, weight.data, bias.data, eps)
    run_rows(kernel, rows, normal, inverse, y)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dx = xp.empty_like(rows)
        kernel = partial(_normalise_rows_grad, weight.data)
        g = g.reshape(rows.shape)
        shares = run_rows(kernel, g, normal, inverse, dx)
        dweight = xp.stack([share[0] for share in shares]).sum(0)
        dbias = xp.stack([share[1] for share in shares]).sum(0)
        return dx.reshape(x.shape), dweight, dbias

    return record(y.reshape(x.shape), (x, weight, bias), vjp)


class LayerNorm(Module):
    """Layer normalisation with a learned scale and shift.

    Parameters
    ----------
    size : int
        Length H of the last axis.
    eps : float
        Added to the variance.

    Attributes
    ----------
    weight : Parameter, shape (H,)
        Scale; begins at 1.
    bias : Parameter, shape (H,)
        Shift; begins at 0.

    Notes
    -----
    Derived in :doc:`/chapters/layernorm`, equations (layernorm-forward),
    (layernorm-grad) and (layernorm-params-grad).
    """

    def __init__(self, size: int, eps: float = 1e-12) -> None:
        self.weight = Parameter(ones((size,)))
        self.bias = Parameter(zeros((size,)))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x`` of shape (..., H)."""
        return layer_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return size and eps."""
        return f"{self.weight.shape[0]}, eps={self.eps}"
