"""Kernels for NVIDIA GPUs: many small pieces of an update in one launch, with activations kept on the chip.

They compute what the plain formulas compute, to rounding; where there is no such GPU the plain formulas run.
"""
