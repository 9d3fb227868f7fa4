"""Tasks: their cards, where their data comes from, and recipes that generate data in simulators."""
