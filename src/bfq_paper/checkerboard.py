"""The checkerboard: eight filled squares in the plane, on which generative methods are trained and compared.

All methods share the network, the data and the budget. Seeds are trained together, one compiled call per epoch.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray
from matplotlib.axes import Axes

from bfq import versions
from bfq.agents.learning import Learner, Step, descend, learner, learning_rate
from bfq.flow.maps import Velocity
from bfq.nets.velocity import RawTimeVelocity
from bfq.progress import reporting
from bfq.reports.drawing import INK, QUIET, as_png, panel_figure
from bfq.training.compilation import enable_compilation_cache
from bfq_paper.toy_methods import METHODS, PAPER_METHODS, Loss, Settings

STD = 4.0 / 3.0**0.5  # of each coordinate, uniform on [−4, 4]
SQUARES = 8
BLOCK = 512  # rows of the distance matrix in memory: 512 × 10,000 numbers are 20 MB
DIRECTIONS = 256
ARCHITECTURE = "raw_time"  # the paper's 3 × 64 MLP on the point and its times
COLORS = {"truth": "#111111", "generated": "#0072B2"}
FRAME = "#D5DADF"
PANEL, BETWEEN = 1.88, 0.12  # inches
MOST = 8  # panels in a row

Progress = Callable[[int, Mapping[str, float]], None]


def sample_board(key: PRNGKeyArray, count: int) -> Float[Array, "n 2"]:
    """Points on the filled 2×2 squares of [−4, 4]², divided by their standard deviation.

    x₁ = 4u − 2, x₂ = u′ − 2b + (⌊x₁⌋ mod 2) with b ∈ {0, 1}, then both doubled.
    """
    u = jax.random.uniform(key, (3, count))
    x1 = 4.0 * u[0] - 2.0
    x2 = u[1] - 2.0 * (u[2] < 0.5) + jnp.floor(x1) % 2
    return 2.0 * jnp.stack([x1, x2], axis=-1) / STD


def squares(points: Float[Array, "n 2"]) -> Int[Array, "n 2"]:
    """Column and row of the square of each point, 0 to 3 inside the board."""
    return jnp.floor(points * STD / 2.0).astype(jnp.int32) + 2


def on_filled(points: Float[Array, "n 2"]) -> Bool[Array, " n"]:
    """Whether each point lies on a filled square; half of a uniform sample does."""
    column, row = squares(points).T
    inside = (column >= 0) & (column < 4) & (row >= 0) & (row < 4)
    return inside & ((column + row) % 2 == 0)


@jax.jit
def mean_distance(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, ""]:
    """E‖X − Y‖ over all pairs, a block of rows at a time."""
    columns = y.T  # the long axis last: a sum over a last axis of 2 is fifteen times slower

    def row(point: Float[Array, " d"]) -> Float[Array, ""]:
        return jnp.sqrt(jnp.square(point[:, None] - columns).sum(0)).mean()

    return jax.lax.map(row, x, batch_size=BLOCK).mean()


def energy_distance(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> float:
    """2 E‖X − Y‖ − E‖X − X′‖ − E‖Y − Y′‖, unbiased: no point is paired with itself.

    It is 0 for equal distributions, where an estimate may be slightly negative.
    """
    n, m = len(x), len(y)
    within = mean_distance(x, x) * n / (n - 1) + mean_distance(y, y) * m / (m - 1)
    return float(2.0 * mean_distance(x, y) - within)


def sliced_wasserstein2(
    x: Float[Array, "n d"], y: Float[Array, "n d"], key: PRNGKeyArray, directions: int = DIRECTIONS
) -> float:
    """(E_u W₂²(⟨u, X⟩, ⟨u, Y⟩))^½ over random unit vectors u; on a line W₂ pairs the sorted points."""
    u = jax.random.normal(key, (directions, x.shape[-1]))
    u = u / jnp.linalg.norm(u, axis=-1, keepdims=True)
    # NumPy sorts twenty times faster than XLA on a CPU.
    gaps = np.sort(np.asarray(u @ x.T)) - np.sort(np.asarray(u @ y.T))
    return float(np.sqrt(np.square(gaps).mean()))


def squares_covered(samples: Float[Array, "n 2"]) -> int:
    """How many of the 8 filled squares hold at least a quarter of their share of 1/8."""
    column, row = np.asarray(squares(samples)).T
    found = np.bincount((4 * column + row)[np.asarray(on_filled(samples))])
    return int((found >= 0.25 * len(samples) / SQUARES).sum())


def compare_clouds(
    samples: Float[Array, "n 2"], truth: Float[Array, "n 2"], key: PRNGKeyArray
) -> dict[str, float]:
    """Distances between samples and as many points of the board."""
    return {
        "energy_distance": energy_distance(samples, truth),
        "sliced_wasserstein2": sliced_wasserstein2(samples, truth, key),
        "share_on_filled": float(on_filled(samples).mean()),
        "squares_covered": squares_covered(samples),
    }


class Clouds(NamedTuple):
    """Points of the board and samples of each method; seeds along the first axis."""

    truth: Float[Array, "s n 2"]
    samples: dict[str, dict[int, Float[Array, "s n 2"]]]  # by method and network calls
    train_seconds: dict[str, float]


def stream(seed_keys: Key[Array, " s"], purpose: int) -> Key[Array, " s"]:
    """The random keys of each seed for one purpose: 0 network, 1 updates, 2 samples."""
    return jax.vmap(lambda key: jax.random.fold_in(key, purpose))(seed_keys)


def create_network(key: PRNGKeyArray, settings: Settings) -> Learner:
    """A random network on (a_t, t, r), the same for all methods."""
    width, depth, activation = settings.width, settings.depth, settings.activation
    return learner(RawTimeVelocity(key, 0, 2, width, depth, activation=activation))


def toy_update(
    state: Learner, key: PRNGKeyArray, step: Step, loss: Loss, settings: Settings
) -> tuple[Learner, Float[Array, ""]]:
    """One Adam step on fresh points, which depend on the seed and the step alone."""
    data_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
    points = sample_board(data_key, settings.batch_size)
    total = settings.epochs * settings.batches
    rate = learning_rate(settings.learning_rate, settings.schedule, step, total)
    state, value, _ = descend(
        state, lambda net: (loss(net, points, loss_key, step, settings), None), rate
    )
    return state, value


def train_method(
    loss: Loss, seed_keys: Key[Array, " s"], settings: Settings, progress: Progress
) -> tuple[Velocity, float]:
    """Trained networks with a seed axis on every leaf, and the seconds including compilation."""
    began = time.monotonic()
    states = jax.jit(jax.vmap(partial(create_network, settings=settings)))(stream(seed_keys, 0))
    update_keys = stream(seed_keys, 1)
    every_seed = jax.vmap(partial(toy_update, loss=loss, settings=settings), in_axes=(0, 0, None))

    @partial(jax.jit, donate_argnums=0)
    def epoch(states: Learner, first: Step) -> tuple[Learner, Float[Array, "b s"]]:
        steps = first + jnp.arange(settings.batches)
        return jax.lax.scan(lambda carry, step: every_seed(carry, update_keys, step), states, steps)

    for done in range(0, settings.epochs * settings.batches, settings.batches):
        states, losses = epoch(states, jnp.int32(done))
        progress(done + settings.batches, {"loss": float(losses.mean())})
    return states.params, time.monotonic() - began


@partial(jax.jit, static_argnums=2)
def sample_clouds(
    nets: dict[str, Velocity], seed_keys: Key[Array, " s"], settings: Settings
) -> tuple[Float[Array, "s n 2"], dict[str, dict[int, Float[Array, "s n 2"]]]]:
    """Points of the board, and of every method from the same noise, for each seed."""

    def one(
        nets: dict[str, Velocity], key: PRNGKeyArray
    ) -> tuple[Array, dict[str, dict[int, Array]]]:
        noise_key, truth_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (settings.samples, 2))
        clouds = {
            name: {k: METHODS[name].sample(net, noise, jax.random.fold_in(key, k), k, settings)
                   for k in METHODS[name].steps}
            for name, net in nets.items()
        }  # fmt: skip
        return sample_board(truth_key, settings.samples), clouds

    return jax.vmap(one)(nets, seed_keys)


def train_and_sample(
    seeds: Sequence[int],
    settings: Settings,
    progress: Progress,
    names: Sequence[str] = PAPER_METHODS,
) -> Clouds:
    """Train the methods one after another and sample from them."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    budget = settings.epochs * settings.batches
    nets, seconds = {}, {}
    for k, name in enumerate(names):

        def show(step: int, losses: Mapping[str, float], before: int = k * budget) -> None:
            progress(before + step, losses)

        nets[name], seconds[name] = train_method(METHODS[name].loss, keys, settings, show)
    truth, clouds = sample_clouds(nets, stream(keys, 2), settings)
    return Clouds(truth, {name: clouds[name] for name in names}, seconds)


