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


def spread_rows(values: Array, rows: Array, count: int) -> Array:
    """Return ``count`` rows: some at their numbers, the others 0.

    Parameters
    ----------
    values : array, shape (n, ...)
    rows : array of integers, shape (n,)
        All different.
    count : int

    Returns
    -------
    array, shape (count, ...)

    Notes
    -----
    Derived in :doc:`/chapters/masked-lm`, equation (masked-lm-take-grad).
    """
    xp = array_module(values)
    whole = xp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    whole[rows] = values
    return whole


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
    return record(
        x.data[rows],
        (x,),
        lambda g: (spread_rows(g, rows, x.shape[0]),),
    )
