"""Task cards: everything about a task that touches a score.

Three kinds of names. `halfcheetah-medium-v2`, `cube-single-play-singletask-v0` … are the published datasets,
for which a file is needed. `local/…` are made here by the same recipes with policies of our own, and are not
those datasets. `rerolled/…` are rolled out here from the very policies that collected D4RL's.
"""

from dataclasses import dataclass, replace

from bfq.errors import unknown
from bfq.run import Reference


@dataclass(frozen=True)
class Task:
    """A task: its data, its simulator, and how a score on it is made."""

    name: str
    about: str
    data: str  # how its data comes to be
    simulator: str  # as `bfq.envs.make` names it
    episode_steps: int
    discount: float
    reward_transform: str
    reference: Reference | None
    family: str  # which presets apply
    eval_episodes: int
    metric: str = (
        "return"  # what an episode is scored by: its return, or whether it ended in success
    )
    presets: str = ""  # the published task whose presets apply, where it is another
    extra: str = "mujoco"  # what must be installed for its simulator
    version_rule: str = "Gymnasium's v4 robots; MuJoCo from 3.3.3 and below 3.5"

    @property
    def like(self) -> str:
        """The name that presets know the task by."""
        return self.presets or self.name


D4RL = "D4RL's reference scores"
SUCCESS = Reference(0.0, 1.0, "success in per cent")
RUNS = {  # robot: simulator, what it does, the returns of a random and of an expert policy
    "halfcheetah": ("HalfCheetah-v4", "run", Reference(-280.178953, 12135.0, D4RL)),
    "hopper": ("Hopper-v4", "hop", Reference(-20.272305, 3234.3, D4RL)),
    "walker2d": ("Walker2d-v4", "walk", Reference(1.629008, 4592.3, D4RL)),
    "ant": ("Ant-v4", "walk on four legs", Reference(-325.6, 3879.7, D4RL)),
}
LEVELS = {
    "random": "uniformly random actions",
    "medium-replay": "snapshots of a learner on its way to medium",
    "medium": "a policy at about a third of the expert's return",
    "medium-expert": "half medium, half expert",
    "expert": "a fully trained policy",
}


def _run(robot: str, level: str, name: str, data: str) -> Task:
    simulator, does, reference = RUNS[robot]
    return Task(
        name=name,
        about=f"{does}, from data of {LEVELS[level]}",
        data=data,
        simulator=simulator,
        episode_steps=1000,
        discount=0.99,
        reward_transform="return_range",
        reference=reference,
        family="locomotion",
        eval_episodes=50,
        presets=f"{robot}-{level}-v2",
    )


def _with_old_masses(task: Task) -> Task:
    """The same in a world where robots are as heavy as they were when D4RL's data and scores were made."""
    return replace(
        task,
        simulator=f"bfq/{task.simulator.removesuffix('-v4')}-d4rl-v0",
        version_rule="Gymnasium's v4 robots with MuJoCo 2.0's masses; MuJoCo from 3.3.3 and below 3.5",
    )


def _antmaze(maze: str, kind: str, name: str, data: str) -> Task:
    goals = {"play": "hand-chosen goals", "diverse": "goals anywhere"}[kind]
    return Task(
        name=name,
        about=f"walk an Ant through the {maze} maze to its far corner, from walks to {goals}",
        data=data,
        simulator=f"bfq/AntMaze-{maze}-v0",
        episode_steps=1000,
        discount=0.99,
        reward_transform="minus_one",
        reference=SUCCESS,
        family="antmaze",
        eval_episodes=50,
        metric="success",
        presets=f"antmaze-{maze}-{kind}-v2",
        version_rule="bfq's own world of D4RL's mazes; MuJoCo from 3.3.3 and below 3.5",
    )


def _ogbench(
    world: str, about: str, task: int, steps: int, discount: float, name: str, data: str
) -> Task:
    body, *_ = world.rpartition("-")
    return Task(
        name=name,
        about=about,
        data=data,
        simulator=f"ogbench/{body}-singletask-task{task}-v0",
        episode_steps=steps,
        discount=discount,
        reward_transform="none",
        reference=SUCCESS,
        family="ogbench",
        eval_episodes=50,
        metric="success",
        presets=f"{world}-singletask-v0",
        extra="ogbench",
        version_rule="OGBench 1.2; MuJoCo from 3.3.3 and below 3.5",
    )


def _pen(kind: str, who: str) -> Task:
    return Task(
        name=f"pen-{kind}-v1",
        about=f"turn a pen in a hand of 24 joints, from {who}",
        data="D4RL's file",
        simulator="AdroitHandPen-v1",
        episode_steps=100,
        discount=0.99,
        reward_transform="none",
        reference=Reference(96.262799, 3076.8331017826877, D4RL),
        family="adroit",
        eval_episodes=50,
        extra="adroit",
        version_rule="Gymnasium-Robotics' AdroitHandPen-v1 for 100 steps; MuJoCo from 3.3.3 and below 3.5",
    )