def run_checkerboard(
    seeds: Sequence[int],
    settings: Settings,
    names: Sequence[str],
    note: str = "",
    quiet: bool = False,
) -> tuple[dict[str, Any], bytes]:
    """The content of toy.json and the picture, for `bfq toy` and `bfq reproduce toy`."""
    enable_compilation_cache()
    with reporting("toy", len(names) * settings.epochs * settings.batches, quiet) as reporter:
        reporter.waiting("compiling")
        clouds = train_and_sample(seeds, settings, reporter.show, names)
    record = measure_clouds(clouds, seeds, settings)
    return record, draw_clouds(clouds, record, note)


def measure_clouds(clouds: Clouds, seeds: Sequence[int], settings: Settings) -> dict[str, Any]:
    """Distances of each method and number of steps, per seed and on average; settings and times."""
    measured = {
        name: {str(k): _over_seeds(points, clouds.truth, seeds) for k, points in by_steps.items()}
        for name, by_steps in clouds.samples.items()
    }
    return {
        **measured,
        "settings": {**settings._asdict(), "architecture": ARCHITECTURE, "seeds": list(seeds)},
        "versions": versions(),
        "train_seconds": clouds.train_seconds,
    }


def _over_seeds(
    samples: Float[Array, "s n 2"], truth: Float[Array, "s n 2"], seeds: Sequence[int]
) -> dict[str, Any]:
    """The metrics of each seed with their means; of the squares covered, the minimum."""
    rows = [
        {"seed": seed, **compare_clouds(samples[k], truth[k], jax.random.key(seed))}
        for k, seed in enumerate(seeds)
    ]
    names = ("energy_distance", "sliced_wasserstein2", "share_on_filled")
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return {**means, "squares_covered": min(row["squares_covered"] for row in rows), "seeds": rows}


