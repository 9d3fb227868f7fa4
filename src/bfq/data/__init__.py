"""Transitions: one type, where they come from, and what is done to them before learning."""

from bfq.data.dataset import Dataset, from_arrays
from bfq.data.sources import load_dataset

__all__ = ["Dataset", "from_arrays", "load_dataset"]
