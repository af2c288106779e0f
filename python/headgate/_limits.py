"""What tasks share so that not too many run: at once (`ConcurrencyLimit`), and in a time (`Rate`)."""

from headgate._concurrency_limit import ConcurrencyLimit, ConcurrencyStatistics
from headgate._rate import Rate, RateStatistics

__all__ = ["ConcurrencyLimit", "ConcurrencyStatistics", "Rate", "RateStatistics"]
