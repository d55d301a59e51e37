# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""Batches for pre-training: endless, in an order that can be taken up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from lucid.autograd import Tensor, tensor
from lucid.checks import check_integer, check_keys
from lucid.data.masking import IGNORED, Masking, Tokenizer
from lucid.data.pairs import Pair, make_pairs

Documents = Iterable[Sequence[str]]


def _blocks(
    documents: Iterator[Sequence[str]], size: int
) -> Iterator[list[Sequence[str]]]:
    """Cut a stream; what is left over goes to the last whole block."""
    held = list(islice(documents, size))
    while held:
        more = list(islice(documents, size))
        if len(more) < size:
            yield held + more
            return
        yield held
        held = more


class PretrainingBatches:
    """Batches of pairs with hidden words, for `BERTForPreTraining`.

    It is an iterator without end: one epoch follows the other, and in each
    one the order, the pairs and the masks are drawn anew. The corpus is
    read as a stream; one block of documents is in memory.

    Parameters
    ----------
    documents : iterable of documents, each a sequence of sentences
        Read once an epoch: a list, `text_folder`, but no generator.
    tokenizer : WordPieceTokenizer, or another with ``encode`` and ``vocab``
    batch_size : int
        Pairs of a batch at most. A block is cut evenly, so that some have
        a few less, and no pair is left out.
    max_length : int
        Tokens of a sequence at most.
    seed : int
    mask_share, max_masked, whole_words
        What is hidden: `share`, `most` and `whole_words` of
        :class:`lucid.data.masking.Masking`.
    short_share : float
        The share of documents with shorter sequences.
    copies : int, optional
        After so many epochs they repeat; by default each is new.
    buffer_size : int
        Documents of a block; the last one may have up to twice as many.
    multiple : int
        Lengths are rounded up to a multiple of this.

    Attributes
    ----------
    epoch, block, batch : int
        The place: which batch comes next.

    Raises
    ------
    TypeError
        If ``documents`` can be read only once.
    ValueError
        If a number makes no sense.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """

    def __init__(
        self,
        documents: Documents,
        tokenizer: Tokenizer,
        *,
        batch_size: int = 32,
        max_length: int = 128,
        seed: int = 0,
        mask_share: float = 0.15,
        max_masked: int | None = None,
        whole_words: bool = False,
        short_share: float = 0.1,
        copies: int | None = None,
        buffer_size: int = 1000,
        multiple: int = 8,
    ) -> None:
        if iter(documents) is documents:
            raise TypeError(
                "documents: a generator can be read only once, and each "
                "epoch reads anew; give a list, or text_folder(path)"
            )
        self.batch_size = check_integer("batch_size", batch_size, least=1)
        self.max_length = check_integer("max_length", max_length, least=5)
        self.buffer_size = check_integer("buffer_size", buffer_size, least=2)
        self.multiple = check_integer("multiple", multiple, least=1)
        self.seed = check_integer("seed", seed)
        if copies is not None:
            copies = check_integer("copies", copies, least=1)
        if not 0 <= short_share <= 1:
            raise ValueError(
                f"short_share: between 0 and 1, got {short_share}"
            )
        self.documents, self.tokenizer = documents, tokenizer
        self.short_share, self.copies = short_share, copies
        self.masking = Masking(
            tokenizer, mask_share, max_masked, whole_words
        )
        self._text: list[Sequence[str]] = []  # of the last block
        self._ids: list[list[list[int]]] = []
        self._go_to(0, 0, 0)

    def _go_to(self, epoch: int, block: int, batch: int) -> None:
        self.epoch, self.block, self.batch = epoch, block, batch
        self._stream: Iterator[list[Sequence[str]]] | None = None
        self._groups: list[list[Pair]] | None = None

    def _rng(self, *place: int) -> np.random.Generator:
        epoch = self.epoch % self.copies if self.copies else self.epoch
        return np.random.default_rng([self.seed, epoch, *place])

    def _encode(
        self, documents: list[Sequence[str]]
    ) -> list[list[list[int]]]:
        if documents == self._text:  # a corpus of one block, next epoch
            return self._ids
        encoded = []
        for document in documents:
            if isinstance(document, str):
                raise TypeError(
                    f"documents: a document is a list of sentences, got one "
                    f"str, {document[:20]!r}"
                )
            ids = [self.tokenizer.encode(text)[1:-1] for text in document]
            if sentences := [sentence for sentence in ids if sentence]:
                encoded.append(sentences)
        self._text, self._ids = documents, encoded
        return encoded

    def _group(self, documents: list[Sequence[str]]) -> list[list[Pair]]:
        rng = self._rng(self.block, 0)
        encoded = self._encode(documents)
        pairs = list(
            make_pairs(encoded, self.max_length, rng, self.short_share)
        )
        order = rng.permutation(len(pairs))
        lengths = np.array([len(p.a) + len(p.b) for p in pairs])
        order = order[np.argsort(lengths[order], kind="stable")]
        count = -(-len(pairs) // self.batch_size)
        groups = np.array_split(order, count)
        return [
            [pairs[j] for j in groups[i]] for i in rng.permutation(count)
        ]

    def _collate(self, pairs: list[Pair]) -> dict[str, Tensor]:
        vocab = self.tokenizer.vocab
        pad, first, end = (vocab[t] for t in ("[PAD]", "[CLS]", "[SEP]"))
        longest = max(len(p.a) + len(p.b) for p in pairs) + 3
        longest = -(-longest // self.multiple) * self.multiple
        shape = len(pairs), min(longest, self.max_length)
        batch = {
            "input_ids": np.full(shape, pad),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
            "labels": np.full(shape, IGNORED),
            "next_sentence_label": np.array(
                [int(p.is_random) for p in pairs]
            ),
        }
        rng = self._rng(self.block, 1 + self.batch)
        for row, pair in enumerate(pairs):
            ids = [first, *pair.a, end, *pair.b, end]
            hidden, labels = self.masking(ids, rng)
            batch["input_ids"][row, : len(ids)] = hidden
            batch["labels"][row, : len(ids)] = labels
            batch["attention_mask"][row, : len(ids)] = 1
            batch["token_type_ids"][row, len(pair.a) + 2 : len(ids)] = 1
        return {name: tensor(array) for name, array in batch.items()}

    def __iter__(self) -> PretrainingBatches:
        """Return the object itself; it goes on where it is."""
        return self

    def __next__(self) -> dict[str, Tensor]:
        """Return the next batch: what ``forward`` takes, by its names.

        Raises
        ------
        ValueError
            If a block has not two documents with words in them.
        """
        while self._groups is None or self.batch >= len(self._groups):
            if self._groups is not None:
                self._groups = None
                self.block, self.batch = self.block + 1, 0
            stream, self._stream = self._stream, None  # after an error, anew
            if stream is None:
                skipped = self.block * self.buffer_size
                rest = islice(iter(self.documents), skipped, None)
                stream = _blocks(rest, self.buffer_size)
            block = next(stream, None)
            if block is not None:
                self._groups = self._group(block)
                self._stream = stream
            elif self.block == 0:
                raise ValueError("documents: the corpus is empty")
            else:
                self._go_to(self.epoch + 1, 0, 0)
        pairs = self._groups[self.batch]
        batch = self._collate(pairs)
        self.batch += 1
        return batch

    def state_dict(self) -> dict[str, int]:
        """Return the place: the seed, and which batch comes next."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "block": self.block,
            "batch": self.batch,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place.

        Raises
        ------
        ValueError
            If it is no place, or was noted with another seed: the order is
            another one.
        """
        check_keys(state, self.state_dict())
        names = "epoch", "block", "batch"
        place = [check_integer(name, state[name]) for name in names]
        if state["seed"] != self.seed:
            raise ValueError(
                f"seed: this order is that of {self.seed}, the place was "
                f"noted in that of {state['seed']}"
            )
        self._go_to(*place)
