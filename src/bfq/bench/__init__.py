"""Benchmarks: the time of an update, an action and an evaluation, and the limits of the device."""
