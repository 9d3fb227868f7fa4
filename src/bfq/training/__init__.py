"""The training loop: one compiled program for a population, with its checkpoints.

Importing it installs the fast formulas of this device, for training and for acting alike.
"""

from bfq import kernels

kernels.install()
