# Tangled from chapters/embeddings.ipynb; edit that, not this file.
"""Look rows of a table up; add gradients up where rows repeat."""

from __future__ import annotations

from lucid.autograd import Tensor, check_same_backend, record
from lucid.backend import Array, array_module, scatter_add
from lucid.checks import check_integer
from lucid.nn.init import truncated_normal
from lucid.nn.module import Module, Parameter


def check_ids(ids: Tensor, limit: int, name: str) -> None:
    """Raise unless ``ids`` are integers in ``0 .. limit - 1``.

    NumPy takes negative indices from the end, and CuPy wraps every index
    out of range without a word, so ids are checked where they enter. Ids
    that were computed on a device are copied to the host for it; those that
    came from the host are known there.

    Parameters
    ----------
    ids : Tensor, any shape
    limit : int
        Number of rows of the table.
    name : str
        What an error message calls ``ids``.

    Raises
    ------
    TypeError
        If ``ids`` are not integers.
    ValueError
        If an id is out of range.

    Notes
    -----
    Explained in :doc:`/chapters/embeddings`.
    """
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{name}: wanted integers, got {ids.dtype}")
    values = ids.host_values()
    if not values.size:
        return
    for value in (int(values.min()), int(values.max())):
        if not 0 <= value < limit:
            raise ValueError(
                f"{name}: {value} is out of range; the table has {limit} "
                f"rows (0..{limit - 1})"
            )


def embedding(
    ids: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    name: str = "ids",
) -> Tensor:
    """Look up ``weight[ids]``, equation (embeddings-forward).

    Parameters
    ----------
    ids : Tensor of integers, shape (...)
    weight : Tensor, shape (N, H)
    padding_idx : int, optional
        A row that receives no gradient from look-ups.
    name : str
        What an error message calls ``ids``.

    Returns
    -------
    Tensor, shape (..., H)
        Of the dtype of ``weight``.

    Raises
    ------
    TypeError
        If ``ids`` are not integers.
    ValueError
        If an id or ``padding_idx`` is not in ``0 .. N - 1``.

    Notes
    -----
    Derived in :doc:`/chapters/embeddings`, equations (embeddings-forward)
    and (embeddings-grad).

    Examples
    --------
    >>> table = lucid.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> embedding(lucid.tensor([1, 0, 1]), table).tolist()
    [[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]]
    """
    check_same_backend(**{"weight": weight, name: ids})
    check_ids(ids, weight.shape[0], name)
    if padding_idx is not None:
        check_integer("padding_idx", padding_idx, most=weight.shape[0] - 1)

    def vjp(g: Array) -> tuple[Array]:
        # equation (embeddings-grad): what arrives at equal ids is added up
        xp = array_module(g)
        if padding_idx is not None:
            padding = (ids.data == padding_idx)[..., None]
            g = xp.where(padding, 0, g)
        dweight = xp.zeros_like(weight.data)
        scatter_add(dweight, ids.data, g)
        return (dweight,)

    return record(weight.data[ids.data], (weight,), vjp)


class Embedding(Module):
    """A table with one learned row per id.

    Parameters
    ----------
    num_embeddings : int
        Number of rows, N.
    embedding_dim : int
        Length of a row, H.
    padding_idx : int, optional
        A row that begins at 0 and gets no gradient from look-ups.
    init_std : float
        Standard deviation of the initial weights, before truncation.
    name : str
        What an error message calls the ids.

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)

    Raises
    ------
    ValueError
        If ``padding_idx`` is not a row of the table.

    Notes
    -----
    Derived in :doc:`/chapters/embeddings`, equations (embeddings-forward)
    and (embeddings-grad).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        init_std: float = 0.02,
        name: str = "ids",
    ) -> None:
        weight = truncated_normal((num_embeddings, embedding_dim), init_std)
        if padding_idx is not None:
            last = num_embeddings - 1
            check_integer("padding_idx", padding_idx, most=last)
            weight[padding_idx] = 0.0
        self.weight = Parameter(weight)
        self.padding_idx = padding_idx
        self.name = name

    def forward(self, ids: Tensor) -> Tensor:
        """Look up ids of shape (...); the result has shape (..., H)."""
        return embedding(ids, self.weight, self.padding_idx, self.name)

    def extra_repr(self) -> str:
        """Return the sizes."""
        rows, length = self.weight.shape
        return f"{rows}, {length}"
