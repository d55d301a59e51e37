# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""What a pre-trained model knows, and what guessing would reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lucid.autograd import no_grad
from lucid.models.text.bert.pretraining import BERTForPreTraining

IGNORED = -100


class _Score:
    """The mean loss and the share of right answers, batch by batch."""

    def __init__(self) -> None:
        self.loss, self.right, self.count = 0.0, 0, 0

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Take in logits (N, C) and labels (N,)."""
        z = logits.astype(np.float64)
        z -= z.max(-1, keepdims=True)
        wanted = z[np.arange(len(labels)), labels]
        self.loss += float((np.log(np.exp(z).sum(-1)) - wanted).sum())
        self.right += int((z.argmax(-1) == labels).sum())
        self.count += len(labels)

    def results(self, task: str) -> dict[str, float]:
        """Return both means under the name of the task."""
        count = max(self.count, 1)
        return {
            f"{task}_loss": self.loss / count,
            f"{task}_accuracy": self.right / count,
        }


def evaluate_pretraining(
    model: BERTForPreTraining, batches: Iterable[Mapping[str, Any]]
) -> dict[str, float]:
    """Return loss and accuracy of both tasks, dropout off.

    Parameters
    ----------
    model : BERTForPreTraining
        Left in the mode it was in.
    batches : iterable
        With ``labels`` and ``next_sentence_label``.

    Returns
    -------
    dict
        ``mlm_loss``, ``mlm_accuracy``, ``nsp_loss`` and ``nsp_accuracy``:
        means over all words that are asked for, and over all pairs.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    words, pairs = _Score(), _Score()
    was_training = model.training
    model.eval()
    with no_grad():
        for batch in batches:
            output = model(**batch)
            labels = batch["labels"].numpy()
            asked = labels != IGNORED
            words.add(output.prediction_logits.numpy()[asked], labels[asked])
            pairs.add(
                output.seq_relationship_logits.numpy(),
                batch["next_sentence_label"].numpy(),
            )
    model.train(was_training)
    return {**words.results("mlm"), **pairs.results("nsp")}


def _counts(
    batches: Sequence[Mapping[str, Any]], name: str, size: int
) -> np.ndarray:
    """Return how often each of ``size`` answers is right."""
    counts = np.zeros(size, dtype=np.int64)
    for batch in batches:
        labels = batch[name].numpy()
        counts += np.bincount(labels[labels != IGNORED], minlength=size)
    return counts


def guessing(
    seen: Iterable[Mapping[str, Any]],
    asked: Iterable[Mapping[str, Any]],
    vocab_size: int,
) -> dict[str, float]:
    """Return what one reaches who knows how often, and never looks.

    Parameters
    ----------
    seen : iterable of batches
        Where the answers are counted; each count is raised by one, so that
        nothing is impossible.
    asked : iterable of batches
        Where the guesses are judged.
    vocab_size : int

    Returns
    -------
    dict
        As from `evaluate_pretraining`. The losses are those of the observed
        frequencies, equation (pretrain-unigram-forward); the accuracies
        those of always giving the commonest answer.

    Notes
    -----
    Derived in :doc:`/chapters/pretrain`, equations
    (pretrain-unigram-forward) and (pretrain-unigram-grad).
    """
    seen, asked = list(seen), list(asked)
    results = {}
    for task, name, size in (
        ("mlm", "labels", vocab_size),
        ("nsp", "next_sentence_label", 2),
    ):
        known = _counts(seen, name, size)
        wanted = _counts(asked, name, size)
        log_share = np.log((known + 1) / (known.sum() + size))
        total = max(int(wanted.sum()), 1)
        results[f"{task}_loss"] = float(-(wanted @ log_share) / total)
        results[f"{task}_accuracy"] = float(wanted[known.argmax()] / total)
    return results


def fill_mask(
    model: BERTForPreTraining, tokenizer: Any, text: str, count: int = 5
) -> list[list[tuple[str, float]]]:
    """Return the likeliest words for each ``[MASK]`` in ``text``.

    Parameters
    ----------
    model : BERTForPreTraining
    tokenizer : WordPieceTokenizer
    text : str
    count : int
        How many words to return for each.

    Returns
    -------
    list of lists of (word, probability)
        One list for each ``[MASK]``, the likeliest first.

    Raises
    ------
    ValueError
        If there is no ``[MASK]``.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    batch = tokenizer([text])
    asked = batch["input_ids"].numpy()[0] == tokenizer.mask_token_id
    if not asked.any():
        raise ValueError(f"text: there is no [MASK] in {text!r}")
    was_training = model.training
    model.eval()
    with no_grad():
        logits = model(**batch).prediction_logits.numpy()[0, asked]
    model.train(was_training)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    words = {number: word for word, number in tokenizer.vocab.items()}
    best = (-shares).argsort(-1)[:, :count].tolist()
    return [
        [(words[i], float(row[i])) for i in picks]
        for row, picks in zip(shares, best, strict=True)
    ]
