# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""A small language of which the lowest possible loss is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lucid.autograd import Tensor
from lucid.data.masking import IGNORED, Tokenizer

# One list a topic, or one for all; where two forms are given, the second
# is the plural.
LEXICON = {
    "noun": [
        "cat/cats dog/dogs horse/horses bird/birds mouse/mice cow/cows",
        "cook/cooks guest/guests pot/pots waiter/waiters pan/pans egg/eggs",
        "ship/ships sailor/sailors wave/waves island/islands storm/storms",
        "song/songs singer/singers drum/drums violin/violins choir/choirs",
    ],
    "acts": [
        "chases/chase hears/hear bites/bite follows/follow",
        "serves/serve cuts/cut burns/burn salts/salt",
        "reaches/reach carries/carry leaves/leave sinks/sink",
        "drowns/drown leads/lead praises/praise repeats/repeat",
    ],
    "rests": [
        "sleeps/sleep hides/hide runs/run",
        "waits/wait smells/smell boils/boil",
        "drifts/drift turns/turn rolls/roll",
        "sounds/sound fades/fade rings/ring",
    ],
    "adjective": [
        "small old hungry wild",
        "hot sweet old salty",
        "grey cold old deep",
        "loud soft old slow",
    ],
    "determiner": ["the/the a/some this/these"],
    "adverb": ["often never gladly soon"],
    "preposition": ["near behind under"],
    "stop": ["."],
}

# A digit says which of the two nouns decides on singular or plural.
TEMPLATES = (
    "determiner1 adjective noun1 acts1 determiner2 adjective noun2 stop",
    "determiner1 noun1 rests1 preposition determiner2 adjective noun2 stop",
    "determiner1 adjective noun1 adverb acts1 determiner2 noun2 stop",
)


def _choice(lists: Sequence[str], topic: int, plural: bool) -> list[str]:
    """Return the words of a kind, in the wanted form."""
    words = lists[topic if len(lists) > 1 else 0].split()
    return [word.split("/")[-1 if plural else 0] for word in words]


class Grammar:
    """A probabilistic grammar: topics, forms, singular and plural.

    Parameters
    ----------
    lexicon : mapping of str to lists, optional
        For each kind of word one string of words a topic, or a single one
        for all topics. ``cat/cats`` gives singular and plural.
    templates : sequence of str, optional
        The forms of a sentence, all of one length: kinds of words, with a
        digit 1 or 2 where a noun's number decides.

    Attributes
    ----------
    words : list of str
        All words, in the order in which the lexicon has them.
    length : int
        Words of a sentence.
    chances : array of float64, shape (topics, latents, length, words)
        How likely each word is in each place, given topic, form, numbers.
        Topics are equally likely, and so are latents.

    Raises
    ------
    ValueError
        If the templates are not of one length, or the lists of topics
        disagree in number.

    Notes
    -----
    Derived in :doc:`/chapters/pretraining-data`, equation
    (pretraining-data-sentence).

    Examples
    --------
    >>> Grammar().documents(1, sentences=1)[0][0].endswith(" .")
    True
    """

    def __init__(
        self,
        lexicon: Mapping[str, Sequence[str]] = LEXICON,
        templates: Sequence[str] = TEMPLATES,
    ) -> None:
        forms = [template.split() for template in templates]
        self.length = len(forms[0])
        counts = {len(lists) for lists in lexicon.values()} - {1}
        if {len(form) for form in forms} != {self.length} or len(counts) > 1:
            raise ValueError(
                "templates and lexicon: one length for all templates, one "
                "number of topics for all kinds of words"
            )
        listed = " ".join(w for lists in lexicon.values() for w in lists)
        self.words = list(dict.fromkeys(listed.replace("/", " ").split()))
        index = {word: i for i, word in enumerate(self.words)}
        latents = [
            (form, p, q) for form in forms for p in (0, 1) for q in (0, 1)
        ]
        self.topics = max(counts, default=1)
        self.chances = np.zeros(
            (self.topics, len(latents), self.length, len(self.words))
        )
        for latent, (form, *numbers) in enumerate(latents):
            for place, slot in enumerate(form):
                lists, digit = lexicon[slot.rstrip("12")], slot[-1]
                plural = digit in "12" and numbers[int(digit) - 1] == 1
                for topic in range(self.topics):
                    table = self.chances[topic, latent, place]
                    choice = _choice(lists, topic, plural)
                    for rank, word in enumerate(choice, 1):
                        table[index[word]] += 1 / rank
        self.chances /= self.chances.sum(-1, keepdims=True)

    def documents(
        self, count: int, sentences: int = 12, seed: int = 0
    ) -> list[list[str]]:
        """Draw documents, each of one topic.

        Another ``seed`` gives other documents of the same language.
        """
        rng = np.random.default_rng(seed)
        upto = self.chances.cumsum(-1)
        upto /= upto[..., -1:]
        documents = []
        for _ in range(count):
            topic = rng.integers(self.topics)
            latents = rng.integers(self.chances.shape[1], size=sentences)
            draws = rng.random((sentences, self.length, 1))
            chosen = (upto[topic, latents] <= draws).sum(-1)
            documents.append(
                [" ".join(self.words[i] for i in row) for row in chosen]
            )
        return documents


