# Tangled from chapters/embeddings.ipynb; edit that, not this file.
"""The numbers that define a BERT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from lucid.checks import check_integer
from lucid.models.base import PretrainedConfig
from lucid.nn.activations import ACTIVATIONS

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "num_labels",
)


def _check_sizes(config: BERTConfig) -> None:
    """Raise unless every size is an integer of at least 1 and they fit."""
    for name in _SIZES:
        size = check_integer(name, getattr(config, name), least=1)
        object.__setattr__(config, name, size)  # it is frozen for others
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(
            f"num_attention_heads: {config.num_attention_heads} does not "
            f"divide hidden_size {config.hidden_size}"
        )


def _number(config: BERTConfig, name: str) -> float:
    """Return a field; raise unless it is a number, and not a bool."""
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name}: wanted a number, got {value!r}")
    return value


def _check_constants(config: BERTConfig) -> None:
    """Raise unless names are known and numbers are in their ranges."""
    if config.hidden_act not in list(ACTIVATIONS):  # which may be no str
        raise ValueError(
            f"hidden_act: {config.hidden_act!r} is not one of "
            f"{', '.join(ACTIVATIONS)}"
        )
    rates = ["hidden_dropout", "attention_dropout"]
    if config.classifier_dropout is not None:
        rates.append("classifier_dropout")
    for name in rates:
        value = _number(config, name)
        if not 0.0 <= value < 1.0:
            raise ValueError(
                f"{name}: a probability lies in [0, 1), got {value}"
            )
    for name in ("initializer_range", "layer_norm_eps"):
        value = _number(config, name)
        if not 0.0 < value < math.inf:
            raise ValueError(
                f"{name}: wanted a finite number above 0, got {value}"
            )
    if not isinstance(config.tie_word_embeddings, bool):
        raise ValueError(
            f"tie_word_embeddings: wanted True or False, got "
            f"{config.tie_word_embeddings!r}"
        )
    if config.pad_token_id is not None:
        pad, last = config.pad_token_id, config.vocab_size - 1
        pad = check_integer("pad_token_id", pad, most=last)
        object.__setattr__(config, "pad_token_id", pad)


_HF_NAMES = {
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_UNSUPPORTED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True)
class BERTConfig(PretrainedConfig):
    """Sizes and constants of a BERT; the defaults are bert-base-uncased.

    Parameters
    ----------
    vocab_size : int
        Number of word pieces, V.
    hidden_size : int
        Features per token, H.
    num_hidden_layers : int
        Encoder layers, L.
    num_attention_heads : int
        Heads per layer, A; must divide ``hidden_size``.
    intermediate_size : int
        Width of the feed-forward block, I.
    hidden_act : {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"}
        Hugging Face's names: ``"gelu"`` is the exact one.
    hidden_dropout, attention_dropout : float
        Probabilities in [0, 1).
    max_position_embeddings : int
        Longest sequence.
    type_vocab_size : int
        Number of segments.
    initializer_range : float
        Standard deviation of initial weights, before truncation.
    layer_norm_eps : float
        Added to the variance in every LayerNorm.
    pad_token_id : int or None
        Row of the word embeddings that begins at 0; look-ups send it no
        gradient.
    classifier_dropout : float, optional
        Dropout before a classifier; ``hidden_dropout`` if None.
    num_labels : int
        Outputs of a classifier; 1 means regression.
    tie_word_embeddings : bool
        Whether the masked-LM decoder is the word embedding table itself.

    Raises
    ------
    ValueError
        If a field is of the wrong type or out of range; the message names
        it.

    Notes
    -----
    Explained in :doc:`/chapters/embeddings`. The sizes are those of
    Devlin et al. (2019), section 3, BERT base.

    Examples
    --------
    >>> from lucid.models.text.bert import BERTConfig
    >>> BERTConfig(hidden_size=128, num_attention_heads=2).head_size
    64
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | None = None
    num_labels: int = 2
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_constants(self)

    @property
    def head_size(self) -> int:
        """Features per attention head, D = H / A."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **overrides: Any) -> Self:
        """Build from the contents of a Hugging Face ``config.json``.

        Keys that mean nothing here are left aside.

        Raises
        ------
        ValueError
            If the file describes a model that this package does not build.
        TypeError
            If an override is not a field.
        """
        for key, wanted in _UNSUPPORTED.items():
            if values.get(key, wanted) != wanted:
                raise ValueError(
                    f"{key}: this package builds {wanted!r} only, the "
                    f"configuration says {values[key]!r}"
                )
        known = {}
        for field in fields(cls):
            for key in (field.name, _HF_NAMES.get(field.name, field.name)):
                if key in values:
                    known[field.name] = values[key]
        labels = values.get("id2label") or {}
        if not isinstance(labels, Mapping):
            raise ValueError(f"id2label: wanted a mapping, got {labels!r}")
        if labels:
            known["num_labels"] = len(labels)
        return cls(**{**known, **overrides})

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a Hugging Face ``config.json``."""
        values = {_HF_NAMES.get(k, k): v for k, v in asdict(self).items()}
        count = values.pop("num_labels")
        values["id2label"] = {str(i): f"LABEL_{i}" for i in range(count)}
        values["label2id"] = {f"LABEL_{i}": i for i in range(count)}
        return {"model_type": "bert", **values}
