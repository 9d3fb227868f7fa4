"""What is in a dataset: numbers, coverage, and whether a simulator repeats its steps."""
