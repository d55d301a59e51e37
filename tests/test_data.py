"""The data of pre-training: corpora, pairs, hidden words, batches, the grammar.

Rows of the list of behaviours that public implementations got wrong: 4, 6, 7, 8
and the data half of 25.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import lucid
from lucid.data import (
    Grammar,
    IdealReader,
    Masking,
    PretrainingBatches,
    make_pairs,
    pydoc_topics,
    random_shares,
    split_sentences,
    text_folder,
    truncate_pair,
)
from lucid.models.text.bert import BERTForPreTraining

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


class Words:
    """A tokenizer that needs no package: one entry a word."""

    def __init__(self, words):
        self.vocab = {w: i for i, w in enumerate([*SPECIAL, *words])}

    def encode(self, text):
        ids = [self.vocab.get(word, UNK) for word in text.split()]
        return [CLS, *ids, SEP]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def thousand():
    """995 entries, of which each third begins a word."""
    return Words(f"{'##' if i % 3 else ''}w{i}" for i in range(995))


@pytest.fixture(scope="module")
def long_text():
    """100,000 tokens, in lines of 128 with their special tokens."""
    ids = rng(1).integers(5, 1000, size=(800, 128))
    ids[:, 0], ids[:, 60], ids[:, -1] = CLS, SEP, SEP
    ids[:, 61] = 6  # a piece with ## right behind [SEP]
    return ids


def marked(documents=20, sentences=7, words=4):
    """Documents whose ids tell where they come from."""
    return [
        [
            [100 * d + 10 * s + w for w in range(words)]
            for s in range(sentences)
        ]
        for d in range(documents)
    ]


# ---------------------------------------------------------------------- hiding


def test_row_04_the_shares_on_100_000_tokens(thousand, long_text):
    """codertimo/BERT-pytorch #29: nothing is ever hidden."""
    masking, draw = Masking(thousand), rng()
    found = [masking(ids, draw) for ids in long_text]
    hidden = np.stack([h for h, _ in found])
    labels = np.stack([x for _, x in found])
    asked = labels != -100
    assert abs(asked.mean() - 0.15) < 0.01
    assert abs((hidden == MASK)[asked].mean() - 0.8) < 0.01
    assert abs((hidden == long_text)[asked].mean() - 0.1) < 0.01
    other = (hidden != long_text) & (hidden != MASK)
    assert abs(other[asked].mean() - 0.1) < 0.01
    assert not other[~asked].any()
    # Any entry may come as a replacement, special ones among them.
    drawn = Counter(hidden[other].tolist())
    assert len(drawn) > 700
    assert set(range(4)) & set(drawn)


@pytest.mark.parametrize("length", [3, 4, 10, 30, 63, 128, 512])
@pytest.mark.parametrize("most", [None, 20])
def test_row_04_the_count_is_googles(thousand, length, most):
    ids = [CLS, *rng(2).integers(5, 1000, size=length - 2), SEP]
    wanted = min(most or length, max(1, int(round(length * 0.15))))
    for seed in range(5):
        _, labels = Masking(thousand, most=most)(ids, rng(seed))
        assert (labels != -100).sum() == wanted


@pytest.mark.parametrize("whole_words", [False, True])
def test_row_06_special_tokens_are_never_chosen(
    thousand, long_text, whole_words
):
    """transformers #11155, graykode/nlp-tutorial #40: padding is asked for."""
    masking, draw = Masking(thousand, whole_words=whole_words), rng()
    for ids in long_text[:200]:
        ids = np.where(np.arange(128) > 100, PAD, ids)
        ids[50] = MASK
        hidden, labels = masking(ids, draw)
        special = np.isin(ids, (PAD, CLS, SEP, MASK))
        assert (labels[special] == -100).all()
        np.testing.assert_array_equal(hidden[special], ids[special])


def test_row_06_nothing_to_ask_is_no_error(thousand):
    for whole_words in (False, True):
        masking = Masking(thousand, whole_words=whole_words)
        hidden, labels = masking([CLS, SEP, SEP], rng())
        assert hidden.tolist() == [CLS, SEP, SEP]
        assert (labels == -100).all()


