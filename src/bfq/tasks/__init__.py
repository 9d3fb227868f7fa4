"""Tasks: cards, sources of data, and recipes that generate data in simulators."""
