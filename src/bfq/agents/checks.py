"""What cannot be, among the hyperparameters that agents call by the same names."""

from typing import Any

from bfq.agents import fractions, learning, one_of, values
from bfq.errors import BadInput
from bfq.nets.critic import KINDS as CRITIC_KINDS
from bfq.nets.velocity import ARCHITECTURES

WORDS: dict[str, Any] = {
    "schedule": learning.SCHEDULES,
    "critic_schedule": learning.SCHEDULES,
    "aggregation": values.AGGREGATIONS,
    "guidance": values.GUIDANCES,
    "backup_best": values.BACKUPS,
    "critic": CRITIC_KINDS,
}
SHARES = ("discount", "expectile", "critic_target_rate", "policy_target_rate")


def check_common(config: Any) -> None:
    """Refuses words that are no choice, and shares, rates and discounts beyond 1."""
    fractions(config, *(name for name in SHARES if hasattr(config, name)))
    for name, choices in WORDS.items():
        if hasattr(config, name):
            one_of(name, getattr(config, name), choices)


def check_velocity(config: Any) -> None:
    """Refuses a network for the velocity that there is not, or that has no pairs of sines and cosines."""
    one_of("architecture", config.architecture, ARCHITECTURES)
    if config.architecture == "residual" and config.width % 2:
        raise BadInput(
            "the residual architecture needs an even width, for pairs of sines and cosines."
        )


def check_times(config: Any, field: str) -> None:
    """Refuses fewer times than the noise schedule can have.

    The cosine begins next to the action, so that from one time alone no step would lead there.
    """
    times = getattr(config, field)
    if config.noise_schedule == "cosine" and times < 2:
        raise BadInput(f"{field} must be at least 2 with the cosine schedule.")
    if config.noise_schedule == "linear" and times <= 20:
        raise BadInput(f"the linear noise schedule needs more than 20 {field}: its β ends at 20/T.")