OGBENCH = (  # world, what it is, default task, episode limit, discount
    ("antmaze-large-navigate", "walk an Ant through OGBench's large maze", 1, 1000, 0.99),
    ("antmaze-giant-navigate", "walk an Ant through OGBench's giant maze", 1, 1000, 0.995),
    ("humanoidmaze-medium-navigate", "walk a humanoid through the medium maze", 1, 2000, 0.995),
    ("humanoidmaze-large-navigate", "walk a humanoid through the large maze", 1, 2000, 0.995),
    ("cube-single-play", "move a cube with a robot arm", 2, 200, 0.99),
    ("scene-play", "unlock, close and lock a drawer and a window with a robot arm", 2, 750, 0.99),
)
OGBENCH_MORE = (  # made here as well; the paper does not use them
    ("antmaze-medium-navigate", "walk an Ant through OGBench's medium maze", 1, 1000, 0.99),
    ("pointmaze-medium-navigate", "roll a ball through OGBench's medium maze", 1, 1000, 0.99),
    ("pointmaze-large-navigate", "roll a ball through OGBench's large maze", 1, 1000, 0.99),
    ("pointmaze-giant-navigate", "roll a ball through OGBench's giant maze", 1, 1000, 0.995),
)
MADE_OGBENCH = (*(row for row in OGBENCH if not row[0].startswith("humanoid")), *OGBENCH_MORE)

SIZES = {  # numbers in an observation and in an action, by the first word of a task's name
    "halfcheetah": (17, 6),
    "hopper": (11, 3),
    "walker2d": (17, 6),
    "ant": (27, 8),
    "antmaze": (29, 8),
    "humanoidmaze": (69, 21),
    "cube": (28, 5),
    "scene": (40, 5),
    "pen": (45, 24),
}

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
    extra="",
    version_rule="Gymnasium's Pendulum-v1",
)

CHECKERBOARD = Task(
    name="checkerboard",
    about="the paper's picture of expressiveness: eight squares in the plane, no states and no rewards",
    data="drawn on the spot by `bfq toy`",
    simulator="",
    episode_steps=1,
    discount=0.0,
    reward_transform="none",
    reference=None,
    family="toy",
    eval_episodes=0,
    metric="energy distance",
    extra="",
    version_rule="none: nothing is simulated",
)

MINI = "local/halfcheetah-mini"
_MINI = replace(
    _run(
        "halfcheetah",
        "medium-replay",
        MINI,
        "made here in seconds from policies that ship with bfq",
    ),
    about="run; 40 episodes of a learner's snapshots, from not at all to fast",
    family="mini",
    eval_episodes=5,
    presets=MINI,
)

_PAPER = (
    *(
        _run(robot, level, f"{robot}-{level}-v2", "D4RL's file")
        for robot in ("halfcheetah", "hopper", "walker2d")
        for level in ("medium", "medium-replay", "medium-expert")
    ),
    *(
        _antmaze(maze, kind, f"antmaze-{maze}-{kind}-v2", "D4RL's file")
        for maze in ("medium", "large")
        for kind in ("play", "diverse")
    ),
    *(
        _ogbench(*row, f"{row[0]}-singletask-v0", "OGBench's file, relabeled for one task")
        for row in OGBENCH
    ),
    _pen("human", "25 human demonstrations"),
    _pen("cloned", "human demonstrations and an imitator of them, half and half"),
)
_MORE_D4RL = tuple(  # published as well; the paper does not use them
    _run(robot, level, f"{robot}-{level}-v2", "D4RL's file")
    for robot in ("halfcheetah", "hopper", "walker2d")
    for level in ("random", "expert")
)
_LOCAL = (
    *(
        _run(robot, level, f"local/{robot}-{level}", "made here from policies that ship with bfq")
        for robot in RUNS
        for level in LEVELS
    ),
    *(
        _antmaze(
            maze,
            kind,
            f"local/antmaze-{maze}-{kind}",
            "made here: a planner and bfq's own walking Ant",
        )
        for maze in ("medium", "large")
        for kind in ("play", "diverse")
    ),
    *(
        _ogbench(*row, f"local/{row[0]}", "made here by OGBench's published recipe")
        for row in MADE_OGBENCH
    ),
)
_REROLL = "rolled out here from D4RL's policy: `bfq data reroll FILE"
_REROLLED = tuple(
    task
    for robot in RUNS
    for level in ("medium", "medium-expert")
    for task in (
        _run(robot, level, f"rerolled/{robot}-{level}", f"{_REROLL}`"),
        _with_old_masses(
            _run(robot, level, f"rerolled/{robot}-{level}-old-masses", f"{_REROLL} --old-masses`")
        ),
    )
)

PAPER = tuple(task.name for task in _PAPER)  # the 21 tasks of the paper's tables
PUBLISHED = (*PAPER, *(task.name for task in _MORE_D4RL))
TASKS: dict[str, Task] = {
    task.name: task
    for task in (_MINI, PENDULUM, CHECKERBOARD, *_PAPER, *_MORE_D4RL, *_LOCAL, *_REROLLED)
}
DEFAULT_TASK = MINI


def get_task(name: str) -> Task:
    """The card of a task, or a sentence with the nearest name."""
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]
