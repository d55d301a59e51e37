# Tangled from chapters/finetune.ipynb; edit that, not this file.
"""What labels mean to a model: classes by name, or numbers on a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lucid.autograd import no_grad
from lucid.models.base import PretrainedModel
from lucid.models.checkpoint import (
    CONFIG_NAME,
    as_json,
    read_config,
    write_files,
)
from lucid.models.text.bert.classification import (
    BERTForSequenceClassification,
)
from lucid.nn.linear import Linear
from lucid.nn.module import Parameter
from lucid.training.examples import Example, ExampleBatches


class Classes:
    """Labels that name one class of several.

    Parameters
    ----------
    names : sequence of str
        Of the classes 0, 1, 2 and so on; at least two.

    Attributes
    ----------
    outputs : int
        How many logits the model needs.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.

    Examples
    --------
    >>> from lucid.training import Classes, Example
    >>> Classes(["no", "yes"]).encode([Example("Is it?", None, "yes")])
    array([1])
    """

    def __init__(self, names: Sequence[str]) -> None:
        if len(set(names)) != len(names) or len(names) < 2:
            raise ValueError(
                f"names: at least two different classes are wanted, got "
                f"{', '.join(names) or 'none'}"
            )
        self.names = tuple(names)
        self.outputs = len(names)

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Classes:
        """Take the labels that occur, whole numbers by size."""
        found = {example.label for example in examples}
        numbers = all(name.isdecimal() for name in found)
        if not numbers:
            return cls(sorted(found))
        return cls(sorted(found, key=lambda name: (int(name), name)))

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Return the number of each example's class, int64.

        Raises
        ------
        ValueError
            If a label is none of the classes; the message has its place.
        """
        index = {name: i for i, name in enumerate(self.names)}
        for example in examples:
            if example.label not in index:
                raise ValueError(
                    f"{example.place}: the label {example.label!r} is none "
                    f"of the classes {', '.join(self.names)}"
                )
        return np.array([index[e.label] for e in examples], np.int64)

    def guess(self, answers: np.ndarray) -> np.ndarray:
        """Return the logits of one who knows how often each class comes.

        Each count is raised by one, so that nothing is impossible.
        """
        counts = np.bincount(answers, minlength=self.outputs) + 1
        return np.log(counts / counts.sum())

    def judge(
        self, logits: np.ndarray, answers: np.ndarray
    ) -> dict[str, float]:
        """Return mean cross-entropy and share of right classes."""
        z = logits - logits.max(-1, keepdims=True)
        wanted = z[np.arange(len(answers)), answers]
        loss = np.log(np.exp(z).sum(-1)) - wanted
        right = z.argmax(-1) == answers
        return {"loss": float(loss.mean()), "accuracy": float(right.mean())}

    def save(self, model: PretrainedModel, folder: str | Path) -> None:
        """Write the model with the names of its classes."""
        model.save_pretrained(folder)
        named = {
            "id2label": {str(i): name for i, name in enumerate(self.names)},
            "label2id": {name: i for i, name in enumerate(self.names)},
        }
        values = read_config(Path(folder))
        write_files(folder, {CONFIG_NAME: as_json({**values, **named})})


class Scale:
    """Labels that are numbers: trained on with mean 0 and spread 1.

    Parameters
    ----------
    mean, spread : float
        Of the numbers; the spread is their standard deviation.

    Attributes
    ----------
    outputs : int
        1, which makes the model a regression.

    Notes
    -----
    Derived in :doc:`/chapters/finetune`, equations (finetune-scale-forward)
    and (finetune-scale-grad).

    Examples
    --------
    >>> from lucid.training import Example, Scale
    >>> stars = [Example("Poor.", None, "1"), Example("Good.", None, "5")]
    >>> scale = Scale.of(stars)
    >>> scale.mean, scale.spread
    (3.0, 2.0)
    >>> scale.encode(stars)
    array([-1.,  1.], dtype=float32)
    """

    outputs = 1

    def __init__(self, mean: float, spread: float) -> None:
        if not (math.isfinite(mean) and 0.0 < spread < math.inf):
            raise ValueError(
                f"mean, spread: finite numbers that differ are wanted, got "
                f"the mean {mean} and the spread {spread}"
            )
        self.mean, self.spread = mean, spread

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Scale:
        """Measure mean and spread."""
        values = np.array([_number(example) for example in examples])
        return cls(float(values.mean()), float(values.std()))

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Return the numbers on this scale, float32.

        Raises
        ------
        ValueError
            If a label is not a number; the message has its place.
        """
        values = np.array([_number(example) for example in examples])
        return ((values - self.mean) / self.spread).astype(np.float32)

    def guess(self, answers: np.ndarray) -> np.ndarray:
        """Return the one output that says the mean."""
        return np.array([answers.mean()])

    def judge(
        self, logits: np.ndarray, answers: np.ndarray
    ) -> dict[str, float]:
        """Return the mean square on this scale, and its root off it."""
        loss = float(((logits[:, 0] - answers) ** 2).mean())
        return {"loss": loss, "error": self.spread * math.sqrt(loss)}

    def fold(self, classifier: Linear) -> None:
        """Make a head of this scale answer in the labels' own numbers.

        Notes
        -----
        Equation (finetune-fold-forward).
        """
        for parameter in classifier.parameters():
            parameter.data *= self.spread
        _bias(classifier).data += self.mean

    def unfold(self, classifier: Linear) -> None:
        """Undo `fold`."""
        _bias(classifier).data -= self.mean
        for parameter in classifier.parameters():
            parameter.data /= self.spread

    def save(
        self, model: BERTForSequenceClassification, folder: str | Path
    ) -> None:
        """Write the model so that it answers in the labels' own numbers."""
        parameters = list(model.classifier.parameters())
        kept = [p.data.copy() for p in parameters]
        self.fold(model.classifier)
        try:
            model.save_pretrained(folder)
        finally:  # by the copies: `unfold` would round
            for parameter, data in zip(parameters, kept, strict=True):
                parameter.data = data


def _bias(classifier: Linear) -> Parameter:
    if classifier.bias is None:
        raise ValueError("classifier: has no bias, and a mean needs one")
    return classifier.bias


def _number(example: Example) -> float:
    try:
        value = float(example.label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{example.place}: the label {example.label!r} is not a number"
        )
    return value


def evaluate_examples(
    model: BERTForSequenceClassification,
    batches: ExampleBatches,
    answers: Classes | Scale,
) -> dict[str, float]:
    """Return what ``answers`` makes of the model's outputs, dropout off.

    Parameters
    ----------
    model : BERTForSequenceClassification
        Left in the mode it was in.
    batches : ExampleBatches
    answers : Classes or Scale

    Returns
    -------
    dict
        ``loss``, and ``accuracy`` of classes or ``error`` of numbers.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """
    was_training = model.training
    model.eval()
    with no_grad():
        logits = [
            model(**{k: v for k, v in batch.items() if k != "labels"}).logits
            for batch in batches.in_order()
        ]
    model.train(was_training)
    rows = np.concatenate([one.numpy() for one in logits])
    return answers.judge(rows.astype(np.float64), batches.answers)