def test_row_07_the_input_is_left_alone(thousand, long_text):
    """transformers PR #244: hiding in place destroys the labels."""
    ids = long_text[0].copy()
    hidden, labels = Masking(thousand, share=0.5)(ids, rng())
    np.testing.assert_array_equal(ids, long_text[0])
    asked = labels != -100
    np.testing.assert_array_equal(labels[asked], ids[asked])
    assert (hidden != ids).any()


def words_of(ids):
    """Group places by word, by walking along; the test's own way."""
    words, before = [], None
    for place, token in enumerate(ids):
        if token in (PAD, CLS, SEP, MASK):
            before = None
        elif before is not None and (token - 5) % 3:
            words[-1].append(place)
            before = place
        else:
            words.append([place])
            before = place
    return words


def test_row_08_a_word_is_chosen_whole_or_not_at_all(thousand, long_text):
    """transformers #9866, #12998: whole-word masking splits a word."""
    masking, draw = Masking(thousand, whole_words=True), rng()
    counts = []
    for ids in long_text:
        asked = masking(ids, draw)[1] != -100
        for word in words_of(ids):
            assert len(set(asked[word].tolist())) == 1
        counts.append(int(asked.sum()))
    assert max(counts) == masking.count(128) == 19
    assert np.mean(counts) > 18


def test_row_08_a_piece_behind_sep_is_not_of_the_word_before(thousand):
    ids = [CLS, 5, SEP, 6, SEP]  # w0 | ##w1
    for seed in range(20):
        labels = Masking(thousand, whole_words=True)(ids, rng(seed))[1]
        assert (labels != -100).sum() == 1


def test_whole_words_ask_for_the_shortest_where_none_fits(thousand):
    ids = [CLS, 5, 6, 7, SEP, 8, 9, SEP]  # three pieces, two pieces; k = 1
    for seed in range(20):
        labels = Masking(thousand, whole_words=True)(ids, rng(seed))[1]
        assert np.flatnonzero(labels != -100).tolist() == [5, 6]


# ----------------------------------------------------------------------- pairs


