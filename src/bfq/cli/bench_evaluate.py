"""`bfq bench evaluate`: how long it takes to score members that have learned nothing yet."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bfq.cli.bench_rows import Measure, Row, agents_of, bases_of, check_counts, wished_of
from bfq.errors import BadInput, counted

if TYPE_CHECKING:
    from bfq.bench.watching import Watched
    from bfq.evaluation.rollout import World
    from bfq.settings import RunConfig

ABOUT = "the time of an evaluation, in the policy and in the simulators"
WARM = 2  # calls of the policy before the clock starts: they compile and load all there is


def _evaluated(row: Row) -> str:
    rate, share = row["simulator_steps_per_second"], row["policy_share"]
    return (
        f"{row['agent']:8} {row['members']} × {counted(row['episodes'], 'episode')} in "
        f"{row['seconds']:.1f} s, {rate:,.0f} simulator steps a second on {counted(row['cores'], 'core')}, "
        f"{share:.0%} of the time in the policy"
    )


MEASURE = Measure(
    ("agent", "members", "episodes", "candidates", "simulator_steps", "seconds", "simulator_steps_per_second",
     "policy_share", "simulator_share"),
    _evaluated,
)  # fmt: skip


def add_words(parser: argparse.ArgumentParser) -> None:
    """What is evaluated, and for how long."""
    add = parser.add_argument
    add("--seeds", type=int, default=6, metavar="N", help="members, freshly initialized; default 6")
    add("--episodes", type=int, default=50, metavar="N", help="episodes a member; default 50")
    add("--candidates", type=int, metavar="N", help="actions drawn a state; default the preset's")
    add(
        "--sampling-steps",
        type=int,
        default=0,
        metavar="N",
        help="network calls an action; 0: as trained",
    )
    add(
        "--steps",
        type=int,
        metavar="N",
        help="stop every episode after so many steps; default at its end",
    )
    add("--repeats", type=int, default=1, metavar="N", help="evaluations that are timed; default 1")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row an agent; what cannot be is refused before the first is measured."""
    check_counts(args, "seeds", "episodes", "candidates", "steps", "repeats")
    return (_row(run, args) for run in _runs(args))


def _runs(args: argparse.Namespace) -> list["RunConfig"]:
    from bfq.settings import compose

    bases = bases_of(args)
    wished = wished_of(args, bases)
    evaluation = {
        name: getattr(args, name) for name in ("episodes", "candidates", "sampling_steps")
    }
    runs = []
    for name in agents_of(args):
        values = {field: value for field, value in wished.items() if field in bases[name]}
        runs.append(
            compose(args.task, name, seeds=args.seeds, values=values, evaluation=evaluation)
        )
    if runs[0].simulator is None:
        raise BadInput(f"{args.task} has no simulator to evaluate in: choose another --task.")
    return runs


def _row(run: "RunConfig", args: argparse.Namespace) -> Row:
    import jax

    from bfq.envs.cores import cores

    found = _watched(run, args.steps, args.repeats)
    median = found[len(found) // 2]
    acting = {name: run.evaluation[name] for name in ("episodes", "candidates", "sampling_steps")}
    return {
        "agent": run.agent,
        "task": run.task,
        "simulator": run.simulator,
        "members": len(run.seeds),
        **acting,
        "width": run.config.get("width"),
        "depth": run.config.get("depth"),
        "device": jax.devices()[0].device_kind,
        "cores": cores(),
        "simulator_steps": median.steps,
        "seconds": median.seconds,
        "spread": [found[0].seconds, found[-1].seconds],
        "simulator_steps_per_second": median.steps / median.seconds,
        "policy_share": median.policy / median.seconds,
        "simulator_share": median.stepping / median.seconds,
        "opening_share": median.opening / median.seconds,
    }


def _watched(run: "RunConfig", steps: int | None, repeats: int) -> list["Watched"]:
    """Evaluations of the same fresh members, the quickest first."""
    from bfq.bench.watching import watch
    from bfq.evaluation.protocol import protocol_from
    from bfq.evaluation.rollout import World, population_act, rollout
    from bfq.experiment import population_of
    from bfq.training.population import initial_states

    world = World(str(run.simulator), run.episode_steps)
    protocol, population, (spec, transforms) = (
        protocol_from(run.evaluation),
        population_of(run),
        _shape(world),
    )
    act = population_act(population, initial_states(population, spec), transforms, protocol)

    def roll(policy: Any) -> Any:
        return rollout(policy, world, protocol, len(population.members))

    watch(roll, act, WARM)
    return sorted(watch(roll, act, steps) for _ in range(repeats))


def _shape(world: "World") -> tuple[Any, Any]:
    """The sizes of a world, and transforms for it that leave observations as they are: no data was fitted."""
    import numpy as np

    from bfq.agents import Spec
    from bfq.data.transforms import RewardTransform, Transforms
    from bfq.envs.batch import Simulators

    one = Simulators(world.simulator, [0], world.episode_steps)
    spec = Spec(one.observations.shape[1], len(one.action_low))
    mean, std = (
        np.zeros(spec.observation_dim, np.float32),
        np.ones(spec.observation_dim, np.float32),
    )
    none = RewardTransform("none", 1.0, 0.0)
    transforms = Transforms(mean, std, one.action_low, one.action_high, none, "none")
    one.close()
    return spec, transforms
