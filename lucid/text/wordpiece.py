# Tangled from chapters/wordpiece.ipynb; edit that, not this file.
"""WordPiece: text to ids and back, by the package `tokenizers`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lucid.autograd import Tensor, tensor
from lucid.models.checkpoint import as_json, as_text, read_json, write_files

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET = 1000  # characters kept at most, as in the library


def _library() -> ModuleType:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "WordPiece needs the package tokenizers, which the extra `text` "
            "brings: pip install 'lucid-bert[text]'"
        ) from error
    return tokenizers


def _rules(lowercase: bool, strip_accents: bool | None) -> tuple[Any, Any]:
    library = _library()
    cleaning = library.normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents
    )
    return cleaning, library.pre_tokenizers.BertPreTokenizer()


def _learn(words: Counter[str], vocab_size: int) -> list[str]:
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    kept = set(sorted(letters, key=lambda c: (-letters[c], c))[:ALPHABET])
    words = Counter({w: n for w, n in words.items() if kept.issuperset(w)})
    inner = sorted({"##" + letter for word in words for letter in word[1:]})
    # Numbered first, so that the library's hash table decides nothing.
    first = [*SPECIAL_TOKENS, *inner]
    least = len(first) + len({letter for word in words for letter in word})
    if not words:
        raise ValueError("texts: there is no word in them")
    if vocab_size < least:
        raise ValueError(
            f"vocab_size: {vocab_size} is too small; the special tokens and "
            f"the characters alone need {least}"
        )
    library = _library()
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=first, show_progress=False
    )
    empty = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    repeated = (w for w, n in sorted(words.items()) for _ in range(n))
    empty.train_from_iterator(repeated, trainer)
    ids = empty.get_vocab()
    return sorted(ids, key=ids.get)


class WordPieceTokenizer:
    """Cut text into pieces of a vocabulary, as BERT does.

    Parameters
    ----------
    vocab : iterable of str, or mapping of str to int
        The pieces in the order of their ids, or with their ids. Contains
        ``[PAD]``, ``[UNK]``, ``[CLS]``, ``[SEP]`` and ``[MASK]``.
    lowercase : bool
        Whether letters become lower case.
    strip_accents : bool, optional
        Whether accents go. If not given, they go with ``lowercase``.

    Attributes
    ----------
    vocab : dict of str to int
        The pieces and their ids.

    Raises
    ------
    ImportError
        If the package ``tokenizers`` is not installed.
    ValueError
        If a special token is missing, or ids are not 0, 1, 2 and so on.

    Notes
    -----
    Derived in :doc:`/chapters/wordpiece`; a word is cut by equation
    (wordpiece-longest).

    Examples
    --------
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    ...           "the", "cat", "sat", "##s"]
    >>> tokenizer = WordPieceTokenizer(pieces)
    >>> tokenizer.tokenize("The cats sat")
    ['the', 'cat', '##s', 'sat']
    >>> tokenizer.encode("the cat", "sat")
    [2, 5, 6, 3, 7, 3]
    >>> tokenizer.decode([2, 5, 6, 8, 3])
    'the cats'
    """

    def __init__(
        self,
        vocab: Iterable[str] | Mapping[str, int],
        lowercase: bool = True,
        strip_accents: bool | None = None,
    ) -> None:
        library = _library()
        if isinstance(vocab, str):
            raise TypeError("vocab: wanted a list of pieces, got one str")
        if isinstance(vocab, Mapping):
            self.vocab = dict(vocab)
            count = len(self.vocab)
        else:
            listed = list(vocab)
            self.vocab = {piece: i for i, piece in enumerate(listed)}
            count = len(listed)
        if lacking := [t for t in SPECIAL_TOKENS if t not in self.vocab]:
            raise ValueError(f"vocab: {', '.join(lacking)} is missing")
        if sorted(self.vocab.values()) != list(range(count)):
            raise ValueError(
                f"vocab: each id from 0 to {count - 1} is wanted just once; "
                "is a piece listed twice?"
            )
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        tool = library.Tokenizer(
            library.models.WordPiece(
                self.vocab, unk_token="[UNK]", max_input_chars_per_word=100
            )
        )
        cleaning, splitting = _rules(lowercase, strip_accents)
        tool.normalizer, tool.pre_tokenizer = cleaning, splitting
        tool.post_processor = library.processors.BertProcessing(
            ("[SEP]", self.sep_token_id), ("[CLS]", self.cls_token_id)
        )
        tool.decoder = library.decoders.WordPiece(prefix="##")
        tool.add_special_tokens(list(SPECIAL_TOKENS))
        self._tool = tool

    def __repr__(self) -> str:
        """Name the size and the switches."""
        return (
            f"WordPieceTokenizer({self.vocab_size} pieces, "
            f"lowercase={self.lowercase}, "
            f"strip_accents={self.strip_accents})"
        )

    @property
    def vocab_size(self) -> int:
        """Number of entries, V."""
        return len(self.vocab)

    @property
    def pad_token_id(self) -> int:
        """Id of ``[PAD]``, which fills a batch up."""
        return self.vocab["[PAD]"]

    @property
    def unk_token_id(self) -> int:
        """Id of ``[UNK]``, which stands for a word that cannot be cut."""
        return self.vocab["[UNK]"]

    @property
    def cls_token_id(self) -> int:
        """Id of ``[CLS]``, which begins a sequence."""
        return self.vocab["[CLS]"]

    @property
    def sep_token_id(self) -> int:
        """Id of ``[SEP]``, which ends each text."""
        return self.vocab["[SEP]"]

    @property
    def mask_token_id(self) -> int:
        """Id of ``[MASK]``, which hides a word."""
        return self.vocab["[MASK]"]

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of a text, without ``[CLS]`` and ``[SEP]``."""
        return self._tool.encode(text, add_special_tokens=False).tokens

    def _pieces(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(f"text: wanted a str, got {type(text).__name__}")
        return self._tool.encode(text, add_special_tokens=False).ids

    def _parts(
        self, text: str, pair: str | None, max_length: int | None
    ) -> tuple[list[int], list[int]]:
        """Return ``[CLS] text [SEP]`` and ``pair [SEP]``, or nothing.

        The library could cut, too, but by a setting that all threads share.
        """
        least = 2 if pair is None else 3
        if max_length is not None and max_length < least:
            raise ValueError(
                f"max_length: {max_length} leaves no room for [CLS] and "
                f"[SEP]; at least {least} is wanted"
            )
        a = self._pieces(text)
        b = [] if pair is None else self._pieces(pair)
        if max_length is not None:
            left = _lengths(len(a), len(b), max_length - least)
            a, b = a[: left[0]], b[: left[1]]
        end = self.sep_token_id
        first = [self.cls_token_id, *a, end]
        return first, [] if pair is None else [*b, end]

    def encode(
        self,
        text: str,
        pair: str | None = None,
        max_length: int | None = None,
    ) -> list[int]:
        """Return the ids of ``[CLS] text [SEP]``, then those of a pair.

        A second text follows with its own ``[SEP]``. Where all that is
        longer than ``max_length``, the longer text loses tokens from its
        end, one by one.
        """
        first, second = self._parts(text, pair, max_length)
        return first + second

    def decode(self, ids: Any) -> str:
        """Return the text of a list, an array or a tensor of ids.

        Special tokens are left out, and pieces joined. What cleaning took
        away, case and the exact spaces, does not come back.
        """
        if isinstance(ids, Tensor):
            ids = ids.numpy()
        return self._tool.decode([int(i) for i in ids])

    def __call__(
        self,
        texts: str | Iterable[str],
        pairs: str | Iterable[str] | None = None,
        max_length: int | None = None,
        padding: bool = True,
    ) -> dict[str, Tensor]:
        """Return a batch: what the models' ``forward`` takes.

        Parameters
        ----------
        texts : str or iterable of str
            One text, or B of them.
        pairs : str or iterable of str, optional
            As many second texts.
        max_length : int, optional
            Where to cut.
        padding : bool
            Fill short sequences up with ``[PAD]``. Without it, all have to
            have one length.

        Returns
        -------
        dict
            ``input_ids``, ``attention_mask`` and ``token_type_ids``, tensors
            of int64 and shape (B, T).

        Raises
        ------
        ValueError
            If there are no texts, not as many pairs as texts, or sequences
            of several lengths without ``padding``.
        """
        first = [texts] if isinstance(texts, str) else list(texts)
        second: list[str | None] = [None] * len(first)
        if pairs is not None:
            second = [pairs] if isinstance(pairs, str) else list(pairs)
        if not first:
            raise ValueError("texts: there is none")
        if len(first) != len(second):
            raise ValueError(
                f"pairs: {len(first)} are wanted, one for each text; got "
                f"{len(second)}"
            )
        found = [
            self._parts(a, b, max_length)
            for a, b in zip(first, second, strict=True)
        ]
        lengths = {len(a) + len(b) for a, b in found}
        if len(lengths) > 1 and not padding:
            raise ValueError(
                f"padding: without it all sequences need one length; these "
                f"have {min(lengths)} to {max(lengths)} tokens"
            )
        shape = (len(found), max(lengths))
        batch = {
            "input_ids": np.full(shape, self.pad_token_id, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for row, (a, b) in enumerate(found):
            filled = len(a) + len(b)
            batch["input_ids"][row, :filled] = a + b
            batch["attention_mask"][row, :filled] = 1
            batch["token_type_ids"][row, len(a) : filled] = 1
        return {name: tensor(values) for name, values in batch.items()}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        lowercase: bool = True,
        strip_accents: bool | None = None,
    ) -> WordPieceTokenizer:
        """Learn a vocabulary from texts, equation (wordpiece-merge).

        The texts are read once, and only their words are kept. The same
        texts give the same vocabulary.

        Parameters
        ----------
        texts : iterable of str
        vocab_size : int
            Number of entries, special tokens and characters included. Fewer
            come out if the texts hold no more.
        lowercase, strip_accents : bool
            As for the class.

        Raises
        ------
        TypeError
            If ``texts`` is a single string.
        ValueError
            If there is no word in them, or ``vocab_size`` does not even
            hold the characters.
        """
        if isinstance(texts, str):
            raise TypeError("texts: wanted several texts, got one str")
        cleaning, splitting = _rules(lowercase, strip_accents)
        words: Counter[str] = Counter()
        for text in texts:
            clean = cleaning.normalize_str(text)
            words.update(w for w, _ in splitting.pre_tokenize_str(clean))
        return cls(_learn(words, vocab_size), lowercase, strip_accents)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the vocabulary and the switches into a folder.

        The files are ``vocab.txt``, the library's ``tokenizer.json`` and
        ``tokenizer_config.json``, as Hugging Face reads them.

        Raises
        ------
        OSError
            If one cannot be written. The folder's own files are as they
            were then.
        """
        pieces = sorted(self.vocab, key=self.vocab.__getitem__)
        switches = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": self.strip_accents,
        }
        files = {
            "vocab.txt": as_text("".join(f"{p}\n" for p in pieces)),
            "tokenizer.json": as_text(self._tool.to_str(pretty=True)),
            "tokenizer_config.json": as_json(switches),
        }
        write_files(folder, files)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
    ) -> WordPieceTokenizer:
        """Read ``tokenizer.json``, or ``vocab.txt`` where there is none.

        Parameters
        ----------
        folder : path
        lowercase, strip_accents : bool, optional
            Instead of what the folder says. Beside a ``vocab.txt`` that is
            in ``tokenizer_config.json``; without one, lower case is meant.

        Raises
        ------
        FileNotFoundError
            If the folder has neither file.
        OSError
            If a file cannot be read.
        ValueError
            If a file is damaged, or describes another kind of tokenizer.
        """
        folder = Path(folder)
        vocab: Iterable[str] | Mapping[str, int]
        if (folder / "tokenizer.json").exists():
            vocab, noted = _from_json(folder / "tokenizer.json")
        elif (folder / "vocab.txt").exists():
            vocab, noted = _from_list(folder / "vocab.txt")
        else:
            raise FileNotFoundError(
                f"folder: {folder} holds neither tokenizer.json nor "
                "vocab.txt"
            )
        if lowercase is None:
            lowercase = bool(noted.get("lowercase", True))
        if strip_accents is None:
            strip_accents = noted.get("strip_accents")
        return cls(vocab, lowercase, strip_accents)


def _lengths(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts is kept where both have to share a room."""
    short, long = sorted((first, second))
    long = min(long, max(short, room - short))
    if short + long > room:
        short, long = room // 2, room - room // 2
    return (short, long) if first <= second else (long, short)


def _from_json(path: Path) -> tuple[dict[str, int], dict[str, Any]]:
    stored = read_json(path)
    model: dict[str, Any] = stored.get("model") or {}
    cleaning: dict[str, Any] = stored.get("normalizer") or {}
    vocab: Any = model.get("vocab")
    for what, got, wanted in (
        ("model", model.get("type", "WordPiece"), "WordPiece"),
        ("prefix", model.get("continuing_subword_prefix", "##"), "##"),
        ("normalizer", cleaning.get("type"), "BertNormalizer"),
        ("vocab", type(vocab).__name__, "dict"),
    ):
        if got != wanted:
            raise ValueError(
                f"{path}: its {what} is {got}; BERT's is {wanted}"
            )
    added = {t["content"] for t in stored.get("added_tokens") or []}
    if beyond := sorted(added - set(vocab)):
        raise ValueError(
            f"{path}: {', '.join(beyond)} is added beyond the vocabulary, "
            "which is not supported"
        )
    return vocab, cleaning


def _from_list(path: Path) -> tuple[list[str], dict[str, Any]]:
    pieces = path.read_text(encoding="utf-8").split("\n")
    while pieces and not pieces[-1].strip():
        pieces.pop()
    config = path.with_name("tokenizer_config.json")
    noted = read_json(config) if config.exists() else {}
    return [piece.rstrip("\r") for piece in pieces], {
        "lowercase": noted.get("do_lower_case", True),
        "strip_accents": noted.get("strip_accents"),
    }