def test_row_25_label_1_is_another_document():
    """transformers #836, google-research/bert #125: the polarity."""
    pairs = list(make_pairs(marked(200), 23, rng(), 0.0))
    for pair in pairs:
        assert pair.is_random == (pair.a[0] // 100 != pair.b[0] // 100)
        if not pair.is_random:  # nothing is cut: 20 tokens, 5 sentences
            assert pair.b[0] - pair.a[-1] == 10 - 3
    assert 0.5 < np.mean([p.is_random for p in pairs]) < 0.75


def test_row_25_data_and_head_agree(tiny):
    """The label of the data is that of the model: 0 = B follows."""
    document = [["a b", "c d"], ["e f", "g h"]] * 4
    tokenizer = Words("abcdefgh")
    batch = next(PretrainingBatches(document, tokenizer, batch_size=64))
    label = batch["next_sentence_label"].numpy()
    ids, segments = (
        batch["input_ids"].numpy(),
        batch["token_type_ids"].numpy(),
    )
    labels = batch["labels"].numpy()
    whole = np.where(labels == -100, ids, labels)
    follows = [
        {"ab": "cd", "ef": "gh"}.get(first) == second
        for first, second in (
            tuple(
                "".join(
                    SPECIAL[i] if i < 5 else "abcdefgh"[i - 5] for i in part
                )
                for part in (row[1:3], row[4:6])
            )
            for row in whole
        )
    ]
    assert set(label) <= {0, 1} and segments.max() == 1
    # What follows may be met by chance, since the documents are equal.
    assert all(f for f, y in zip(follows, label, strict=True) if y == 0)
    model = BERTForPreTraining(
        tiny(vocab_size=13, max_position_embeddings=16)
    ).eval()
    bias = dict(model.named_parameters())["cls.seq_relationship.bias"]
    weight = dict(model.named_parameters())["cls.seq_relationship.weight"]
    weight.data[...] = 0
    bias.data = lucid.tensor([5.0, -5.0]).data  # sure that B follows
    losses = {
        y: model(
            batch["input_ids"],
            next_sentence_label=lucid.tensor(np.full(len(label), y)),
        ).nsp_loss.item()
        for y in (0, 1)
    }
    assert losses[0] < 0.01 < 9 < losses[1]


def test_every_sentence_begins_or_continues_a_run():
    """Unused sentences are put back: no token of a document is lost."""
    documents = marked(sentences=9)
    seen = {}
    for pair in make_pairs(documents, 23, rng(3), 0.0):
        own = pair.a if pair.is_random else pair.a + pair.b
        seen.setdefault(pair.a[0] // 100, []).extend(own)
    for number, document in enumerate(documents):
        assert seen[number] == [t for sentence in document for t in sentence]


def test_a_run_of_one_sentence_gets_a_random_b():
    pairs = list(make_pairs(marked(sentences=1), 23, rng(), 0.0))
    assert len(pairs) == 20 and all(p.is_random for p in pairs)
    assert all(p.a[0] // 100 != p.b[0] // 100 for p in pairs)


def test_a_random_b_is_about_as_long_as_the_rest():
    documents = marked(sentences=50, words=4)
    for pair in make_pairs(documents, 43, rng(), 0.0):
        total = len(pair.a) + len(pair.b)
        if pair.is_random and pair.b[-1] % 1000 < 400:
            assert total <= 40
        assert len(pair.a) % 4 == len(pair.b) % 4 == 0


def test_short_targets_come_as_often_as_asked():
    documents = marked(400, 9)
    first = {}
    for pair in make_pairs(documents, 43, rng(), 0.5):
        first.setdefault(pair.a[0] // 100, len(pair.a) + len(pair.b))
    short = np.mean([length < 28 for length in first.values()])
    assert 0.2 < short < 0.6
    none = list(make_pairs(documents, 3 + 36, rng(), 0.0))
    assert max(len(p.a) + len(p.b) for p in none) == 36


def test_truncation_takes_from_the_longer_and_from_both_ends():
    outcomes = Counter()
    draw = rng()
    for _ in range(4000):
        a, b = truncate_pair(list(range(8)), [90, 91, 92], 7, draw)
        assert b == [90, 91, 92]
        assert len(a) == 4 and a == list(range(a[0], a[0] + 4))
        outcomes[a[0]] += 1
    wanted = [math.comb(4, front) / 16 for front in range(5)]
    shares = [outcomes[front] / 4000 for front in range(5)]
    np.testing.assert_allclose(shares, wanted, atol=0.03)


@pytest.mark.parametrize(
    ("a", "b", "room", "left"),
    [
        (5, 5, 9, (5, 4)),
        (5, 5, 8, (4, 4)),
        (9, 2, 6, (4, 2)),
        (2, 9, 5, (2, 3)),
    ],
)
def test_truncation_lengths_are_googles(a, b, room, left):
    got = truncate_pair(list(range(a)), list(range(b)), room, rng())
    assert tuple(map(len, got)) == left


def test_truncation_leaves_the_document_alone():
    documents = marked()
    before = [[list(s) for s in d] for d in documents]
    list(make_pairs(documents, 9, rng()))
    assert documents == before


def test_pairs_need_a_second_document_and_room():
    with pytest.raises(
        ValueError, match="documents: .*two are needed; got 1"
    ):
        list(make_pairs(marked(1), 23, rng()))
    with pytest.raises(ValueError, match="max_length: .* from 5 on, got 4"):
        list(make_pairs(marked(), 4, rng()))
    assert list(make_pairs(marked(), 5, rng()))


# --------------------------------------------------------------------- batches


@pytest.fixture(scope="module")
def corpus():
    """37 documents of 1 to 12 sentences of 1 to 9 words."""
    draw = rng(7)
    return [
        [
            " ".join(
                f"w{3 * i}"
                for i in draw.integers(330, size=draw.integers(1, 10))
            )
            for _ in range(draw.integers(1, 13))
        ]
        for _ in range(37)
    ]


def batches_of(corpus, tokenizer, **options):
    settings = {"batch_size": 8, "max_length": 40, "buffer_size": 10}
    return PretrainingBatches(corpus, tokenizer, **(settings | options))


def one_epoch(batches):
    """The batches of the epoch that begins where ``batches`` are."""
    epoch, found = batches.epoch, []
    while True:
        batch = next(batches)
        if batches.epoch != epoch:
            return found
        found.append({name: t.numpy() for name, t in batch.items()})


def equal(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


def test_a_batch_has_forwards_arguments_and_nothing_else(
    corpus, thousand, tiny
):
    batches = batches_of(corpus, thousand)
    model = BERTForPreTraining(
        tiny(vocab_size=1000, max_position_embeddings=40)
    ).eval()
    for batch in itertools.islice(batches, 3):
        assert math.isfinite(model(**batch).loss.item())
        assert all(t.dtype == np.int64 for t in batch.values())


def test_what_a_batch_holds(corpus, thousand):
    for batch in one_epoch(batches_of(corpus, thousand)):
        ids, labels = batch["input_ids"], batch["labels"]
        mask, segments = batch["attention_mask"], batch["token_type_ids"]
        whole = np.where(labels == -100, ids, labels)
        lengths = mask.sum(1)
        assert ids.shape[1] % 8 == 0 and ids.shape[1] - lengths.max() < 8
        for row, length in enumerate(lengths):
            assert mask[row, :length].all() and not mask[row, length:].any()
            assert (whole[row, length:] == PAD).all()
            assert (labels[row, length:] == -100).all()
            assert not segments[row, length:].any()
            assert whole[row, 0] == CLS and whole[row, length - 1] == SEP
            (ends,) = np.nonzero(whole[row] == SEP)
            assert len(ends) == 2
            wanted = (np.arange(length) > ends[0]).astype(int)
            np.testing.assert_array_equal(segments[row, :length], wanted)
            asked = int((labels[row] != -100).sum())
            assert asked == max(1, round(0.15 * length))


def test_max_length_need_not_be_a_multiple(corpus, thousand):
    widths = {
        batch["input_ids"].shape[1]
        for batch in one_epoch(batches_of(corpus, thousand, max_length=35))
    }
    assert max(widths) == 35
    assert {width % 8 for width in widths - {35}} <= {0}


def test_batches_are_even_and_hold_sequences_of_like_length(
    corpus, thousand
):
    found = one_epoch(batches_of(corpus, thousand, buffer_size=100))
    sizes = [len(batch["input_ids"]) for batch in found]
    assert max(sizes) <= 8 and max(sizes) - min(sizes) <= 1
    spans = sorted(
        (
            batch["attention_mask"].sum(1).min(),
            batch["attention_mask"].sum(1).max(),
        )
        for batch in found
    )
    for (_, longest), (shortest, _) in itertools.pairwise(spans):
        assert longest <= shortest
    # ... but the batches do not come in that order.
    order = [int(batch["attention_mask"].sum(1).max()) for batch in found]
    assert order != sorted(order)


def test_same_seed_same_batches_other_seed_others(corpus, thousand):
    one, two = (one_epoch(batches_of(corpus, thousand)) for _ in range(2))
    other = one_epoch(batches_of(corpus, thousand, seed=1))
    assert len(one) == len(two) and all(map(equal, one, two))
    assert not any(map(equal, one, other))


def test_each_epoch_is_drawn_anew_unless_copies_are_asked_for(
    corpus, thousand
):
    batches = batches_of(corpus, thousand)
    epochs = []
    for epoch in range(3):
        batches.load_state_dict(
            {"seed": 0, "epoch": epoch, "block": 0, "batch": 0}
        )
        epochs.append(one_epoch(batches))
    assert not any(map(equal, epochs[0], epochs[1]))
    copied = batches_of(corpus, thousand, copies=2)
    for epoch, same in ((0, 0), (1, 1), (2, 0)):
        copied.load_state_dict(
            {"seed": 0, "epoch": epoch, "block": 0, "batch": 0}
        )
        found = one_epoch(copied)
        assert len(found) == len(epochs[same])
        assert all(map(equal, found, epochs[same]))


def test_a_place_can_be_taken_up_anywhere(corpus, thousand):
    batches = batches_of(corpus, thousand)
    places, found = [], []
    while batches.epoch < 2 or batches.batch < 2:
        places.append(batches.state_dict())
        found.append({n: t.numpy() for n, t in next(batches).items()})
    assert {place["block"] for place in places} == {0, 1, 2}
    for number, place in enumerate(places[:-3]):
        again = batches_of(corpus, thousand)
        again.load_state_dict(place)
        for wanted in found[number : number + 3]:
            batch = next(again)
            assert equal(wanted, {n: t.numpy() for n, t in batch.items()})


def test_padding_is_not_counted(thousand):
    """15 % of the real tokens, however long the row has been made."""
    masking = Masking(thousand)
    ids = [CLS, *range(5, 23), SEP]
    for padding in (0, 12, 100):
        _, labels = masking([*ids, *[PAD] * padding], rng())
        assert (labels != -100).sum() == 3


@pytest.mark.parametrize(
    "ids, named",
    [
        ([CLS, -1, SEP], "-1"),
        ([CLS, 1000, SEP], "1000"),
        ([CLS, 5.5, SEP], "float64"),
        ([[CLS, 5, SEP]], r"\(1, 3\)"),
    ],
)
def test_ids_that_cannot_be_masked(thousand, ids, named):
    with pytest.raises(ValueError, match=f"^ids: .*{named}"):
        Masking(thousand)(ids, rng())


def test_a_document_is_no_string(thousand):
    batches = PretrainingBatches(["w1 w2. w3 w4.", "w5"], thousand)
    with pytest.raises(TypeError, match="documents: .*'w1 w2"):
        next(batches)


@pytest.mark.parametrize("size", [2, 10])
def test_after_an_error_the_batches_go_on_where_they_were(size):
    """Neither half of a block is served, nor the block before, nor none."""

    class Failing(Words):
        left = 0

        def encode(self, text):
            if text == "b" and self.left:
                self.left -= 1
                raise OSError("once")
            return super().encode(text)

    documents = [["a", "a"], ["a"], ["a", "a"], ["b", "b"]]
    words = Failing(["a", "b"])
    how = dict(buffer_size=size, batch_size=1, max_length=8)
    smooth = PretrainingBatches(documents, words, **how)
    wanted = [next(smooth) for _ in range(12)]
    words.left, got = 3, []
    rough = PretrainingBatches(documents, words, **how)
    while len(got) < 12:
        try:
            got.append(next(rough))
        except OSError:
            pass
    assert words.left == 0
    for ours, theirs in zip(got, wanted, strict=True):
        for name, tensor in theirs.items():
            np.testing.assert_array_equal(ours[name].numpy(), tensor.numpy())


@pytest.mark.parametrize(
    "change, named",
    [
        (dict(batch_size=2.5), "batch_size.*2.5"),
        (dict(seed=-1), "seed.*-1"),
        (dict(short_share=float("nan")), "short_share.*nan"),
        (dict(short_share=1.5), "short_share.*1.5"),
    ],
)
def test_batches_of_numbers_that_make_no_sense(thousand, change, named):
    with pytest.raises(ValueError, match=named):
        PretrainingBatches([["w1"], ["w2"]], thousand, **change)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"block": None}, r"missing \['block'\]"),
        ({"step": 3}, r"unexpected \['step'\]"),
        ({"epoch": -1}, "epoch.*-1"),
        ({"batch": 0.5}, "batch.*0.5"),
    ],
)
def test_a_place_that_is_none_changes_nothing(thousand, change, named):
    batches = PretrainingBatches([["w1 w2"], ["w2"]], thousand)
    next(batches)
    before = batches.state_dict()
    state = {**before, "epoch": 7, **change}
    state = {k: v for k, v in state.items() if v is not None}
    with pytest.raises(ValueError, match=named):
        batches.load_state_dict(state)
    assert batches.state_dict() == before


def test_the_masks_are_not_drawn_with_the_numbers_of_the_pairs(
    corpus, thousand
):
    """A seed sequence takes [1, 2] and [1, 2, 0] for the same."""
    batches, numbers = batches_of(corpus, thousand), []
    original = batches._rng

    def noting(*place):
        numbers.append(original(*place).random())
        return original(*place)

    batches._rng = noting
    for _ in range(12):
        next(batches)
    assert len(set(numbers)) == len(numbers) > 12


def test_a_corpus_of_one_block_is_cut_into_pieces_once():
    words = Counting(f"w{i}" for i in range(995))
    batches = batches_of(Stream(8), words)
    while batches.epoch < 3:
        next(batches)
    assert words.calls == 32


def test_going_back_works_too(corpus, thousand):
    batches = batches_of(corpus, thousand)
    place = batches.state_dict()
    first = next(batches)["input_ids"].numpy()
    for _ in range(20):
        next(batches)
    batches.load_state_dict(place)
    np.testing.assert_array_equal(next(batches)["input_ids"].numpy(), first)


def test_a_place_of_another_seed_is_refused(corpus, thousand):
    place = batches_of(corpus, thousand).state_dict()
    with pytest.raises(ValueError, match="seed: .* of 5, .* of 0"):
        batches_of(corpus, thousand, seed=5).load_state_dict(place)


def test_every_document_is_read_in_every_epoch(corpus, thousand):
    """Whatever the block size, and none twice as the beginning of a text."""
    heads = {tuple(thousand.encode(d[0])[1:-1]) for d in corpus}
    for size in (2, 10, 36, 37, 1000):
        batches = batches_of(
            corpus, thousand, max_length=500, buffer_size=size, batch_size=4
        )
        seen = Counter()
        for batch in one_epoch(batches):
            ids, labels = batch["input_ids"], batch["labels"]
            for row in np.where(labels == -100, ids, labels):
                for head in heads:
                    seen[head] += tuple(row[1 : 1 + len(head)]) == head
        assert all(seen[head] for head in heads)


class Stream:
    """Documents made while they are read; notes how far it was read."""

    def __init__(self, count):
        self.count, self.read, self.begun = count, 0, 0

    def __iter__(self):
        self.begun += 1
        for number in range(self.count):
            self.read = number + 1
            yield [f"w{3 * (number % 300)} w0 w3"] * 4


class Counting(Words):
    calls = 0

    def encode(self, text):
        self.calls += 1
        return super().encode(text)


def test_the_corpus_is_a_stream(thousand):
    stream = Stream(10**9)
    batches = batches_of(stream, thousand, buffer_size=10)
    for _ in range(20):
        next(batches)
    assert stream.begun == 1 and stream.read < 200


def test_resuming_reads_past_what_was_done_without_cutting_it():
    words = Counting(f"w{i}" for i in range(995))
    batches = batches_of(Stream(1000), words, buffer_size=10)
    batches.load_state_dict({"seed": 0, "epoch": 0, "block": 50, "batch": 0})
    next(batches)
    assert words.calls <= 4 * 20


def test_short_and_empty_corpora(thousand):
    with pytest.raises(ValueError, match="documents: the corpus is empty"):
        next(batches_of([], thousand))
    with pytest.raises(
        ValueError, match="documents: .*two are needed; got 1"
    ):
        next(batches_of([["w0 w3"]], thousand))
    with pytest.raises(
        ValueError, match="documents: .*two are needed; got 1"
    ):
        next(batches_of([["w0 w3"], ["", " "], []], thousand))
    batch = next(batches_of([["w0"], ["w3"]], thousand))
    assert batch["next_sentence_label"].numpy().tolist() == [1, 1]


def test_a_generator_is_refused(thousand):
    with pytest.raises(
        TypeError, match="documents: a generator .* only once"
    ):
        batches_of((d for d in [["w0"], ["w3"]]), thousand)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("batch_size", True),
        ("max_length", 4),
        ("buffer_size", 1),
        ("multiple", 0),
        ("copies", 0),
        ("mask_share", 0),
        ("mask_share", 1.5),
        ("max_masked", 0),
    ],
)
def test_numbers_that_make_no_sense(corpus, thousand, name, value):
    wanted = "wanted an integer from . on|between 0 and 1"
    with pytest.raises(ValueError, match=f"({wanted}), got {value}"):
        batches_of(corpus, thousand, **{name: value})


