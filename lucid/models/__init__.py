# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""What all models share: loading, saving, losses and outputs."""

from __future__ import annotations

from lucid.models.base import PretrainedModel
from lucid.models.classification import SequenceClassificationModel
from lucid.models.masked_lm import MaskedLMMixin
from lucid.models.outputs import (
    BERTForPreTrainingOutput,
    BERTModelOutput,
    MaskedLMOutput,
    ModelOutput,
    NextSentencePredictorOutput,
    SequenceClassificationOutput,
)

__all__ = [
    "BERTForPreTrainingOutput",
    "BERTModelOutput",
    "MaskedLMMixin",
    "MaskedLMOutput",
    "ModelOutput",
    "NextSentencePredictorOutput",
    "PretrainedModel",
    "SequenceClassificationModel",
    "SequenceClassificationOutput",
]
