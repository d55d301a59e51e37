"""Lucid beside its peers, in one run."""
