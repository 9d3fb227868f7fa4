"""Faster versions of the formulas in `bfq.nets.primitives`, above all kernels for NVIDIA GPUs.

They compute what the plain formulas compute, to rounding. `install` puts them in place; whether kernels run is
decided where a program is traced.
"""

from bfq.kernels import networks
from bfq.kernels.device import use
from bfq.kernels.elementwise import map_leaves
from bfq.nets.primitives import replace


def install() -> None:
    """Replace the plain formulas by what is fastest on this device."""
    replace(
        use_kernels=lambda plain: use().kernels,
        map_leaves=map_leaves,
        apply_layers=networks.apply_layers,
        block_linear=networks.inner,
        row_mean=networks.row_mean,
        mish=networks.mish,
    )
