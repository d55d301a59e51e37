"""Scaled dot-product attention with its derived gradient."""

from __future__ import annotations

import math

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module, run_rows
from lucid.nn.dropout import dropout_mask


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
    """
    xp = array_module(query.data)
    q, k, v = query.data, key.data, value.data
    scale = 1.0 / math.sqrt(q.shape[-1])
    batch, heads, tokens, width = q.shape
    weights = xp.empty((batch, heads, tokens, k.shape[2]), dtype=q.dtype)
    kept = dropout_mask(weights, dropout) if dropout > 0.0 else None
    # in memory the heads of a token lie side by side, ready to be joined
    context = xp.empty((batch, tokens, heads, width), dtype=q.dtype)
    context = context.transpose(0, 2, 1, 3)
    optional = [] if mask is None else [mask.data]

    def scores(q: Array, k: Array, weights: Array, *mask: Array) -> None:
        xp.matmul(q * scale, k.swapaxes(-1, -2), out=weights)
        for visible in mask:
            weights[...] = xp.where(visible, weights, -math.inf)
        masked_softmax_rows(weights)

    run_rows(scores, q, k, weights, *optional)
    used = weights if kept is None else weights * kept
    run_rows(
        lambda used, v, context: xp.matmul(used, v, out=context),
        used,
        v,
        context,
    )

    def vjp(g: Array) -> tuple[Array, Array, Array]:
        dvalue = used.swapaxes(-1, -2) @ g
        dscores = g @ v.swapaxes(-1, -2)
        if kept is not None:
            dscores *= kept
        dscores -= (dscores * weights).sum(-1, keepdims=True)
        dscores *= weights
        dscores *= scale
        return dscores @ k, dscores.swapaxes(-1, -2) @ q, dvalue

    result = record(context, (query, key, value), vjp)
    return result, Tensor(weights)


def masked_softmax_rows(scores: Array) -> None:
    """Softmax of the last axis in place; a row of only -inf becomes 0.

    The largest score of a row is taken off before the exponential. It
    contributes 1 to the sum, so a sum below 1 means that nothing is visible.
    """
    xp = array_module(scores)
    lowest = float(xp.finfo(scores.dtype).min)
    scores -= xp.maximum(scores.max(-1, keepdims=True), lowest)
    xp.exp(scores, out=scores)
    scores /= xp.maximum(scores.sum(-1, keepdims=True), 1.0)