def draw_clouds(clouds: Clouds, record: Mapping[str, Any], note: str = "") -> bytes:
    """A PNG of the truth and the samples of every method, of the first seed."""
    truth = np.asarray(clouds.truth[0])
    panels = [("Ground truth", note or f"{len(truth):,} points", truth)]
    for name, by_steps in clouds.samples.items():
        for k, points in by_steps.items():
            title = f"{METHODS[name].title}, {k} step{'s' if k > 1 else ''}"
            distance = record[name][str(k)]["seeds"][0]["energy_distance"]
            panels.append((title, f"energy distance {distance:.4f}", np.asarray(points[0])))
    columns = math.ceil(len(panels) / math.ceil(len(panels) / MOST))
    half = 1.35 * float(np.abs(truth).max())
    figure = panel_figure(
        [PANEL] * len(panels), left=0.06, right=0.06, between=BETWEEN, above=0.47, below=0.05,
        columns=columns, wide=(PANEL + BETWEEN) * columns,
    )  # fmt: skip
    for k, (axis, panel) in enumerate(zip(figure.axes, panels, strict=True)):
        _draw_panel(axis, *panel, half, COLORS["generated" if k else "truth"])
    return as_png(figure)


def _draw_panel(
    axis: Axes, title: str, note: str, points: npt.NDArray[np.float32], half: float, color: str
) -> None:
    x, y = points.T
    axis.scatter(x, y, s=1.6, alpha=0.28, linewidths=0, color=color)
    axis.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set(color=FRAME, linewidth=0.8)
    axis.set_title(title, fontsize=11, fontweight="bold", color=INK, pad=20)
    axis.text(0.5, 1.03, note, transform=axis.transAxes, ha="center", fontsize=8, color=QUIET)
