# Tangled from chapters/finetune.ipynb; edit that, not this file.
"""Labelled texts: read from a table, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lucid.autograd import Tensor, tensor
from lucid.checks import check_integer, check_keys
from lucid.text import WordPieceTokenizer

COLUMNS = ("text", "pair", "label")


@dataclass(frozen=True)
class Example:
    """A text, perhaps a second one, and the answer as it was written.

    Attributes
    ----------
    text : str
    pair : str or None
    label : str
        The name of a class, or a number.
    place : str
        File and line, for messages.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """

    text: str
    pair: str | None
    label: str
    place: str = "an example"


def _read_row(line: str, names: list[str], place: str) -> Example:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != len(names):
        raise ValueError(
            f"{place}: wanted {len(names)} cells with tabs between them, "
            f"got {len(cells)}"
        )
    row = dict(zip(names, cells, strict=True))
    for name in ("text", "label"):
        if not row[name]:
            raise ValueError(f"{place}: the {name} is empty")
    return Example(row["text"], row.get("pair"), row["label"], place)


def read_examples(path: str | Path) -> list[Example]:
    """Read a table of labelled texts: lines of cells, tabs between them.

    The first line names the columns, in any order: ``text``, ``label`` and,
    where two texts belong together, ``pair``. Blank lines are skipped.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is not such a table; the message names file and line.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error})") from error
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    first, *lines = text.split("\n")
    names = [name.strip() for name in first.split("\t")]
    wanted = [name for name in COLUMNS if name in names or name != "pair"]
    if sorted(names) != sorted(wanted):
        raise ValueError(
            f"{path}, line 1: wanted the columns text, label and perhaps "
            f"pair, with tabs between them; got {', '.join(names)}"
        )
    examples = [
        _read_row(line, names, f"{path}, line {number}")
        for number, line in enumerate(lines, 2)
        if line.strip()
    ]
    if not examples:
        raise ValueError(f"{path}: there is nothing below the first line")
    return examples


class ExampleBatches:
    """Batches of labelled texts without end, for `Training`.

    Parameters
    ----------
    examples : sequence of Example
        All with a ``pair``, or all without.
    answers : array, shape (examples,)
        What the labels mean to the model: int64 classes or float32 numbers.
    tokenizer : WordPieceTokenizer
    batch_size : int
        At most; an epoch is cut evenly, and no example is left out.
    max_length : int, optional
        Tokens of a sequence at most.
    seed : int
        Decides the order, which each epoch draws anew.

    Attributes
    ----------
    epoch, batch : int
        The place: which batch comes next.

    Raises
    ------
    ValueError
        If there are no examples, not as many answers, ``batch_size`` is
        less than 1, or some examples have a pair and some have none.

    Notes
    -----
    Built in :doc:`/chapters/finetune`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        answers: np.ndarray,
        tokenizer: WordPieceTokenizer,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
        seed: int = 0,
    ) -> None:
        if not examples or len(examples) != len(answers):
            raise ValueError(
                f"examples, answers: as many of one as of the other are "
                f"wanted, got {len(examples)} and {len(answers)}"
            )
        if len({example.pair is None for example in examples}) > 1:
            raise ValueError("examples: some have a pair, some have none")
        self.batch_size = check_integer("batch_size", batch_size, least=1)
        self.seed = check_integer("seed", seed)
        self.examples, self.answers = examples, answers
        self.tokenizer, self.max_length = tokenizer, max_length
        self._go_to(0, 0)

    def _go_to(self, epoch: int, batch: int) -> None:
        self.epoch, self.batch = epoch, batch
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(len(self.examples))
        self._groups = np.array_split(order, len(self))

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        return -(-len(self.examples) // self.batch_size)

    def _collate(self, rows: np.ndarray) -> dict[str, Tensor]:
        chosen = [self.examples[row] for row in rows]
        texts = [example.text for example in chosen]
        pairs = [one.pair for one in chosen if one.pair is not None]
        batch = self.tokenizer(texts, pairs or None, self.max_length)
        return {**batch, "labels": tensor(self.answers[rows])}

    def in_order(self) -> Iterator[dict[str, Tensor]]:
        """Yield each example once, in the order in which they were given."""
        for rows in np.array_split(np.arange(len(self.examples)), len(self)):
            yield self._collate(rows)

    def __iter__(self) -> ExampleBatches:
        """Return the object itself; it goes on where it is."""
        return self

    def __next__(self) -> dict[str, Tensor]:
        """Return the next batch: what ``forward`` takes, by its names."""
        if self.batch == len(self):
            self._go_to(self.epoch + 1, 0)
        self.batch += 1
        return self._collate(self._groups[self.batch - 1])

    def _order(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "examples": len(self.examples),
            "batch_size": self.batch_size,
        }

    def state_dict(self) -> dict[str, int]:
        """Return the place: whose order, and which batch comes next."""
        return {**self._order(), "epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place.

        Raises
        ------
        ValueError
            If it is no place, or was noted with another seed, number of
            examples or batch size: the order is another one.
        """
        check_keys(state, self.state_dict())
        places = "epoch", "batch"
        place = [check_integer(name, state[name]) for name in places]
        for name, here in self._order().items():
            if state[name] != here:
                raise ValueError(
                    f"{name}: this order is that of {here}, the place was "
                    f"noted in that of {state[name]}"
                )
        self._go_to(*place)
