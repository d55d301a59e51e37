# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""Hide words for masked language modelling: 15 %, of these 80/10/10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from lucid.checks import check_integer

IGNORED = -100


class Tokenizer(Protocol):
    """What the data asks of a tokenizer; `lucid.text` has one.

    Notes
    -----
    Used in :doc:`/chapters/pretraining-data`.
    """

    @property
    def vocab(self) -> Mapping[str, int]:
        """The pieces and their ids, 0, 1, 2 and so on."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``[CLS] text [SEP]``."""


class Masking:
    """Choose words to ask for, and hide them.

    Parameters
    ----------
    tokenizer : WordPieceTokenizer, or another with a ``vocab``
    share : float
        How much of a sequence is asked for; at least one token is.
    most : int, optional
        Never more tokens than this.
    whole_words : bool
        Choose the pieces of a word (``##`` goes on with one) all or none.

    Notes
    -----
    Derived in :doc:`/chapters/pretraining-data`: how many, by equation
    (pretraining-data-count); what is seen in their place, by
    (pretraining-data-noise). ``[PAD]``, ``[CLS]``, ``[SEP]`` and ``[MASK]``
    are never chosen; a random replacement may be any entry.

    Examples
    --------
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "sat"]
    >>> from lucid.text import WordPieceTokenizer
    >>> masking = Masking(WordPieceTokenizer(words))
    >>> hidden, labels = masking([2, 5, 6, 3], np.random.default_rng(2))
    >>> int((labels != -100).sum())
    1
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        share: float = 0.15,
        most: int | None = None,
        whole_words: bool = False,
    ) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share: between 0 and 1, got {share}")
        if most is not None:
            most = check_integer("most", most, least=1)
        vocab = tokenizer.vocab
        self.vocab_size = len(vocab)
        self.mask_id, self.pad_id = vocab["[MASK]"], vocab["[PAD]"]
        self.share, self.most, self.whole_words = share, most, whole_words
        self._may = np.ones(len(vocab), dtype=bool)
        for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"):
            self._may[vocab[token]] = False
        self._inner = np.zeros(len(vocab), dtype=bool)
        for piece, number in vocab.items():
            self._inner[number] = piece.startswith("##")

    def count(self, length: int) -> int:
        """Return how many of ``length`` tokens, padding aside, are asked."""
        wanted = max(1, round(self.share * length))
        return wanted if self.most is None else min(wanted, self.most)

    def __call__(
        self, ids: Any, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return one sequence with words hidden, and its labels.

        Parameters
        ----------
        ids : array of integers, shape (T,)
            With its special tokens. It is not changed.
        rng : numpy.random.Generator

        Returns
        -------
        hidden, labels : array of int64, shape (T,)
            Labels are the original ids, and -100 where nothing is asked.

        Raises
        ------
        ValueError
            If it is not one row of ids that the vocabulary has.
        """
        ids = self._checked(ids)
        chosen = self._choose(ids, rng)
        draws = rng.random(len(chosen))
        hidden, labels = ids.copy(), np.full_like(ids, IGNORED)
        labels[chosen] = ids[chosen]
        hidden[chosen[draws < 0.8]] = self.mask_id
        other = chosen[draws >= 0.9]
        hidden[other] = rng.integers(self.vocab_size, size=len(other))
        return hidden, labels

    def _checked(self, ids: Any) -> np.ndarray:
        row = np.asarray(ids)
        if row.ndim != 1 or row.dtype.kind not in "iu":
            raise ValueError(
                f"ids: wanted one row of integers, got {row.dtype} of shape "
                f"{row.shape}"
            )
        wrong = (row < 0) | (row >= self.vocab_size)
        if wrong.any():
            raise ValueError(
                f"ids: {row[wrong][0]} is out of range; the vocabulary has "
                f"{self.vocab_size} entries"
            )
        return row.astype(np.int64)

    def _choose(
        self, ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        candidates = np.flatnonzero(self._may[ids])
        count = self.count(int((ids != self.pad_id).sum()))
        if not self.whole_words or len(candidates) == 0:
            return rng.permutation(candidates)[:count]
        goes_on = self._inner[ids[candidates]]
        goes_on[1:] &= np.diff(candidates) == 1  # not beyond a [SEP]
        goes_on[0] = False
        words = np.split(candidates, np.flatnonzero(~goes_on)[1:])
        words = [words[i] for i in rng.permutation(len(words))]
        chosen: list[int] = []
        for word in words:
            if len(chosen) + len(word) <= count:
                chosen += word.tolist()
        if not chosen:  # none fits
            chosen = min(words, key=len).tolist()
        return np.array(chosen, dtype=np.int64)
