"""Models that read text."""
