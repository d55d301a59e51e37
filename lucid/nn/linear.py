# Tangled from chapters/modules.ipynb; edit that, not this file.
"""The affine map, in one operation."""

from __future__ import annotations

from lucid.autograd import Tensor, check_floats, record
from lucid.backend import Array, matmul_rows
from lucid.nn.init import truncated_normal, zeros
from lucid.nn.module import Module, Parameter


def _check_fit(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Raise unless shapes, backends and dtypes fit together."""
    check_floats(weight=weight, x=x, bias=bias)
    if weight.ndim != 2:
        raise ValueError(f"weight: wanted two axes, got {weight.shape}")
    out_features, in_features = weight.shape
    length = x.shape[-1] if x.ndim else 0
    if length != in_features:
        raise ValueError(
            f"x: the last axis is {length} long, the weight "
            f"{weight.shape} wants {in_features}"
        )
    if bias is not None and bias.shape != (out_features,):
        raise ValueError(
            f"bias: expected shape {(out_features,)}, got {bias.shape}"
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Affine map :math:`y = x W^\top + b` over the last axis.

    Parameters
    ----------
    x : Tensor, shape (..., in_features)
    weight : Tensor, shape (out_features, in_features)
    bias : Tensor, shape (out_features,), optional

    Returns
    -------
    Tensor, shape (..., out_features)

    Raises
    ------
    ValueError
        If the last axis of ``x`` is not ``in_features`` long, the bias not
        ``out_features``, or they do not all lie on one backend.
    TypeError
        If they are not all of one floating point dtype: nothing is promoted
        silently.

    Notes
    -----
    Derived in :doc:`/chapters/modules`, equations (modules-linear-forward)
    and (modules-linear-grad). The way back reads the weight again: change
    it after ``backward``, not before.

    Examples
    --------
    >>> x = lucid.tensor([[1.0, 2.0]])
    >>> linear(x, lucid.tensor([[3.0, 4.0]]), lucid.tensor([5.0]))
    tensor([[16.]])
    """
    _check_fit(x, weight, bias)
    rows = x.data.reshape(-1, x.shape[-1])
    shift = None if bias is None else bias.data
    y = matmul_rows(rows, weight.data.T, shift)

    def vjp(g: Array) -> tuple[Array, ...]:  # (modules-linear-grad)
        g = g.reshape(y.shape)
        dx = matmul_rows(g, weight.data).reshape(x.shape)
        dweight = matmul_rows(g.T, rows)
        return (dx, dweight) if bias is None else (dx, dweight, g.sum(0))

    parents = (x, weight) if bias is None else (x, weight, bias)
    return record(y.reshape(*x.shape[:-1], weight.shape[0]), parents, vjp)


class Linear(Module):
    """Affine map with weights of its own.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    init_std : float
        Standard deviation of the initial weights, before truncation. The
        bias begins at 0.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
    bias : Parameter, shape (out_features,), or None

    Notes
    -----
    Derived in :doc:`/chapters/modules`, equation (modules-linear-forward).

    Examples
    --------
    >>> Linear(3, 2)(lucid.tensor([[1.0, 2.0, 3.0]])).shape
    (1, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        init_std: float = 0.02,
    ) -> None:
        shape = (out_features, in_features)
        self.weight = Parameter(truncated_normal(shape, init_std))
        self.bias = Parameter(zeros((out_features,))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` of shape (..., in_features) to (..., out_features)."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        out_features, in_features = self.weight.shape
        return f"{in_features}, {out_features}, bias={self.bias is not None}"
