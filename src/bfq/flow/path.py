"""The straight path between an action and noise: t = 0 is the action, t = 1 is noise."""

from jaxtyping import Array, Float


def noisy_action(
    action: Float[Array, "*b a"], noise: Float[Array, "*b a"], t: Float[Array, "*b"]
) -> Float[Array, "*b a"]:
    """a_t = (1 − t) a + t ε."""
    return (1.0 - t[..., None]) * action + t[..., None] * noise


def conditional_velocity(
    action: Float[Array, "*b a"], noise: Float[Array, "*b a"]
) -> Float[Array, "*b a"]:
    """v_cond = ε − a, the path's velocity given its two ends."""
    return noise - action
