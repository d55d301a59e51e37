# Tangled from chapters/pretraining-data.ipynb; edit that, not this file.
"""Corpora: sources of documents, each a list of sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from lucid.checks import check_integer

_END = re.compile(r"""[.!?]["')\]]*(?=\s+["'(\[]*[A-Z0-9])""")
_SHORT = {"e.g", "i.e", "cf", "vs", "Mr", "Mrs", "Ms", "Dr", "St", "No"}


def split_sentences(text: str) -> list[str]:
    """Cut text into sentences, by a rule of thumb.

    Parameters
    ----------
    text : str
        Line breaks count as spaces.

    Returns
    -------
    list of str

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.

    Examples
    --------
    >>> split_sentences("Dr. No sat. The cat (so J. Doe) purred. And left")
    ['Dr. No sat.', 'The cat (so J. Doe) purred.', 'And left']
    """
    text = " ".join(text.split())
    sentences, start = [], 0
    for end in _END.finditer(text):
        before = text[start : end.start()].rpartition(" ")[2].lstrip("([\"'")
        stop = text[end.start()] == "."
        if stop and (before in _SHORT or re.fullmatch("[A-Z]", before)):
            continue
        sentences.append(text[start : end.end()])
        start = end.end() + 1
    rest = text[start:].strip()
    return sentences + [rest] if rest else sentences


def _is_prose(paragraph: str) -> bool:
    lines = paragraph.split("\n")
    if any(re.fullmatch(r"\s*([*=~^\"+-])\1{2,}\s*", x) for x in lines):
        return False  # a heading and the line under it
    text = " ".join(paragraph.split())
    if "::=" in text or ">>>" in text or len(text.split()) < 5:
        return False
    plain = sum(c.isalpha() or c in " ,.'’" for c in text)
    return text[-1] in '.:!?)”"' and plain > 0.85 * len(text)


def pydoc_topics() -> list[list[str]]:
    """Return the prose of Python's own manual pages, as documents.

    The pages come with CPython, so the text depends on its version. Code,
    grammar rules and headings are left out, and a paragraph that stands in
    several pages is kept in the first.

    Returns
    -------
    list of list of str
        Documents of at least two sentences.

    Raises
    ------
    ImportError
        If this Python has come without ``pydoc_data``.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ImportError(
            "pydoc_topics: this Python has no pydoc_data; take another text "
            "by text_folder"
        ) from error
    seen: set[str] = set()
    documents = []
    for page in topics.values():
        document: list[str] = []
        for paragraph in re.split(r"\n\s*\n", page):
            text = " ".join(paragraph.split())
            if text and text not in seen and _is_prose(paragraph):
                seen.add(text)
                document += split_sentences(text)
        if len(document) > 1:
            documents.append(document)
    return documents


class TextFolder:
    """The text files in a folder, as documents, read when they are needed.

    Parameters
    ----------
    path : path
        A folder; the folders in it are searched, too.
    pattern : str
        Which files to take.
    longest : int
        Sentences of a document at most; a longer file becomes several.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or no such file in it.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`. Each iteration begins anew,
    in the order of the files' names.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        pattern: str = "*.txt",
        longest: int = 200,
    ) -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"path: {folder} is not a folder")
        self.files = sorted(p for p in folder.rglob(pattern) if p.is_file())
        if not self.files:
            raise FileNotFoundError(f"path: {folder} holds no {pattern}")
        self.longest = check_integer("longest", longest, least=2)

    def __repr__(self) -> str:
        """Name the number of files."""
        return f"TextFolder({len(self.files)} files)"

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the documents.

        Raises
        ------
        ValueError
            If a file is not text in UTF-8; the message names it.
        """
        for path in self.files:
            document: list[str] = []
            for paragraph in _paragraphs(path):
                document += split_sentences(paragraph)
                while len(document) >= self.longest:
                    yield document[: self.longest]
                    document = document[self.longest :]
            if document:
                yield document


def _paragraphs(path: Path) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                size += len(line)
                if not line.strip() or size > 100_000:  # or no end in sight
                    yield " ".join([*lines, line])
                    lines, size = [], 0
                else:
                    lines.append(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"path: {path} is not UTF-8 ({error})") from error
    yield " ".join(lines)


def text_folder(
    path: str | os.PathLike[str],
    pattern: str = "*.txt",
    longest: int = 200,
) -> TextFolder:
    """Return the text files in a folder as documents: see `TextFolder`.

    Notes
    -----
    Built in :doc:`/chapters/pretraining-data`.
    """
    return TextFolder(path, pattern, longest)
