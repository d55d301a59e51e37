# Tangled from chapters/finetune.ipynb; edit that, not this file.
"""Fine-tune a BERT: classes, or a number, of texts or pairs of texts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lucid.backend import manual_seed
from lucid.models.checkpoint import read_config
from lucid.models.text.bert.classification import (
    BERTForSequenceClassification,
)
from lucid.optim import AdamW, LinearWarmup, decay_groups
from lucid.text import WordPieceTokenizer
from lucid.training.answers import Classes, Scale, evaluate_examples
from lucid.training.checkpoint import find_checkpoints
from lucid.training.commands import option, run_command, write_settings
from lucid.training.examples import Example, ExampleBatches, read_examples
from lucid.training.loop import ProgressBar, Training


@dataclass(frozen=True)
class FinetuneSettings:
    """The options of ``python -m lucid.finetune``.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """

    model: str = option("", "folder of a model and its vocabulary; needed")
    data: str = option(
        "", "FILE.tsv, or a folder of train.tsv and test.tsv; needed"
    )
    regression: bool = option(False, "the labels are numbers, not classes")
    epochs: int = option(3, "how often each example is seen")
    batch_size: int = option(16, "examples in a batch")
    max_length: int = option(0, "tokens at most; 0: what the model can read")
    lr: float = option(0.0, "the highest rate; 0: 5e-5 x 768 / width")
    warmup: float = option(0.1, "share of the steps in which the rate rises")
    weight_decay: float = option(0.01, "pull of the weights towards 0")
    holdout: int = option(5, "without test.tsv, judge by one line in N")
    every: int = option(100, "steps between judgements and checkpoints")
    seed: int = option(0, "decides head, order and dropout")


def default_rate(hidden_size: int) -> float:
    """Return the rate that the paper's 5e-5 becomes in another width.

    Notes
    -----
    Equation (finetune-rate-forward) of :doc:`/chapters/finetune`.

    Examples
    --------
    >>> default_rate(768)
    5e-05
    """
    return 5e-5 * 768 / hidden_size


def _tables(
    settings: FinetuneSettings,
) -> tuple[list[Example], list[Example]]:
    """Return the examples to learn from and those to judge by."""
    path, n = Path(settings.data), settings.holdout
    if (path / "test.tsv").is_file():
        return (
            read_examples(path / "train.tsv"),
            read_examples(path / "test.tsv"),
        )
    every = read_examples(path / "train.tsv" if path.is_dir() else path)
    if n == 0:
        return every, []
    learned = [e for i, e in enumerate(every) if i % n != n - 1]
    judged = every[n - 1 :: n]
    if n < 0 or not learned or not judged:
        raise ValueError(
            f"--holdout: one in {n} of {len(every)} examples is not "
            f"possible; take 0 or another number"
        )
    return learned, judged


def _known_names(folder: Path) -> list[str]:
    """Return the classes of a model that is a classifier already."""
    config = read_config(folder)
    kinds = " ".join(config.get("architectures") or [])
    if "ForSequenceClassification" not in kinds:
        return []
    named = config.get("id2label") or {}
    names = [named.get(str(i), "") for i in range(len(named))]
    return [name.removeprefix("LABEL_") for name in names]


def _answers(
    settings: FinetuneSettings, learned: list[Example]
) -> Classes | Scale:
    if settings.regression:
        return Scale.of(learned)
    known = _known_names(Path(settings.model))
    return Classes(known) if len(known) > 1 else Classes.of(learned)


def _load(
    settings: FinetuneSettings, answers: Classes | Scale
) -> tuple[WordPieceTokenizer, BERTForSequenceClassification]:
    """Return tokenizer and model, which fit one another."""
    folder = Path(settings.model)
    tokenizer = WordPieceTokenizer.from_pretrained(folder)
    manual_seed(settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the head is new: it has to be
        model = BERTForSequenceClassification.from_pretrained(
            folder,
            ignore_mismatched_sizes=True,
            num_labels=answers.outputs,
        )
    if isinstance(answers, Scale) and len(_known_names(folder)) == 1:
        answers.unfold(model.classifier)
    config = model.config
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"--model: the vocabulary in {folder} has "
            f"{tokenizer.vocab_size} entries, the model has "
            f"{config.vocab_size}"
        )
    if settings.max_length > config.max_position_embeddings:
        raise ValueError(
            f"--max-length: {settings.max_length} is more than the model's "
            f"{config.max_position_embeddings} positions"
        )
    return tokenizer, model


def _finetune(
    settings: FinetuneSettings, folder: Path, resume: bool
) -> None:
    for name in ("model", "data"):
        if not getattr(settings, name):
            raise ValueError(f"--{name}: is needed; see --help")
    learned, judged = _tables(settings)
    answers = _answers(settings, learned)
    tokenizer, model = _load(settings, answers)

    def batches(examples: list[Example]) -> ExampleBatches:
        return ExampleBatches(
            examples,
            answers.encode(examples),
            tokenizer,
            batch_size=settings.batch_size,
            max_length=settings.max_length
            or model.config.max_position_embeddings,
            seed=settings.seed,
        )

    data = batches(learned)
    test = batches(judged) if judged else None
    steps = settings.epochs * len(data)
    rate = settings.lr or default_rate(model.config.hidden_size)
    groups = decay_groups(model, settings.weight_decay)
    optimizer = AdamW(groups, lr=rate)
    schedule = LinearWarmup(optimizer, round(settings.warmup * steps), steps)
    if not resume:
        write_settings(settings, folder, ("model", "data"))
    tokenizer.save_pretrained(folder)
    training = Training(
        model, data, optimizer, schedule, seed=settings.seed, folder=folder
    )
    if resume and find_checkpoints(folder):
        training.resume()
    evaluate = None
    if test:
        evaluate = partial(evaluate_examples, model, test, answers)
    training.run(
        steps,
        evaluate=evaluate,
        evaluate_every=settings.every,
        save_every=settings.every,
        report=ProgressBar(steps),
    )
    answers.save(model, folder)
    if test:
        guess = answers.guess(data.answers)
        rows = np.broadcast_to(guess, (len(judged), answers.outputs))
        for name, value in answers.judge(rows, test.answers).items():
            reached = training.evaluations[-1][name]
            print(f"{name:9} {reached:.3f}   by guessing {value:.3f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """
    return run_command(
        "lucid.finetune",
        __doc__ or "",
        FinetuneSettings,
        _finetune,
        arguments,
    )


if __name__ == "__main__" and __spec__ is not None:  # not in a notebook
    sys.exit(main())
