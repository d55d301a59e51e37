# Tangled from chapters/losses.ipynb; edit that, not this file.
"""Cross-entropy and mean squared error."""

from __future__ import annotations

import numpy as np

from lucid.autograd import Tensor, check_floats, check_same_backend, record
from lucid.backend import Array, array_module, run_rows

_REDUCTIONS = ("mean", "sum", "none")


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"reduction: {reduction!r} is not one of "
            f"{', '.join(_REDUCTIONS)}"
        )


def _check_labels(
    labels: Tensor,
    shape: tuple[int, ...],
    classes: int,
    ignore_index: int,
    name: str,
) -> None:
    """Raise unless labels are classes or ``ignore_index``, one per row."""
    if labels.dtype.kind not in "iu":
        raise TypeError(f"{name}: wanted integers, got {labels.dtype}")
    if labels.shape != shape:
        raise ValueError(
            f"{name}: expected shape {shape}, got {labels.shape}"
        )
    values = labels.host_values()
    wrong = (values != ignore_index) & ((values < 0) | (values >= classes))
    if wrong.any():
        raise ValueError(
            f"{name}: {int(values[wrong][0])} is out of range; there are "
            f"{classes} classes (0..{classes - 1}), and {ignore_index} is "
            f"ignored"
        )


def _row_costs(z: Array, y: Array) -> tuple[Array, Array]:
    """Cost of each row, and the logarithm of its sum of exponentials.

    Equations (losses-safe-forward) and (losses-logsumexp).
    """
    xp = array_module(z)
    costs = xp.empty(len(z), dtype=z.dtype)
    log_total = xp.empty(len(z), dtype=z.dtype)

    def forward(z: Array, y: Array, costs: Array, log_total: Array) -> None:
        top = z.max(-1)
        log_sum = xp.log(xp.exp(z - top[:, None]).sum(-1))
        xp.add(log_sum, top - z[xp.arange(len(z)), y], out=costs)
        xp.add(log_sum, top, out=log_total)

    run_rows(forward, z, y, costs, log_total)
    return costs, log_total


def _row_gradients(
    z: Array, y: Array, log_total: Array, scale: Array
) -> Array:
    """Softmax minus one-hot, each row times its ``scale``.

    Equations (losses-row-grad) and (losses-mean-grad).
    """
    xp = array_module(z)
    dz = xp.empty_like(z)

    def backward(
        z: Array, y: Array, log_total: Array, scale: Array, dz: Array
    ) -> None:
        xp.exp(z - log_total[:, None], out=dz)
        dz[xp.arange(len(z)), y] -= 1.0
        dz *= scale[:, None]

    run_rows(backward, z, y, log_total, scale, dz)
    return dz


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str = "labels",
) -> Tensor:
    r"""Cross-entropy of the softmax of ``logits`` at the labels.

    Row :math:`i` costs
    :math:`\ell_i = \log\sum_j e^{z_{ij}} - z_{i y_i}`. The mean is
    :math:`\sum_i w_{y_i}\ell_i / \sum_i w_{y_i}` over the rows whose label
    is not ``ignore_index``; if there is none, it is 0 and so is its
    gradient.

    Parameters
    ----------
    logits : Tensor, shape (..., C)
    labels : Tensor of integers, shape (...)
    weight : Tensor, shape (C,), optional
        A weight from 0 on for each class, of the dtype of ``logits``. It
        receives no gradient.
    ignore_index : int
        The label of rows that do not count.
    reduction : {"mean", "sum", "none"}
        ``"none"`` gives the cost of each row times the weight of its class,
        and 0 where the label is ``ignore_index``.
    name : str
        What an error message calls ``labels``.

    Returns
    -------
    Tensor, one number, or of the shape of ``labels`` for ``"none"``

    Raises
    ------
    TypeError
        If logits are not floating point, the weight is of another dtype, or
        labels are not integers.
    ValueError
        If a label is out of range, shapes do not fit, or the tensors do
        not all lie on one backend.

    Notes
    -----
    Derived in :doc:`/chapters/losses`: one row in equations
    (losses-row-forward), (losses-safe-forward) and (losses-row-grad), the
    mean in (losses-mean-forward) and (losses-mean-grad).

    Examples
    --------
    >>> logits = lucid.tensor([[2.0, 0.0, 0.0], [5.0, 1.0, 3.0]])
    >>> loss = cross_entropy(logits, lucid.tensor([0, -100]))
    >>> round(loss.item(), 3)
    0.24
    """
    _check_reduction(reduction)
    check_floats(logits=logits, weight=weight)
    check_same_backend(logits=logits, **{name: labels})
    if not logits.shape:
        raise ValueError("logits: wanted an axis of classes, got one number")
    classes = logits.shape[-1]
    _check_labels(labels, logits.shape[:-1], classes, ignore_index, name)
    if weight is not None and weight.shape != (classes,):
        raise ValueError(
            f"weight: expected shape ({classes},), got {weight.shape}"
        )
    xp = array_module(logits.data)
    z = logits.data.reshape(-1, classes)
    y = labels.data.reshape(-1)
    counts = y != ignore_index
    y = xp.where(counts, y, 0)
    importance = counts.astype(np.promote_types(z.dtype, np.float32))
    if weight is not None:
        importance *= weight.data[y]
    if reduction == "mean":
        total = importance.sum()
        importance = importance / xp.where(total != 0, total, 1)
    costs, log_total = _row_costs(z, y)
    losses = importance * xp.where(counts, costs, 0)

    def vjp(g: Array) -> tuple[Array]:
        scale = importance * g.reshape(-1)
        dz = _row_gradients(z, y, log_total, scale)
        return (dz.reshape(logits.shape),)

    if reduction == "none":
        value = losses.reshape(labels.shape)
    else:
        value = losses.sum()
    value = value.astype(z.dtype, copy=False)
    return record(value, (logits,), vjp)


def mse_loss(
    predictions: Tensor, targets: Tensor, reduction: str = "mean"
) -> Tensor:
    """Squared difference, averaged.

    Parameters
    ----------
    predictions, targets : Tensor, same shape and dtype
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor, one number, or of the common shape for ``"none"``

    Raises
    ------
    TypeError
        If they are not floating point, or the dtypes differ.
    ValueError
        If the shapes differ: broadcasting (N, 1) against (N,) would compare
        every pair.

    Notes
    -----
    Derived in :doc:`/chapters/losses`, equations (losses-mse-forward) and
    (losses-mse-grad).

    Examples
    --------
    >>> mse_loss(lucid.tensor([1.0, 2.0]), lucid.tensor([1.0, 4.0])).item()
    2.0
    """
    _check_reduction(reduction)
    check_floats(predictions=predictions, targets=targets)
    if predictions.shape != targets.shape:
        raise ValueError(
            f"targets: expected shape {predictions.shape}, got "
            f"{targets.shape}"
        )
    squares = (predictions - targets) ** 2
    if reduction == "none":
        return squares
    return squares.mean() if reduction == "mean" else squares.sum()
