"""The multi-layer perceptron, with the three places where reference codes put their layer norm."""

from itertools import pairwise

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from bfq.nets.layers import ACTIVATIONS, Initialiser, LayerNorm, Linear, torch_uniform


class MLP(eqx.Module):
    """`depth` hidden layers of `width`, then a linear output.

    `norm` is "none", "before" (Linear, LayerNorm, activation: CleanDiffuser) or "after" (Linear,
    activation, LayerNorm: FQL, ReBRAC). `first_activation` is CleanDiffuser's Tanh in its critic.
    """

    hidden: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]
    output: Linear
    activations: tuple[str, ...] = eqx.field(static=True)
    norm: str = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        fan_in: int,
        fan_out: int,
        width: int,
        depth: int,
        activation: str,
        norm: str = "none",
        first_activation: str = "",
        initialise: Initialiser = torch_uniform,
        initialise_output: Initialiser | None = None,
        norm_epsilon: float = 1e-5,
    ):
        keys = jax.random.split(key, depth + 1)
        sizes = [fan_in] + [width] * depth
        self.hidden = tuple(
            Linear(k, i, o, initialise) for k, (i, o) in zip(keys[:-1], pairwise(sizes), strict=True)
        )
        self.norms = () if norm == "none" else tuple(LayerNorm(width, norm_epsilon) for _ in range(depth))
        self.output = Linear(keys[-1], sizes[-1], fan_out, initialise_output or initialise)
        self.activations = (first_activation or activation,) + (activation,) * (depth - 1)
        self.norm = norm

    def __call__(self, x: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
        """Maps the last axis."""
        for k, linear in enumerate(self.hidden):
            x = linear(x)
            x = self.norms[k](x) if self.norm == "before" else x
            x = ACTIVATIONS[self.activations[k]](x)
            x = self.norms[k](x) if self.norm == "after" else x
        return self.output(x)
