"""Task cards: everything about a task that touches a score."""

from dataclasses import dataclass

from bfq.errors import unknown


@dataclass(frozen=True)
class Reference:
    """The two returns that a normalised score is measured between."""

    low: float  # scored 0
    high: float  # scored 100
    source: str

    def normalise(self, episode_return: float) -> float:
        """100 (R − low) / (high − low)."""
        return 100.0 * (episode_return - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Task:
    """A task: its data, its simulator, and how a score on it is made."""

    name: str
    about: str
    data: str  # how its data comes to be
    simulator: str  # Gymnasium id
    episode_steps: int
    discount: float
    reward_transform: str
    reference: Reference | None
    family: str  # which presets apply
    eval_episodes: int


PENDULUM = Task(
    name="pendulum-mixed",
    about="swing a pendulum up and hold it; logged by good, one-sided, sloppy and random controllers",
    data="made here in seconds by scripted controllers",
    simulator="Pendulum-v1",
    episode_steps=200,
    discount=0.97,
    reward_transform="none",
    reference=Reference(
        low=-1256.5,
        high=-168.6,
        source="measured here: uniformly random torque and the best scripted controller, 1000 episodes each",
    ),
    family="pendulum",
    eval_episodes=20,
)

TASKS: dict[str, Task] = {task.name: task for task in (PENDULUM,)}
DEFAULT_TASK = PENDULUM.name


def get_task(name: str) -> Task:
    """The card of a task, or a sentence with the nearest name."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]
