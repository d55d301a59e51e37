"""The long runs that the chapter `pretrain` shows: minutes, not one minute.

    python -m tools.long_runs                both, a few minutes each
    python -m tools.long_runs grammar        only this one

What was measured goes to assets/long-runs.json, from which the chapter draws.
`--steps N` shortens a run, to try it; nothing is stored then.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import lucid
from lucid.autograd import no_grad
from lucid.data import (
    Grammar,
    IdealReader,
    PretrainingBatches,
    pydoc_topics,
)
from lucid.data.grammar import LEXICON
from lucid.models.text.bert import BERTConfig, BERTForPreTraining
from lucid.optim import AdamW, LinearWarmup, decay_groups
from lucid.text import WordPieceTokenizer
from lucid.text.wordpiece import SPECIAL_TOKENS
from lucid.training import (
    ProgressBar,
    Training,
    evaluate_pretraining,
    fill_mask,
    guessing,
)

STORE = Path(__file__).resolve().parents[1] / "assets" / "long-runs.json"
SENTENCES = (
    "if the [MASK] is not found, an error is raised.",
    "the value [MASK] the expression is a string.",
    "this method should [MASK] called by the user.",
)


def small_bert(vocab_size: int, positions: int) -> BERTForPreTraining:
    """The chapter's model: two layers, 64 features, four heads."""
    lucid.manual_seed(0)
    return BERTForPreTraining(
        BERTConfig(
            vocab_size=vocab_size,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=256,
            max_position_embeddings=positions,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.1,
        )
    )


