"""Look rows of a table up; add gradients up where rows repeat."""

from __future__ import annotations

from lucid.autograd import Tensor, record
from lucid.backend import Array, array_module, scatter_add, to_numpy
from lucid.nn.init import truncated_normal
from lucid.nn.module import Module, Parameter


def check_ids(ids: Tensor, limit: int, name: str) -> None:
    """Raise unless ``ids`` are integers in ``0 .. limit - 1``.

    A GPU wraps an index out of range without a word, and NumPy takes
    negative ones from the end, so ids are checked where they enter.
    """
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{name}: wanted integers, got {ids.dtype}")
    values = to_numpy(ids.data)
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
    """Look up ``weight[ids]``.

    Parameters
    ----------
    ids : Tensor of integers, any shape S
    weight : Tensor, shape (N, H)
    padding_idx : int, optional
        A row that receives no gradient from look-ups.
    name : str
        What an error message calls ``ids``.

    Returns
    -------
    Tensor, shape S + (H,)

    Raises
    ------
    TypeError
        If ``ids`` are not integers.
    ValueError
        If an id is not in ``0 .. N - 1``.
    """
    check_ids(ids, weight.shape[0], name)

    def vjp(g: Array) -> tuple[Array]:
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
        Number of rows.
    embedding_dim : int
        Length of a row.
    padding_idx : int, optional
        A row that begins at 0 and gets no gradient from look-ups.
    init_std : float
        Standard deviation of the initial weights, before truncation.
    name : str
        What an error message calls the ids.

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        init_std: float = 0.02,
        name: str = "ids",
    ) -> None:
        shape = (num_embeddings, embedding_dim)
        weight = truncated_normal(shape, init_std)
        if padding_idx is not None:
            weight[padding_idx] = 0.0
        self.weight = Parameter(weight)
        self.padding_idx = padding_idx
        self.name = name

    def forward(self, ids: Tensor) -> Tensor:
        """Look up ids of shape S; the result has shape S + (H,)."""
        return embedding(ids, self.weight, self.padding_idx, self.name)

    def extra_repr(self) -> str:
        """Return the sizes."""
        rows, length = self.weight.shape
        return f"{rows}, {length}"
