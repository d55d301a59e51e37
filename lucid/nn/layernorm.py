"""Layer normalisation with its derived gradient."""

from __future__ import annotations

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module, run_rows
from lucid.nn.init import ones, zeros
from lucid.nn.module import Module, Parameter


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
    """
    xp = array_module(x.data)
    rows = x.data.reshape(-1, x.shape[-1])
    normal = xp.empty_like(rows)
    inverse = xp.empty((len(rows), 1), dtype=x.dtype)
    y = xp.empty_like(rows)

    def forward(x: Array, normal: Array, inverse: Array, y: Array) -> None:
        xp.subtract(x, x.mean(-1, keepdims=True), out=normal)
        variance = (normal * normal).mean(-1, keepdims=True)
        xp.divide(1.0, xp.sqrt(variance + eps), out=inverse)
        xp.multiply(normal, inverse, out=normal)
        xp.multiply(normal, weight.data, out=y)
        xp.add(y, bias.data, out=y)

    run_rows(forward, rows, normal, inverse, y)

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dx = xp.empty_like(rows)

        def backward(
            g: Array, normal: Array, inverse: Array, dx: Array
        ) -> tuple[Array, Array]:
            h = g * weight.data
            mean = h.mean(-1, keepdims=True)
            along = (h * normal).mean(-1, keepdims=True)
            xp.multiply(h - mean - normal * along, inverse, out=dx)
            return (g * normal).sum(0), g.sum(0)

        parts = run_rows(
            backward, g.reshape(rows.shape), normal, inverse, dx
        )
        dweight = xp.stack([part[0] for part in parts]).sum(0)
        dbias = xp.stack([part[1] for part in parts]).sum(0)
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
        Begins at 1.
    bias : Parameter, shape (H,)
        Begins at 0.
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
