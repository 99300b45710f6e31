"""Generated records: a function of their number, at a rate."""

from __future__ import annotations

from streamline.connectors.datagen.source import DataGeneratorSource, NumberSequenceSource, RateLimiterStrategy

__all__ = ("DataGeneratorSource", "NumberSequenceSource", "RateLimiterStrategy")
