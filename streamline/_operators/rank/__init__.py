"""Ranking: the first rows of an order, sorting, deduplication."""
