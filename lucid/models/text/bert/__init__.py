# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""BERT: configuration, trunk and the models with heads."""

from __future__ import annotations

from lucid.models.text.bert.classification import (
    BERTForSequenceClassification,
)
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.factories import (
    bert_base,
    bert_large,
    bert_medium,
    bert_mini,
    bert_small,
    bert_tiny,
)
from lucid.models.text.bert.masked_lm import BERTForMaskedLM
from lucid.models.text.bert.model import BERTModel
from lucid.models.text.bert.next_sentence import (
    BERTForNextSentencePrediction,
)
from lucid.models.text.bert.pretraining import BERTForPreTraining

__all__ = [
    "BERTConfig",
    "BERTForMaskedLM",
    "BERTForNextSentencePrediction",
    "BERTForPreTraining",
    "BERTForSequenceClassification",
    "BERTModel",
    "bert_base",
    "bert_large",
    "bert_medium",
    "bert_mini",
    "bert_small",
    "bert_tiny",
]
