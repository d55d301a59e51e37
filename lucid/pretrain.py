# Tangled from chapters/pretrain.ipynb; edit that, not this file.
"""Pre-train a small BERT on a folder of text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from lucid.backend import manual_seed
from lucid.data import PretrainingBatches, pydoc_topics, text_folder
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.pretraining import BERTForPreTraining
from lucid.optim import AdamW, LinearWarmup, decay_groups
from lucid.text import WordPieceTokenizer
from lucid.training.checkpoint import find_checkpoints
from lucid.training.commands import option, run_command, write_settings
from lucid.training.evaluation import evaluate_pretraining, guessing
from lucid.training.loop import ProgressBar, Training


@dataclass(frozen=True)
class PretrainSettings:
    """The options of ``python -m lucid.pretrain``.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """

    text: str = option("", "folder of .txt files; none: Python's own manual")
    config: str = option("", "config.json of the model; none: BERT tiny")
    tokenizer: str = option("", "folder of a vocabulary; none: learn one")
    vocab_size: int = option(4000, "entries to learn, without --config")
    cased: bool = option(False, "keep capitals and accents when learning")
    whole_words: bool = option(False, "hide whole words only")
    steps: int = option(2000, "how many batches to learn from")
    batch_size: int = option(32, "pairs in a batch")
    max_length: int = option(64, "tokens in a pair at most")
    lr: float = option(1e-3, "the highest learning rate")
    warmup: float = option(0.1, "share of the steps in which the rate rises")
    weight_decay: float = option(0.01, "pull of the weights towards 0")
    holdout: int = option(10, "keep one document in N to judge by; 0: none")
    every: int = option(100, "steps between judgements and checkpoints")
    seed: int = option(0, "decides weights, order, masks and dropout")


class _Part:
    """All documents but every n-th one, or only those."""

    def __init__(self, documents: Any, n: int, judged: bool) -> None:
        self.documents, self.n, self.judged = documents, n, judged

    def __iter__(self) -> Iterator[Sequence[str]]:
        for i, document in enumerate(self.documents):
            last = self.n > 0 and i % self.n == self.n - 1
            if last == self.judged:
                yield document


def _documents(settings: PretrainSettings) -> tuple[_Part, _Part]:
    """Return the documents to learn from and those to judge by."""
    documents: Any = pydoc_topics()
    if settings.text:
        documents = text_folder(settings.text)
    name = settings.text or "Python's manual"
    learned = _Part(documents, settings.holdout, judged=False)
    judged = _Part(documents, settings.holdout, judged=True)
    count = sum(1 for _ in islice(learned, 2))
    if count < 2:
        raise ValueError(
            f"--text: two documents are needed at least, {name} has {count}"
        )
    if settings.holdout and sum(1 for _ in islice(judged, 2)) < 2:
        raise ValueError(
            f"--holdout: one in {settings.holdout} leaves less than two "
            f"documents of {name} to judge by; take 0 or a smaller number"
        )
    return learned, judged


def _read_config(path: str) -> dict[str, Any]:
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"--config: {path} is not JSON ({error})"
        ) from error
    if not isinstance(values, dict):
        raise ValueError(f"--config: {path} is not a JSON object")
    return values


def _prepare(
    settings: PretrainSettings, documents: _Part
) -> tuple[WordPieceTokenizer, BERTConfig]:
    """Return tokenizer and configuration, which fit one another."""
    config = BERTConfig(
        vocab_size=settings.vocab_size,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=settings.max_length,
    )
    if settings.config:
        config = BERTConfig.from_dict(_read_config(settings.config))
    if config.type_vocab_size < 2:
        raise ValueError(
            f"--config: type_vocab_size {config.type_vocab_size} is too "
            f"small; the two sentences of a pair are told apart by it"
        )
    if settings.max_length > config.max_position_embeddings:
        raise ValueError(
            f"--max-length: {settings.max_length} is more than the model's "
            f"{config.max_position_embeddings} positions"
        )
    if settings.tokenizer:
        tokenizer = WordPieceTokenizer.from_pretrained(settings.tokenizer)
    else:
        sentences = (s for document in documents for s in document)
        tokenizer = WordPieceTokenizer.train(
            sentences, config.vocab_size, lowercase=not settings.cased
        )
    if settings.config and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"--tokenizer: {tokenizer.vocab_size} entries are more than the "
            f"vocab_size {config.vocab_size} of {settings.config}"
        )
    if not settings.config:
        config = replace(config, vocab_size=tokenizer.vocab_size)
    return tokenizer, config


def _pretrain(
    settings: PretrainSettings, folder: Path, resume: bool
) -> None:
    if settings.every < 1:
        raise ValueError(f"--every: at least 1, got {settings.every}")
    learned, judged = _documents(settings)
    if resume and (folder / "vocab.txt").is_file():
        settings = replace(settings, tokenizer=str(folder))
    tokenizer, config = _prepare(settings, learned)

    def batches(documents: _Part, seed: int) -> PretrainingBatches:
        return PretrainingBatches(
            documents,
            tokenizer,
            batch_size=settings.batch_size,
            max_length=settings.max_length,
            whole_words=settings.whole_words,
            seed=seed,
        )

    manual_seed(settings.seed)
    model = BERTForPreTraining(config)
    groups = decay_groups(model, settings.weight_decay)
    optimizer = AdamW(groups, lr=settings.lr)
    steps = settings.steps
    schedule = LinearWarmup(optimizer, round(settings.warmup * steps), steps)
    training = Training(
        model,
        batches(learned, settings.seed),
        optimizer,
        schedule,
        seed=settings.seed,
        folder=folder,
    )
    if not resume:
        write_settings(settings, folder, ("text", "config", "tokenizer"))
    tokenizer.save_pretrained(folder)
    if resume and find_checkpoints(folder):
        training.resume()
    held, evaluate = [], None
    if settings.holdout:
        held = list(islice(batches(judged, settings.seed + 1), 16))
        evaluate = partial(evaluate_pretraining, model, held)
    training.run(
        steps,
        evaluate=evaluate,
        evaluate_every=settings.every,
        save_every=settings.every,
        report=ProgressBar(steps),
    )
    model.save_pretrained(folder)
    if settings.holdout:
        seen = islice(batches(learned, settings.seed), 100)
        blind = guessing(seen, held, config.vocab_size)
        for name, value in blind.items():
            reached = training.evaluations[-1][name]
            print(f"{name:13} {reached:.3f}   by guessing {value:.3f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Notes
    -----
    Built in :doc:`/chapters/pretrain`.
    """
    return run_command(
        "lucid.pretrain",
        __doc__ or "",
        PretrainSettings,
        _pretrain,
        arguments,
    )


if __name__ == "__main__" and __spec__ is not None:  # not in a notebook
    sys.exit(main())
