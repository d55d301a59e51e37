# Tangled from chapters/how-to-read.ipynb; edit that, not this file.
"""Models that read text."""

from __future__ import annotations

from lucid.models.text import bert

__all__ = ["bert"]
