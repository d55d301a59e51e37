# Tangled from chapters/real-checkpoint.ipynb; edit that, not this file.
"""The published sizes of BERT by name."""

from __future__ import annotations

from typing import Any

from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.model import BERTModel, BERTPretrainedModel


def _build(
    model: type[BERTPretrainedModel],
    layers: int,
    size: int,
    overrides: dict[str, Any],
) -> Any:
    """Build with 64 features a head and a four times wider middle."""
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": size,
        "num_attention_heads": size // 64,
        "intermediate_size": 4 * size,
    }
    return model(BERTConfig(**{**sizes, **overrides}))


def bert_tiny(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 2 layers and 128 features, with random weights.

    Parameters
    ----------
    model : type
        Class to build, with or without a head.
    **overrides
        Fields of `BERTConfig` to set differently. The other fields stay:
        heads and middle do not follow another ``hidden_size``.

    Returns
    -------
    An instance of ``model``, in training mode.

    Raises
    ------
    TypeError
        If an override is no field of `BERTConfig`.
    ValueError
        If a field is out of range; the message names it.

    Notes
    -----
    The sizes of Turc et al. (2019), in :doc:`/chapters/real-checkpoint`;
    equation (real-checkpoint-count) counts their parameters.

    Examples
    --------
    >>> from lucid.models.text.bert import bert_tiny
    >>> bert_tiny(vocab_size=100).config.hidden_size
    128
    """
    return _build(model, 2, 128, overrides)


def bert_mini(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 4 layers and 256 features, like `bert_tiny`.

    Notes
    -----
    The sizes of Turc et al. (2019), in :doc:`/chapters/real-checkpoint`.
    """
    return _build(model, 4, 256, overrides)


def bert_small(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 4 layers and 512 features, like `bert_tiny`.

    Notes
    -----
    The sizes of Turc et al. (2019), in :doc:`/chapters/real-checkpoint`.
    """
    return _build(model, 4, 512, overrides)


def bert_medium(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 8 layers and 512 features, like `bert_tiny`.

    Notes
    -----
    The sizes of Turc et al. (2019), in :doc:`/chapters/real-checkpoint`.
    """
    return _build(model, 8, 512, overrides)


def bert_base(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 12 layers and 768 features, like `bert_tiny`.

    Notes
    -----
    The sizes of Devlin et al. (2019), section 3; see
    :doc:`/chapters/real-checkpoint`.
    """
    return _build(model, 12, 768, overrides)


def bert_large(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 24 layers and 1024 features, like `bert_tiny`.

    Notes
    -----
    The sizes of Devlin et al. (2019), section 3; see
    :doc:`/chapters/real-checkpoint`.
    """
    return _build(model, 24, 1024, overrides)
