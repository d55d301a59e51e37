# Tangled from chapters/masked-lm.ipynb; edit that, not this file.
"""Some rows of a batch: their numbers, and the rows themselves."""

from __future__ import annotations

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module


def row_numbers(chosen: Array, count: int) -> Array:
    """Return the numbers of the rows that are chosen, in their order.

    The host knows how many there are. Where they are is found by sorting,
    for which nothing has to wait for a device.

    Parameters
    ----------
    chosen : array of bool, any shape
        A flag for each row, flattened.
    count : int
        How many of them are True.

    Returns
    -------
    array of integers, shape (count,)

    Notes
    -----
    Explained in :doc:`/chapters/masked-lm`.

    Examples
    --------
    >>> row_numbers(np.array([False, True, False, True]), 2).tolist()
    [1, 3]
    """
    xp = array_module(chosen)
    rows = chosen.size
    places = xp.where(chosen.reshape(-1), xp.arange(rows), rows)
    return xp.argsort(places)[:count]


def take_rows(x: Tensor, rows: Array) -> Tensor:
    """Return rows of ``x`` by their numbers, none of them twice.

    Parameters
    ----------
    x : Tensor, shape (N, ...)
    rows : array of integers, shape (n,)
        All different.

    Returns
    -------
    Tensor, shape (n, ...)

    Notes
    -----
    Derived in :doc:`/chapters/masked-lm`, equations
    (masked-lm-take-forward) and (masked-lm-take-grad).
    """

    def vjp(g: Array) -> tuple[Array]:
        whole = array_module(g).zeros_like(x.data)
        whole[rows] = g
        return (whole,)

    return record(x.data[rows], (x,), vjp)
