"""What a program may add to a run: evaluators, trackers, callbacks, and rules that end it early."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bfq.data.dataset import Dataset
from bfq.errors import guarded
from bfq.evaluation.policy import Policy
from bfq.run import Numbers, json_numbers
from bfq.trained import Trained
from bfq.training.loop import Progress
from bfq.training.monitoring import Tracker

Evaluator = Callable[[Policy, Dataset], float]


class Hooks(NamedTuple):
    """What a program adds to the training of a run."""

    evaluators: Mapping[str, Evaluator] = {}
    track: Sequence[str | Tracker] = ()
    callbacks: Sequence[Callable[[Progress], object]] = ()
    stop: Callable[[Progress], object] | None = None

    def evaluate(self, trained: Trained, dataset: Dataset) -> dict[str, Numbers]:
        """What every evaluator finds for every member."""
        acting = trained.protocol().acting
        policies = [
            Policy(trained.population.agent, *trained.member(k), trained.transforms, acting)
            for k in range(len(trained.population.members))
        ]
        return {
            name: json_numbers(
                guarded(f"the evaluator {name!r}", _number, one, policy, dataset)
                for policy in policies
            )
            for name, one in self.evaluators.items()
        }

    def ends(self, progress: Progress) -> bool:
        """Call the callbacks, and ask whether the run ends here."""
        for callback in self.callbacks:
            guarded(f"the callback {getattr(callback, '__name__', callback)!s}", callback, progress)
        return bool(self.stop and guarded("the rule `stop`", self.stop, progress))


NO_HOOKS = Hooks()


def _number(evaluator: Evaluator, policy: Policy, dataset: Dataset) -> float:
    return float(evaluator(policy, dataset))


def patience(evaluations: int, name: str = "return") -> Callable[[Progress], bool]:
    """A rule for `stop`: end the run when the mean of a score has not improved for some evaluations."""
    found: list[float] = []

    def stop(progress: Progress) -> bool:
        value = progress.mean(name) if progress.scores or progress.evaluations else None
        if value is not None:
            found.append(value)
        return len(found) > evaluations and max(found[-evaluations:]) <= max(found[:-evaluations])

    return stop
