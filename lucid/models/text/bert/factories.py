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
    """Build a model of 2 layers and 128 features.

    Parameters
    ----------
    model : type
        Class to build.
    **overrides
        Other fields of `BERTConfig`.
    """
    return _build(model, 2, 128, overrides)


def bert_mini(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 4 layers and 256 features; see `bert_tiny`."""
    return _build(model, 4, 256, overrides)


def bert_small(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 4 layers and 512 features; see `bert_tiny`."""
    return _build(model, 4, 512, overrides)


def bert_medium(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 8 layers and 512 features; see `bert_tiny`."""
    return _build(model, 8, 512, overrides)


def bert_base(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 12 layers and 768 features; see `bert_tiny`."""
    return _build(model, 12, 768, overrides)


def bert_large(
    model: type[BERTPretrainedModel] = BERTModel, **overrides: Any
) -> Any:
    """Build a model of 24 layers and 1024 features; see `bert_tiny`."""
    return _build(model, 24, 1024, overrides)
