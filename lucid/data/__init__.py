# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""What BERT is trained on: corpora, pairs, hidden words, batches."""

from __future__ import annotations

from lucid.data.batches import PretrainingBatches
from lucid.data.corpora import (
    TextFolder,
    pydoc_topics,
    split_sentences,
    text_folder,
)
from lucid.data.grammar import Grammar, IdealReader, random_shares
from lucid.data.masking import Masking, Tokenizer
from lucid.data.pairs import Pair, make_pairs, truncate_pair

__all__ = [
    "Grammar",
    "IdealReader",
    "Masking",
    "Pair",
    "PretrainingBatches",
    "TextFolder",
    "Tokenizer",
    "make_pairs",
    "pydoc_topics",
    "random_shares",
    "split_sentences",
    "text_folder",
    "truncate_pair",
]
