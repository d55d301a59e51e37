# Tangled from chapters/bert-model.ipynb; edit that, not this file.
"""What models return: named fields that also index and unpack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, fields
from typing import Any

from lucid.autograd import Tensor


@dataclass
class ModelOutput:
    """Fields by name, by key, by position, or unpacked; None is skipped.

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.

    Examples
    --------
    >>> from lucid.models.outputs import MaskedLMOutput
    >>> output = MaskedLMOutput(logits=lucid.tensor([[1.0, 2.0]]))
    >>> output.keys()
    ['logits']
    >>> output[0] is output.logits is output["logits"]
    True
    """

    def keys(self) -> list[str]:
        """Return the names of the fields that are not None."""
        here = vars(self)
        names = (field.name for field in fields(self))
        return [name for name in names if here[name] is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the fields that are not None."""
        return tuple(self)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, slice):
            return tuple(getattr(self, name) for name in self.keys()[key])
        if not isinstance(key, str):
            return getattr(self, self.keys()[key])
        if key not in self.keys():
            raise KeyError(f"{key!r} is not among {self.keys()}")
        return getattr(self, key)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if isinstance(value, Later):
            value = value.value()
            setattr(self, name, value)
        return value


class Later:
    """A value of a `ModelOutput` that is computed when first asked for.

    It is computed as it would have been when this object was made: on the
    same backend, and recorded for a gradient or not as then.

    Parameters
    ----------
    compute : callable
        Takes no argument and returns the value.

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute, self._context = compute, copy_context()

    def value(self) -> Any:
        """Compute the value."""
        return self._context.run(self._compute)


@dataclass
class BERTModelOutput(ModelOutput):
    """What the encoder trunk returns.

    Attributes
    ----------
    last_hidden_state : Tensor, shape (B, T, H)
    pooler_output : Tensor, shape (B, H), or None
        None where the trunk was built without a pooler.
    hidden_states : tuple of L + 1 Tensors, shape (B, T, H), or None
        The embeddings, then the output of every layer.
    attentions : tuple of L Tensors, shape (B, A, T, T), or None

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class BERTForPreTrainingOutput(ModelOutput):
    """What `BERTForPreTraining` returns.

    Attributes
    ----------
    loss : Tensor or None
        The sum of the losses whose labels were given.
    prediction_logits : Tensor, shape (B, T, V)
        With labels, computed when first asked for; ask before a step.
    seq_relationship_logits : Tensor, shape (B, 2)
    mlm_loss, nsp_loss : Tensor or None
        The two parts of the loss.

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    mlm_loss: Tensor | None = None
    nsp_loss: Tensor | None = None


@dataclass
class MaskedLMOutput(ModelOutput):
    """Loss (or None) and logits of shape (B, T, V).

    With labels, the logits are computed when first asked for; ask before a
    step.

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None


@dataclass
class NextSentencePredictorOutput(ModelOutput):
    """Loss (or None) and logits of shape (B, 2).

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None


@dataclass
class SequenceClassificationOutput(ModelOutput):
    """Loss (or None) and logits of shape (B, num_labels).

    Notes
    -----
    Built in :doc:`/chapters/bert-model`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
