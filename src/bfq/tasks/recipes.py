"""Which datasets can be made here, and from what."""

from collections.abc import Callable, Mapping
from importlib import import_module

from bfq.errors import unknown
from bfq.tasks import locomotion
from bfq.tasks.catalog import MADE_OGBENCH
from bfq.tasks.harness import Recipe

Cook = Callable[[str, int | None, int], Recipe]  # name, size, seed

COOKS: Mapping[str, str] = {
    **dict.fromkeys(locomotion.NAMES, "locomotion"),
    **dict.fromkeys(
        (f"local/antmaze-{m}-{k}" for m in ("medium", "large") for k in ("play", "diverse")),
        "antmaze",
    ),
    **{f"local/{row[0]}": row[0].rpartition("-")[2] for row in MADE_OGBENCH},  # play or navigate
}


def recipe_for(name: str, size: int | None = None, seed: int = 0) -> Recipe:
    """The recipe of a dataset that can be made here; `size` is the number of transitions."""
    if name not in COOKS:
        raise unknown("dataset to make", name, COOKS)
    # Only now, since some need MuJoCo or OGBench.
    cook: Cook = import_module(f"bfq.tasks.{COOKS[name]}").recipe
    return cook(name, size, seed)