def train(
    model: BERTForPreTraining,
    batches: PretrainingBatches,
    evaluate: Callable[[], Mapping[str, float]],
    steps: int,
    lr: float,
    every: int,
) -> dict[str, Any]:
    """Train, and return each evaluation with the mean loss since the last."""
    optimizer = AdamW(decay_groups(model, 0.01), lr=lr)
    schedule = LinearWarmup(optimizer, steps // 10, steps)
    run = Training(model, batches, optimizer, schedule)
    run.evaluations = [{"step": 0, **evaluate()}]
    begun = time.perf_counter()
    run.run(
        steps,
        evaluate=evaluate,
        evaluate_every=every,
        report=ProgressBar(steps),
    )
    seconds = time.perf_counter() - begun
    for entry in run.evaluations[1:]:
        since = run.history[: entry["step"]][-every:]
        entry["train_mlm_loss"] = sum(e["mlm_loss"] for e in since) / len(
            since
        )
    return {
        "steps": steps,
        "lr": lr,
        "minutes": round(seconds / 60, 1),
        "tokens": sum(entry["tokens"] for entry in run.history),
        "evaluations": run.evaluations,
    }


def other_forms(tokenizer: WordPieceTokenizer) -> np.ndarray:
    """For each entry the same word's other number; -1 where there is none."""
    other = np.full(tokenizer.vocab_size, -1)
    for entry in " ".join(
        words
        for name in ("noun", "acts", "rests")
        for words in LEXICON[name]
    ).split():
        one, many = (tokenizer.vocab[word] for word in entry.split("/"))
        other[one], other[many] = many, one
    return other


def two_parts(
    p: np.ndarray, q: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divide the divergence of q from p: which word, and which of its forms.

    ``p`` and ``q`` are (N, V), ``other`` is from `other_forms`; two (N,).
    """
    both_p = p + np.where(other >= 0, p[:, other], 0.0)
    both_q = q + np.where(other >= 0, q[:, other], 0.0)
    p_or_1 = np.where(p > 0, p, 1.0)  # where p is 0 the term is 0
    both = np.where(p > 0, both_p, 1.0)
    whole = (p * np.log(p_or_1 / q)).sum(-1)
    form = (p * np.log((p_or_1 / both) / (q / both_q))).sum(-1)
    return whole - form, form


def ideal_answers(
    ideal: IdealReader, batches: Iterable[Mapping[str, Any]]
) -> np.ndarray:
    """The true probabilities of each hidden word, (N, V)."""
    found = []
    for batch in batches:
        given = {name: t.numpy() for name, t in batch.items()}
        for row, mask in enumerate(given["attention_mask"]):
            ids, segments, labels = (
                given[name][row, : int(mask.sum())]
                for name in ("input_ids", "token_type_ids", "labels")
            )
            found.append(ideal.read(ids, segments, labels >= 0)[0])
    return np.concatenate(found)


def model_answers(
    model: BERTForPreTraining, batches: Iterable[Mapping[str, Any]]
) -> np.ndarray:
    """What a model gives each hidden word, (N, V)."""
    found = []
    model.eval()
    with no_grad():
        for batch in batches:
            asked = batch["labels"].numpy() >= 0
            logits = model(**batch).prediction_logits.numpy()[asked]
            z = logits.astype(np.float64)
            q = np.exp(z - z.max(-1, keepdims=True))
            found.append(q / q.sum(-1, keepdims=True))
    return np.concatenate(found)


def grammar(steps: int = 3000) -> dict[str, Any]:
    """The chapter's run on the grammar, ten times as long, on more text."""
    language = Grammar()
    speech = WordPieceTokenizer([*SPECIAL_TOKENS, *language.words])

    def spoken(count: int, seed: int) -> PretrainingBatches:
        return PretrainingBatches(
            language.documents(count, seed=seed),
            speech,
            seed=seed,
            batch_size=32,
            max_length=35,
            short_share=0.0,
        )

    held = list(islice(spoken(100, seed=1), 10))
    learned = spoken(20_000, seed=0)
    model = small_bert(speech.vocab_size, 35)
    reader = IdealReader(language, speech, 35)
    p, other = ideal_answers(reader, held), other_forms(speech)

    def evaluate() -> dict[str, float]:
        parts = two_parts(p, model_answers(model, held), other)
        word, number = (float(part.mean()) for part in parts)
        found = evaluate_pretraining(model, held)
        return {**found, "word": word, "number": number}

    blind = guessing(
        islice(spoken(1000, seed=0), 40), held, speech.vocab_size
    )
    ideal = reader.evaluate(held)
    run = train(model, learned, evaluate, steps, lr=3e-3, every=100)
    return {**run, "guessing": blind, "ideal": ideal}


def english(steps: int = 15_000) -> dict[str, Any]:
    """The chapter's run on Python's manual, 25 times as long."""
    pages = pydoc_topics()
    kept = pages[::8]
    read = [page for i, page in enumerate(pages) if i % 8]
    tokenizer = WordPieceTokenizer.train((s for d in read for s in d), 1000)

    def written(documents: Any, seed: int) -> PretrainingBatches:
        return PretrainingBatches(
            documents, tokenizer, batch_size=8, max_length=32, seed=seed
        )

    judged = list(islice(written(kept, seed=1), 56))
    blind = guessing(
        islice(written(read, seed=0), 240), judged, tokenizer.vocab_size
    )
    model = small_bert(tokenizer.vocab_size, 32)
    run = train(
        model,
        written(read, seed=0),
        partial(evaluate_pretraining, model, judged),
        steps,
        lr=2e-3,
        every=500,
    )
    fills = {
        line: [
            [word, round(chance, 3)]
            for word, chance in fill_mask(model, tokenizer, line)[0]
        ]
        for line in SENTENCES
    }
    return {**run, "guessing": blind, "fills": fills}


RUNS = {"grammar": grammar, "english": english}


def rounded(value: Any) -> Any:
    """Four digits after the point: what another run would give, at best."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the runs that are named, all by default, and store what they gave."""
    parser = argparse.ArgumentParser("tools.long_runs", description=__doc__)
    parser.add_argument("runs", nargs="*", metavar="|".join(RUNS))
    parser.add_argument("--steps", type=int, help="try it, store nothing")
    given = parser.parse_args(arguments)
    if unknown := set(given.runs) - set(RUNS):
        parser.error(f"no run is called {sorted(unknown)[0]}")
    for name in given.runs or RUNS:
        print(f"{name}:", flush=True)
        if given.steps:
            print(rounded(RUNS[name](steps=given.steps)["evaluations"][-1]))
            continue
        found = rounded(RUNS[name]())
        stored = json.loads(STORE.read_text()) if STORE.exists() else {}
        stored[name] = found
        STORE.write_text(json.dumps(stored, indent=1) + "\n")
        print(found["evaluations"][-1], f"{found['minutes']} minutes")


if __name__ == "__main__":
    main()
