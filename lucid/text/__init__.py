# Tangled from chapters/wordpiece.ipynb; edit that, not this file.
"""Text to ids and back: WordPiece, by the optional package `tokenizers`."""

from __future__ import annotations

from lucid.text.wordpiece import WordPieceTokenizer

__all__ = ["WordPieceTokenizer"]
