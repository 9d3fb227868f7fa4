"""Task cards: the paper's 21 tasks with the numbers of its protocol, and presets for each."""

import numpy as np
import pytest

from bfq.data.transforms import REWARDS
from bfq.envs.batch import SerialEnvironments
from bfq.errors import BadInput
from bfq.settings import command, compose
from bfq.tasks.catalog import DEFAULT_TASK, GENERATED, PAPER, TASKS, get_task
from bfq.tasks.sources import availability, load_dataset

REFERENCES = {  # D4RL's: return scored 0, return scored 100
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
    "antmaze": (0.0, 1.0),
    "pen": (96.262799, 3076.8331017826877),
}
SIZES = {  # numbers in an observation and in an action
    "HalfCheetah-v4": (17, 6),
    "Hopper-v4": (11, 3),
    "Walker2d-v4": (17, 6),
    "bfq/AntMaze-medium-v0": (29, 8),
    "AdroitHandPen-v1": (45, 24),
    "ogbench/cube-single-singletask-task2-v0": (28, 5),
    "ogbench/scene-singletask-task2-v0": (40, 5),
    "ogbench/antmaze-giant-singletask-task1-v0": (29, 8),
}


def test_the_paper_has_21_tasks_of_four_families():
    families = [TASKS[name].family for name in PAPER]
    counts = {family: families.count(family) for family in families}
    assert counts == {"locomotion": 9, "antmaze": 4, "ogbench": 6, "adroit": 2}


@pytest.mark.parametrize("name", PAPER)
def test_a_published_task_has_its_references_limits_and_rewards(name):
    card = TASKS[name]
    robot = name.split("-")[0]
    if card.family != "ogbench":
        assert (card.reference.low, card.reference.high) == REFERENCES[robot]
    assert card.metric == ("success" if card.family in ("antmaze", "ogbench") else "return")
    transforms = {
        "locomotion": "return_range",
        "antmaze": "minus_one",
        "ogbench": "none",
        "adroit": "none",
    }
    assert card.reward_transform == transforms[card.family]
    far = ("antmaze-giant", "humanoidmaze")
    assert card.discount == (0.995 if name.startswith(far) else 0.99)
    limits = {"pen": 100, "cube": 200, "scene": 750, "humanoidmaze": 2000}
    assert card.episode_steps == limits.get(robot, 1000)
    assert card.eval_episodes == 50
    assert availability(name) == "needs a file"


@pytest.mark.parametrize("simulator", SIZES)
def test_simulators_of_the_cards_exist_and_have_the_published_sizes(simulator):
    assert simulator in {card.simulator for card in TASKS.values()}
    if simulator.startswith("ogbench"):
        pytest.importorskip("ogbench")
    if simulator.startswith("Adroit"):
        pytest.importorskip("gymnasium_robotics")
    simulators = SerialEnvironments(simulator, [0], 5)
    assert (simulators.observations.shape[1], len(simulators.action_low)) == SIZES[simulator]
    np.testing.assert_array_equal(simulators.action_high, 1.0)
    simulators.close()


ETAS = {
    "halfcheetah-medium-v2": 1.0,
    "hopper-medium-expert-v2": 0.01,
    "walker2d-medium-replay-v2": 0.1,
    "antmaze-medium-diverse-v2": 0.001,
    "antmaze-large-play-v2": 0.3,
    "scene-play-singletask-v0": 0.01,
    "humanoidmaze-large-navigate-singletask-v0": 0.001,
    "pen-cloned-v1": 0.001,
}


@pytest.mark.parametrize("name", [name for name in TASKS if name != "checkerboard"])
def test_every_task_makes_a_run_that_can_be_told_in_words(name):
    run = compose(name)
    assert run.data["reward"] in REWARDS
    assert run.simulator == TASKS[name].simulator
    assert f"--task {name} " in command(run)
    if name in ETAS:
        assert run.config["eta"] == ETAS[name]


def test_presets_follow_a_task_to_its_twins():
    for twin in (
        "local/halfcheetah-medium",
        "rerolled/halfcheetah-medium",
        "rerolled/halfcheetah-medium-old-masses",
    ):
        assert compose(twin).config == compose("halfcheetah-medium-v2").config
        assert compose(twin).evaluation == compose("halfcheetah-medium-v2").evaluation
    assert compose("local/scene-play").config == compose("scene-play-singletask-v0").config
    assert compose("walker2d-medium-v2").evaluation["softmax_weight"] == 300.0
    assert compose("antmaze-large-play-v2").config["backup_samples"] == 10
    assert compose("cube-single-play-singletask-v0").config["aggregation"] == "mean"
    assert compose("antmaze-large-navigate-singletask-v0").config["aggregation"] == "min"


def test_local_tasks_do_not_pass_for_the_published_ones():
    for name in GENERATED:
        assert name.startswith("local/")
        assert "generated locally" in TASKS[name].data


def test_the_default_can_be_made_here():
    assert DEFAULT_TASK in GENERATED
    assert get_task(DEFAULT_TASK).simulator == "HalfCheetah-v4"


def test_data_that_is_not_here_is_asked_for_with_its_remedy():
    with pytest.raises(
        BadInput, match="bfq data download hopper-medium-v2.*bfq data import FILE --as"
    ):
        load_dataset("hopper-medium-v2")
    with pytest.raises(BadInput, match="bfq data reroll FILE --as rerolled/hopper-medium"):
        load_dataset("rerolled/hopper-medium")
    with pytest.raises(
        BadInput, match=r"bfq data import FILE --as pen-human-v1`\.$"
    ):  # nothing is like it
        load_dataset("pen-human-v1")
    for ask in (load_dataset, compose):
        with pytest.raises(BadInput, match="bfq toy"):
            ask("checkerboard")
