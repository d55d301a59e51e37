"""Lucid beside its peers, in one run."""

from pathlib import Path

RESULTS = Path(__file__).with_name("results.json")