# --------------------------------------------------------------------- corpora


def test_sentences_end_where_they_seem_to():
    text = """He said "no." Then (at 3.5 s) it ended!  So J. Doe left, e.g. by
    car. 2 stayed? Yes"""
    assert split_sentences(text) == [
        'He said "no."',
        "Then (at 3.5 s) it ended!",
        "So J. Doe left, e.g. by car.",
        "2 stayed?",
        "Yes",
    ]
    assert split_sentences("") == split_sentences(" \n ") == []
    assert split_sentences("one two") == ["one two"]


def test_splitting_loses_no_word():
    for document in pydoc_topics()[:20]:
        text = " ".join(document)
        assert " ".join(split_sentences(text)) == text


def test_pydoc_topics_are_documents_of_prose():
    documents = pydoc_topics()
    assert len(documents) > 40
    assert all(len(document) > 1 for document in documents)
    text = " ".join(s for document in documents for s in document)
    assert len(text) > 150_000
    assert ">>>" not in text and "::=" not in text and "\n" not in text
    assert documents == pydoc_topics()


def test_text_folder(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("A dog ran.\n", "utf-8")
    (tmp_path / "a.txt").write_text("A café.\nIt\nrains. \n\n\nOn", "utf-8")
    (tmp_path / "empty.txt").write_text("\n \n", "utf-8")
    (tmp_path / "c.md").write_text("Not this.", "utf-8")
    folder = text_folder(tmp_path)
    wanted = [["A café.", "It rains.", "On"], ["A dog ran."]]
    assert list(folder) == wanted == list(folder)
    assert repr(folder) == "TextFolder(3 files)"
    assert list(text_folder(tmp_path, "*.md")) == [["Not this."]]


def test_a_long_file_becomes_several_documents(tmp_path):
    lines = [f"Line {i} ends." for i in range(25)]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    found = list(text_folder(tmp_path, longest=10))
    assert [len(document) for document in found] == [10, 10, 5]
    assert [s for document in found for s in document] == lines


def test_a_file_without_end_is_read_in_pieces(tmp_path):
    with (tmp_path / "a.txt").open("w") as file:
        for number in range(40_000):
            file.write(f"Sentence number {number} ends here.\n")
    folder = iter(text_folder(tmp_path))
    import tracemalloc

    tracemalloc.start()
    first = next(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(first) == 200
    assert peak < 3_000_000


def test_folders_that_do_not_serve(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: .*nowhere is not a"):
        text_folder(tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"path: .* holds no \*\.txt"
    ):
        text_folder(tmp_path)
    (tmp_path / "a.txt").write_bytes("Größe".encode("latin-1"))
    with pytest.raises(ValueError, match=r"path: .*a\.txt is not UTF-8"):
        list(text_folder(tmp_path))


# --------------------------------------------------------------------- grammar


LITTLE = {
    "n": ["a/aa b/bb", "c/cc b/bb"],
    "v": ["x/xx", "y/xx"],
    "m": ["u v", "v"],
}


@pytest.fixture(scope="module")
def little():
    return Grammar(LITTLE, ["n1 v1", "m n2"])


def probability_of(grammar, sentence, topic):
    """Equation (pretraining-data-sentence), a place at a time."""
    total = 0.0
    for latent in range(grammar.chances.shape[1]):
        total += math.prod(
            grammar.chances[topic, latent, j, grammar.words.index(word)]
            for j, word in enumerate(sentence)
        )
    return total / grammar.chances.shape[1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_reader_equals_counting_everything(little, count):
    """Every text, every choice of places, everything that could be seen."""
    words = Words(little.words)
    size, reader = (
        len(words.vocab),
        IdealReader(little, words, 7, sentences=3),
    )
    share = reader.random_shares[1, 1]
    assert 0 < share < 1
    sentences = {
        s: [probability_of(little, s, z) for z in range(2)]
        for s in itertools.product(little.words, repeat=2)
    }
    sentences = {s: np.array(p) for s, p in sentences.items() if max(p) > 0}
    texts = []
    for (a, p), (b, q) in itertools.product(sentences.items(), repeat=2):
        chances = (1 - share) * (p * q).mean(), share * p.mean() * q.mean()
        texts.append(([words.vocab[w] for w in a + b], chances))
    draw = rng(count)
    for _ in range(4):
        true = texts[draw.integers(len(texts))][0]
        asked = np.sort(draw.permutation(4)[:count])
        seen = list(true)
        for t in asked:
            u = draw.random()
            seen[t] = (
                MASK
                if u < 0.5
                else true[t]
                if u < 0.7
                else draw.integers(size)
            )
        hidden = seen.count(MASK)
        if any(seen[t] == MASK for t in range(4) if t not in asked):
            continue
        # Count: all texts, all sets of asked places.
        answers, random, total = np.zeros((4, size)), 0.0, 0.0
        for text, chances in texts:
            for places in itertools.combinations(range(4), count):
                chance = 1.0
                for t in range(4):
                    o, w = seen[t], text[t]
                    if t in places:
                        chance *= (
                            0.8 * (o == MASK) + 0.1 * (o == w) + 0.1 / size
                        )
                    else:
                        chance *= o == w
                if chance:
                    total += chance * sum(chances)
                    random += chance * chances[1]
                    for t in places:
                        answers[t, text[t]] += chance * sum(chances)
        ids = np.array([CLS, *seen[:2], SEP, *seen[2:], SEP])
        segments = np.array([0, 0, 0, 0, 1, 1, 1])
        flags = np.zeros(7, bool)
        flags[[(1, 2, 4, 5)[t] for t in asked]] = True
        got, said = reader.read(ids, segments, flags)
        wanted = answers[asked] / answers[asked].sum(1, keepdims=True)
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)
        assert said == pytest.approx(random / total, rel=1e-10)
        assert hidden <= count


def test_drawn_sentences_follow_the_table(little):
    documents = little.documents(4000, sentences=2, seed=3)
    seen = Counter(tuple(s.split()) for d in documents for s in d)
    for sentence in itertools.product(little.words, repeat=2):
        wanted = np.mean(
            [probability_of(little, sentence, z) for z in range(2)]
        )
        assert abs(seen[sentence] / 8000 - wanted) < 0.02
    # One topic a document: `a` and `c` never meet.
    assert not any(
        "a" in " ".join(d).split() and "c" in " ".join(d).split()
        for d in documents
    )


def test_documents_are_deterministic_and_the_seed_decides():
    grammar = Grammar()
    assert grammar.documents(3, seed=1) == grammar.documents(3, seed=1)
    assert grammar.documents(3, seed=1) != grammar.documents(3, seed=2)
    assert [len(d) for d in grammar.documents(2, sentences=5)] == [5, 5]


def test_words_of_the_grammar_agree():
    grammar = Grammar()
    index = {w: i for i, w in enumerate(grammar.words)}
    singular = grammar.chances[:, :, :, index["cat"]] > 0
    plural = grammar.chances[:, :, :, index["cats"]] > 0
    assert singular.any() and plural.any()
    assert not (singular & plural).any()
    np.testing.assert_allclose(grammar.chances.sum(-1), 1)


def test_random_shares_are_those_of_the_pairs():
    shares = random_shares(7, 3)
    made = Counter(
        (int(p.is_random), len(p.a), len(p.b))
        for p in make_pairs([[[5]] * 7] * 3000, 6, rng(), 0.0)
    )
    for where in np.ndindex(shares.shape):
        assert abs(made[where] / 3000 - shares[where]) < 0.06


def test_the_floor_of_the_grammar_is_what_the_reader_expects():
    grammar = Grammar()
    words = Words(grammar.words)
    batches = PretrainingBatches(
        grammar.documents(60, seed=5), words, max_length=35, short_share=0.0
    )
    found = IdealReader(grammar, words, 35).evaluate(
        itertools.islice(batches, 8)
    )
    assert abs(found["mlm_loss"] - found["mlm_entropy"]) < 0.12
    assert 0.9 < found["mlm_loss"] < 1.3
    assert 0.8 < found["nsp_accuracy"] < 0.95
    assert 0.2 < found["nsp_loss"] < 0.45


def test_the_reader_refuses_what_it_cannot_read():
    grammar = Grammar()
    words = Words(grammar.words)
    for length in (34, 36, 11):
        with pytest.raises(ValueError, match=f"max_length: .*got {length}"):
            IdealReader(grammar, words, length)
    with pytest.raises(ValueError, match="tokenizer: has no entry 'cat'"):
        IdealReader(grammar, Words(["a"]), 35)
    with pytest.raises(ValueError, match="templates and lexicon"):
        Grammar(LITTLE, ["n1 v1", "n1"])
