# Tangled from chapters/skipping.ipynb; edit that, not this file.
"""A padded batch without its padding: real rows, one after the other."""

from __future__ import annotations

import numpy as np

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module, run_rows
from lucid.nn.attention import attend, attend_grad
from lucid.nn.dropout import check_probability, dropout_mask
from lucid.nn.rows import spread_rows, take_rows


def put_rows(x: Tensor, rows: Array, count: int) -> Tensor:
    """Put rows among ``count`` rows, at their numbers; the others are 0.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
    rows : array of integers, shape (n,)
        All different.
    count : int

    Returns
    -------
    Tensor, shape (count, ...)

    Notes
    -----
    Derived in :doc:`/chapters/skipping`, equations (skipping-pack-forward)
    and (skipping-pack-grad). The way back of
    :func:`lucid.nn.rows.take_rows`.
    """
    whole = spread_rows(x.data, rows, count)
    return record(whole, (x,), lambda g: (g[rows],))


class Packing:
    """Where the real rows of a padded batch are.

    Parameters
    ----------
    attention_mask : Tensor of integers or bool, shape (B, T)
        1 at a real token, 0 at padding.

    Attributes
    ----------
    shape : tuple of int
        (B, T).
    rows : numpy.ndarray of int, shape (N,)
        Numbers of the real rows among the B * T.
    spans : numpy.ndarray of int, shape (n, 3)
        For each sequence that has real rows: its first, the one after its
        last, and how many pairs of rows the sequences before it have.
    pairs : int
        Pairs of rows in all sequences.
    pays : bool
        Whether leaving rows out is worth it: where arrays lie on the host
        and a row is left. A device would be handed many small products.

    Notes
    -----
    Derived in :doc:`/chapters/skipping`, equations (skipping-pack-forward)
    and (skipping-rows).

    Examples
    --------
    >>> packing = Packing(lucid.tensor([[1, 1], [1, 0]]))
    >>> packing.unpack(lucid.tensor([[3.0], [4.0], [5.0]])).tolist()
    [[[3.0], [4.0]], [[5.0], [0.0]]]
    """

    def __init__(self, attention_mask: Tensor) -> None:
        values = attention_mask.host_values() != 0
        lengths = values.sum(1)
        lengths = lengths[lengths > 0]
        squares = lengths**2
        ends, pairs = lengths.cumsum(), squares.cumsum()
        self.shape = values.shape
        self.rows = np.flatnonzero(values)
        self.spans = np.stack(
            [ends - lengths, ends, pairs - squares], axis=1
        )
        self.pairs = int(squares.sum())
        self.pays = attention_mask.backend == "numpy" and self.rows.size > 0
        self._real = attention_mask.data[..., None] != 0

    def pack(self, x: Tensor) -> Tensor:
        """Map (B, T, H) to the real rows, (N, H).

        Raises
        ------
        ValueError
            If ``x`` is not of B sequences of T rows.
        """
        if x.ndim != 3 or x.shape[:2] != self.shape:
            raise ValueError(
                f"x: wanted (B, T, H) with B, T = {self.shape}, as in the "
                f"mask; got shape {x.shape}"
            )
        return take_rows(x.reshape(-1, x.shape[-1]), self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """Map the real rows, (N, H), to (B, T, H); padding is 0.

        Raises
        ------
        ValueError
            If ``x`` has not N rows.
        """
        if x.ndim != 2 or x.shape[0] != self.rows.size:
            raise ValueError(
                f"x: wanted (N, H) with N = {self.rows.size}, the mask's "
                f"real rows; got shape {x.shape}"
            )
        batch, tokens = self.shape
        whole = put_rows(x, self.rows, batch * tokens)
        return whole.reshape(batch, tokens, x.shape[-1])

    def clear(self, x: Tensor) -> Tensor:
        """Set padding to 0 in (B, T, H): ``unpack(pack(x))``, unpacked."""
        xp = array_module(x.data)
        return record(
            xp.where(self._real, x.data, 0),
            (x,),
            lambda g: (xp.where(self._real, g, 0),),
        )


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    heads: int,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of each sequence by itself, over packed rows.

    Parameters
    ----------
    query, key, value : Tensor, shape (N, H)
        The heads of a token side by side.
    packing : Packing
    heads : int
        A; divides H.
    dropout : float
        Probability with which a weight is dropped after the softmax.

    Returns
    -------
    Tensor, shape (N, H)
        The mixtures of all heads, joined.

    Notes
    -----
    Derived in :doc:`/chapters/skipping`, equation
    (skipping-attention-forward); what is done with a sequence, in
    :doc:`/chapters/attention`.
    """
    xp = array_module(query.data)
    shape = (query.shape[0], heads, query.shape[1] // heads)

    def split(x: Array) -> Array:
        """View (N, H) as (A, N, D)."""
        return x.reshape(shape).swapaxes(0, 1)

    def join(x: Array) -> Array:
        """View (A, N, D) as (N, H)."""
        return x.swapaxes(0, 1).reshape(query.shape)

    def part(spans: Array, rows: list[Array], flat: list[Array]) -> list:
        """Return views of one sequence."""
        ((first, end, pairs),) = spans.tolist()
        tokens = end - first
        cells = slice(heads * pairs, heads * (pairs + tokens**2))
        squares = [a[cells].reshape(heads, tokens, tokens) for a in flat]
        return [[a[:, first:end] for a in rows], squares]

    q, k, v = (split(x.data) for x in (query, key, value))
    y = split(xp.empty_like(query.data))
    weights = xp.empty(heads * packing.pairs, dtype=query.dtype)
    flat = [weights]
    if check_probability(dropout) > 0.0:
        flat.append(dropout_mask(weights, dropout))

    def forward(span: Array) -> None:
        (q_b, k_b, v_b, y_b), (p, *kept) = part(span, [q, k, v, y], flat)
        attend(q_b, k_b, v_b, p, y_b, None, *kept)

    def vjp(g: Array) -> tuple[Array, ...]:
        grads = [split(xp.empty_like(query.data)) for _ in range(3)]
        inputs = [q, k, v, y, split(g), *grads]

        def backward(span: Array) -> None:
            rows, (p, *kept) = part(span, inputs, flat)
            q_b, k_b, v_b, y_b, *rest = rows
            attend_grad(q_b, k_b, v_b, p, y_b, *rest, *kept)

        run_rows(backward, packing.spans, block=1)
        return tuple(join(a) for a in grads)

    run_rows(forward, packing.spans, block=1)
    return record(join(y), (query, key, value), vjp)
