# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""Pairs of text for next-sentence prediction, by Google's recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lucid.checks import check_integer

Ids = Sequence[int]


class Pair(NamedTuple):
    """Two texts, and whether the second is random: it does not follow.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """

    a: list[int]
    b: list[int]
    is_random: bool


def truncate_pair(
    a: Ids, b: Ids, room: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Shorten two texts until together they have ``room`` tokens.

    The longer one loses tokens, each from its front or its back by a coin;
    of two equals it is ``b``.

    Returns
    -------
    a, b : list of int
        New lists; the arguments are left as they are.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """
    left = [len(a), len(b)]
    while sum(left) > room:
        left[0 if left[0] > left[1] else 1] -= 1
    kept = []
    for text, length in zip((a, b), left, strict=True):
        start = int(rng.binomial(len(text) - length, 0.5))
        kept.append(list(text[start : start + length]))
    return kept[0], kept[1]


def _flat(sentences: Iterable[Ids]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def _elsewhere(
    documents: Sequence[Sequence[Ids]],
    index: int,
    length: int,
    rng: np.random.Generator,
) -> list[int]:
    other = int(rng.integers(len(documents) - 1))
    document = documents[other + (other >= index)]
    place = int(rng.integers(len(document)))
    text = list(document[place])
    while len(text) < length and place + 1 < len(document):
        place += 1
        text += document[place]
    return text


def make_pairs(
    documents: Sequence[Sequence[Ids]],
    max_length: int,
    rng: np.random.Generator,
    short_share: float = 0.1,
) -> Iterator[Pair]:
    """Cut documents into pairs of texts; about half are random.

    Parameters
    ----------
    documents : sequence of sequences of ids
        Sentences without special tokens; none is empty, nor a document.
    max_length : int
        Of a sequence, with its three special tokens.
    rng : numpy.random.Generator
    short_share : float
        The share of documents whose sequences are to be shorter.

    Yields
    ------
    Pair

    Raises
    ------
    ValueError
        If there is no second document to take a random text from, or
        ``max_length`` leaves no room.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """
    room = check_integer("max_length", max_length, least=5) - 3
    if len(documents) < 2:
        raise ValueError(
            f"documents: a random text comes from another document, so two "
            f"are needed; got {len(documents)}"
        )
    for index, document in enumerate(documents):
        target = room
        if rng.random() < short_share:
            target = int(rng.integers(2, room + 1))
        start = 0
        while start < len(document):
            stop, length = start, 0
            while stop < len(document) and length < target:
                length += len(document[stop])
                stop += 1
            middle = start + 1
            if stop > middle:
                middle = int(rng.integers(middle, stop))
            a = _flat(document[start:middle])
            is_random = stop - start == 1 or rng.random() < 0.5
            if is_random:
                b = _elsewhere(documents, index, target - len(a), rng)
                start = middle  # the rest is put back
            else:
                b = _flat(document[middle:stop])
                start = stop
            yield Pair(*truncate_pair(a, b, room, rng), is_random)