def _times(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Multiply polynomials, coefficients last, up to the degree of ``p``."""
    product = np.zeros(np.broadcast_shapes(p.shape, q.shape))
    for degree in range(p.shape[-1]):
        rest = p.shape[-1] - degree
        product[..., degree:] += p[..., degree : degree + 1] * q[..., :rest]
    return product


def _product(polynomials: np.ndarray, axis: int) -> np.ndarray:
    """Multiply all polynomials along an axis."""
    moved = np.moveaxis(polynomials, axis, 0)
    product = np.zeros(moved.shape[1:])
    product[..., 0] = 1.0
    for polynomial in moved:
        product = _times(product, polynomial)
    return product


def random_shares(sentences: int, most: int) -> np.ndarray:
    """Return how often B is random, by the lengths of A and B in sentences.

    Parameters
    ----------
    sentences : int
        Of every document.
    most : int
        Sentences of a pair at most.

    Returns
    -------
    array of float64, shape (2, most + 1, most + 1)
        How many pairs ``[is_random, a, b]`` a document gives on average.

    Notes
    -----
    Derived in :doc:`/chapters/pretraining-data`.
    """
    shares = np.zeros((2, most + 1, most + 1))
    begins = np.zeros(sentences + most + 1)
    begins[0] = 1.0
    for i in range(sentences):
        run = min(most, sentences - i)
        for a in range(1, max(run, 2)):
            chance = begins[i] / max(run - 1, 1)
            tails = chance if run == 1 else chance / 2
            for place in range(sentences):
                b = min(most - a, sentences - place)
                shares[1, a, b] += tails / sentences
            begins[i + a] += tails
            if run > 1:
                shares[0, a, run - a] += chance / 2
                begins[i + run] += chance / 2
    return shares


class IdealReader:
    """Answers as well as anyone can who knows the grammar.

    Parameters
    ----------
    grammar : Grammar
    tokenizer : WordPieceTokenizer, or another with a ``vocab``
        Has each word of the grammar as one entry.
    max_length : int
        That of the batches: 3 more than a multiple of ``grammar.length``,
        so that no sentence is cut.
    sentences : int
        Of each document.

    Raises
    ------
    ValueError
        If ``max_length`` does not fit, or a word is no entry.

    Notes
    -----
    Derived in :doc:`/chapters/pretraining-data`: words by equations
    (pretraining-data-factors), (pretraining-data-choices) and
    (pretraining-data-answer), pairs by (pretraining-data-pair). The
    batches have to come from a
    :class:`lucid.data.batches.PretrainingBatches` with ``short_share=0``
    and without ``whole_words`` and ``max_masked``.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokenizer: Tokenizer,
        max_length: int,
        sentences: int = 12,
    ) -> None:
        most, rest = divmod(max_length - 3, grammar.length)
        if rest or most < 2:
            raise ValueError(
                f"max_length: wanted 3 more than a multiple of "
                f"{grammar.length}, at least {3 + 2 * grammar.length}, so "
                f"that no sentence is cut; got {max_length}"
            )
        vocab = tokenizer.vocab
        if lacking := [w for w in grammar.words if w not in vocab]:
            raise ValueError(f"tokenizer: has no entry {lacking[0]!r}")
        self.length, self.mask_id = grammar.length, vocab["[MASK]"]
        shape = (*grammar.chances.shape[:3], len(vocab))
        self.chances = np.zeros(shape)
        ids = [vocab[word] for word in grammar.words]
        self.chances[..., ids] = grammar.chances
        counts = random_shares(sentences, most)
        self.random_shares = counts[1] / np.maximum(counts.sum(0), 1e-300)

    def _factors(self, seen: np.ndarray, degree: int) -> np.ndarray:
        """Return the polynomials of each place: (z, s, l, j, degree + 1)."""
        places = np.arange(self.length)
        factors = np.zeros(
            (*self.chances.shape[:2], *seen.shape, degree + 1)
        )
        factors[..., 0] = self.chances[:, :, places, seen]
        if degree:
            noise = 0.1 / self.chances.shape[-1]
            factors[..., 1] = 0.1 * factors[..., 0] + noise
        factors[:, :, seen == self.mask_id] = np.eye(degree + 1)[0]
        return factors.swapaxes(1, 2)

    def _join(
        self, a: np.ndarray, b: np.ndarray, random: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both terms of the pair's probability, topics first."""
        follows = (1 - random) * _times(a, b).mean(0)
        return follows, random * _times(a.mean(0), b.mean(0))

    def read(
        self, ids: np.ndarray, segments: np.ndarray, asked: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Read one sequence, without its padding.

        Parameters
        ----------
        ids, segments : array of int64, shape (T,)
        asked : array of bool, shape (T,)

        Returns
        -------
        words : array of float64, shape (asked places, V)
            The true probabilities of each word.
        random : float
            The true probability that B is random.
        """
        end = int((segments == 0).sum())
        words = np.r_[1 : end - 1, end : len(ids) - 1]
        seen = ids[words].reshape(-1, self.length)
        first = (end - 2) // self.length  # sentences of A
        share = float(self.random_shares[first, len(seen) - first])
        hidden = seen == self.mask_id
        lying = int(asked.sum() - hidden.sum())
        factors = self._factors(seen, lying)
        sentences = _product(factors, 3).mean(2)  # (z, s, degree + 1)
        halves = sentences[:, :first], sentences[:, first:]
        a, b = _product(halves[0], 1), _product(halves[1], 1)
        follows, random = self._join(a, b, share)
        chance = float(random[lying] / (follows + random)[lying])
        answers = []
        for s, j in np.argwhere(asked[words].reshape(seen.shape)):
            others = np.delete(factors[:, s], j, axis=2)
            word = self.chances[:, :, j]
            if not hidden[s, j]:  # kept, or exchanged for a random one
                same = np.arange(word.shape[-1]) == seen[s, j]
                word = word * (0.1 * same + 0.1 / word.shape[-1])
            own = np.einsum("zlv,zld->zvd", word, _product(others, 2))
            near, far = (halves[0], b) if s < first else (halves[1], a)
            mates = np.delete(near, s if s < first else s - first, axis=1)
            own = _times(own, _product(mates, 1)[:, None])
            follows, random = self._join(own, far[:, None], share)
            degree = lying if hidden[s, j] else lying - 1
            vote = (follows + random)[:, degree]
            answers.append(vote / vote.sum())
        return np.array(answers), chance

    def evaluate(
        self, batches: Iterable[Mapping[str, Tensor]]
    ) -> dict[str, float]:
        """Return the losses and accuracies that no model can beat.

        Returns
        -------
        dict
            ``mlm_loss``, ``mlm_accuracy``, ``nsp_loss``, ``nsp_accuracy``:
            means over all asked words and over all pairs. A model may be
            luckier on a few batches, but not in the long run.
            ``mlm_entropy``: what the reader expects ``mlm_loss`` to be.
        """
        losses, right, entropies, pairs = [], [], [], []
        for batch in batches:
            arrays = {name: t.numpy() for name, t in batch.items()}
            for row, mask in enumerate(arrays["attention_mask"]):
                real = slice(int(mask.sum()))
                labels = arrays["labels"][row, real]
                asked = labels != IGNORED
                words, random = self.read(
                    arrays["input_ids"][row, real],
                    arrays["token_type_ids"][row, real],
                    asked,
                )
                wanted = labels[asked]
                chance = words[np.arange(len(wanted)), wanted]
                losses.append(-np.log(chance))
                right.append(words.argmax(-1) == wanted)
                logs = np.log(np.where(words > 0, words, 1.0))
                entropies.append(-(words * logs).sum(-1))
                label = arrays["next_sentence_label"][row]
                pairs.append(random if label else 1 - random)
        sure = np.array(pairs)
        return {
            "mlm_loss": float(np.concatenate(losses).mean()),
            "mlm_accuracy": float(np.concatenate(right).mean()),
            "mlm_entropy": float(np.concatenate(entropies).mean()),
            "nsp_loss": float(-np.log(sure).mean()),
            "nsp_accuracy": float((sure > 0.5).mean()),
        }
