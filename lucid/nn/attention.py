# Tangled from chapters/attention.ipynb; edit that, not this file.
"""Scaled dot-product attention with its derived gradient."""

from __future__ import annotations

import math

from lucid.autograd import Tensor, check_floats, check_same_backend, record
from lucid.backend import Array, array_module, run_rows
from lucid.nn.dropout import check_probability, dropout_mask


def masked_softmax_rows(scores: Array) -> None:
    """Softmax of the last axis in place; a row of only -inf becomes 0.

    The largest score of a row is taken off before the exponential. It
    contributes 1 to the sum, so a sum below 1 means that nothing is visible.

    Parameters
    ----------
    scores : array of float32 or float64, shape (..., T)
        -inf where a key is hidden; overwritten with the weights.

    Notes
    -----
    Derived in :doc:`/chapters/attention`, section "The mask".
    """
    xp = array_module(scores)
    lowest = float(xp.finfo(scores.dtype).min)
    scores -= xp.maximum(scores.max(-1, keepdims=True), lowest)
    xp.exp(scores, out=scores)
    scores /= xp.maximum(scores.sum(-1, keepdims=True), 1.0)


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Raise unless the inputs of `attention` fit together."""
    if query.ndim != 4:
        raise ValueError(
            f"query: wanted shape (B, A, T, D), got {query.shape}"
        )
    keys = key.shape[2] if key.ndim == 4 else query.shape[2]
    wanted = (*query.shape[:2], keys, query.shape[3])
    for name, x in (("key", key), ("value", value)):
        if x.shape != wanted:
            raise ValueError(f"{name}: wanted shape {wanted}, got {x.shape}")
    if mask is None:
        return
    if mask.dtype != bool:
        raise TypeError(
            f"mask: wanted bool (True where a key is visible), got "
            f"{mask.dtype}"
        )
    full = (*query.shape[:3], keys)
    fits = [n in (1, m) for n, m in zip(mask.shape, full, strict=False)]
    if mask.ndim != 4 or not all(fits):
        raise ValueError(
            f"mask: shape {mask.shape} cannot be broadcast to {full}"
        )


def attend(
    q: Array,
    k: Array,
    v: Array,
    p: Array,
    y: Array,
    mask: Array | None = None,
    kept: Array | None = None,
) -> None:
    """Write weights into ``p`` and their mixture of values into ``y``.

    Parameters
    ----------
    q, k, v : array, shape (..., T, D)
    p, y : array, shapes (..., T, T) and (..., T, D)
        Overwritten.
    mask : array of bool, optional
        True where a key is visible.
    kept : array, shape of ``p``, optional
        What dropout multiplies the weights by.

    Notes
    -----
    Derived in :doc:`/chapters/attention`, equations (attention-forward)
    and (attention-dropout).
    """
    xp = array_module(q)
    scale = 1.0 / math.sqrt(q.shape[-1])
    xp.matmul(q * scale, k.swapaxes(-1, -2), out=p)
    if mask is not None:
        p[...] = xp.where(mask, p, -math.inf)
    masked_softmax_rows(p)
    xp.matmul(p if kept is None else p * kept, v, out=y)


def attend_grad(
    q: Array,
    k: Array,
    v: Array,
    p: Array,
    y: Array,
    g: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    kept: Array | None = None,
) -> None:
    """Write the gradients of `attend` into ``dq``, ``dk`` and ``dv``.

    Parameters
    ----------
    q, k, v, p, y, kept : array
        What `attend` was given, and what it wrote.
    g : array, shape of ``y``
        The gradient that arrives.
    dq, dk, dv : array, shapes of ``q``, ``k`` and ``v``
        Overwritten.

    Notes
    -----
    Derived in :doc:`/chapters/attention`, equation (attention-grad).
    """
    xp = array_module(q)
    ds = g @ v.swapaxes(-1, -2)
    if kept is not None:
        ds *= kept
    ds -= (g * y).sum(-1, keepdims=True)
    ds *= p
    ds *= 1.0 / math.sqrt(q.shape[-1])
    used = p if kept is None else p * kept
    xp.matmul(ds, k, out=dq)
    xp.matmul(ds.swapaxes(-1, -2), q, out=dk)
    xp.matmul(used.swapaxes(-1, -2), g, out=dv)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""Mix values by how well their keys match each query.

    .. math:: \mathrm{softmax}(Q K^\top / \sqrt{D})\,V

    A query that may look at no key gets weights of 0 and a result of 0.

    Parameters
    ----------
    query, key, value : Tensor, shape (B, A, T, D)
    mask : Tensor of bool, optional
        True where a query (third axis) may look at a key (fourth axis);
        shape (B, 1, 1, T) or (B, 1, T, T).
    dropout : float
        Probability with which a weight is dropped after the softmax.

    Returns
    -------
    context : Tensor, shape (B, A, T, D)
    weights : Tensor, shape (B, A, T, T)
        The probabilities before dropout, to look at; no gradient passes.
        Do not write into them: the way back reads the same memory.

    Raises
    ------
    TypeError
        If the mask is not boolean, or the others are not of one floating
        point dtype.
    ValueError
        If shapes do not fit, `dropout` is outside [0, 1), or the inputs do
        not all lie on one backend.

    Notes
    -----
    Derived in :doc:`/chapters/attention`, equations (attention-forward),
    (attention-dropout) and (attention-grad). Vaswani et al., "Attention is
    all you need", section 3.2.1.
    """
    check_floats(query=query, key=key, value=value)
    check_same_backend(query=query, mask=mask)
    _check_shapes(query, key, value, mask)
    xp = array_module(query.data)
    q, k, v = query.data, key.data, value.data
    batch, heads, tokens, width = q.shape
    weights = xp.empty((batch, heads, tokens, k.shape[2]), dtype=q.dtype)
    drops = check_probability(dropout) > 0.0
    kept = dropout_mask(weights, dropout) if drops else None
    # in memory the heads of a token lie side by side, ready to be joined
    context = xp.empty((batch, tokens, heads, width), dtype=q.dtype)
    context = context.transpose(0, 2, 1, 3)

    def cut(*arrays: Array) -> list[Array]:
        """Put the axis to cut first: sequences, or heads if more."""
        if batch >= heads:
            return list(arrays)
        return [a.swapaxes(0, 1) for a in arrays]

    inputs = cut(q, k, v, weights, context)
    dropped = [] if kept is None else cut(kept)
    masks = []
    if mask is not None:
        shape = (batch, heads, *mask.shape[2:])
        masks = cut(xp.broadcast_to(mask.data, shape))

    def forward(
        q: Array, k: Array, v: Array, p: Array, y: Array, *rest: Array
    ) -> None:
        hidden = rest[0] if masks else None
        attend(q, k, v, p, y, hidden, rest[-1] if dropped else None)

    def vjp(g: Array) -> tuple[Array, ...]:
        outputs = tuple(xp.empty_like(a) for a in (q, k, v))
        run_rows(attend_grad, *inputs, *cut(g, *outputs), *dropped)
        return outputs

    run_rows(forward, *inputs, *masks, *dropped)
    return record(context, (query, key, value), vjp), Tensor(weights)
