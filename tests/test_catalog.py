"""Task cards: the paper's 21 tasks with the numbers of its protocol, and presets for each."""

import numpy as np
import pytest

from bfq.data.transforms import REWARDS
from bfq.envs.batch import SerialEnvironments
from bfq.errors import BadInput
from bfq.settings import command, compose
from bfq.tasks.catalog import DEFAULT_TASK, GENERATED, PAPER, TASKS, get_task
from bfq.tasks.sources import availability, load_dataset

# D4RL's returns that are scored 0 and 100.
REFERENCES = {"halfcheetah": (-280.178953, 12135.0), "hopper": (-20.272305, 3234.3),
              "walker2d": (1.629008, 4592.3), "pen": (96.262799, 3076.8331017826877)}  # fmt: skip
SUCCESS = ("antmaze", "ogbench")  # families scored by success
TRANSFORMS = {"locomotion": "return_range", "antmaze": "minus_one"}
LIMITS = {"pen": 100, "cube": 200, "scene": 750, "humanoidmaze": 2000}


@pytest.mark.parametrize("name", PAPER)
def test_a_published_task_has_its_references_limits_and_rewards(name):
    card, robot = TASKS[name], name.split("-")[0]
    references = (0.0, 1.0) if card.family in SUCCESS else REFERENCES[robot]
    assert (card.reference.low, card.reference.high) == references
    assert card.metric == ("success" if card.family in SUCCESS else "return")
    assert card.reward_transform == TRANSFORMS.get(card.family, "none")
    far = ("antmaze-giant", "humanoidmaze")
    assert card.discount == (0.995 if name.startswith(far) else 0.99)
    assert card.episode_steps == LIMITS.get(robot, 1000)
    assert card.eval_episodes == 50
    assert availability(name) == "needs a file"


SIMULATORS = {card.simulator: card for card in TASKS.values() if card.simulator}


@pytest.mark.parametrize("simulator", [name for name in SIMULATORS if "humanoid" not in name])
def test_simulators_of_the_cards_have_their_sizes(simulator):
    card = SIMULATORS[simulator]
    if card.extra in ("ogbench", "adroit"):
        pytest.importorskip({"ogbench": "ogbench", "adroit": "gymnasium_robotics"}[card.extra])
    environments = SerialEnvironments(simulator, [0], 5)
    sizes = (environments.observations.shape[1], len(environments.action_low))
    assert sizes == card.sizes
    high = 2.0 if simulator == "Pendulum-v1" else 1.0
    np.testing.assert_array_equal(environments.action_high, high)
    environments.close()


@pytest.mark.parametrize("name", [name for name in TASKS if name != "checkerboard"])
def test_every_task_makes_a_run_with_a_command(name):
    run = compose(name)
    assert run.data["reward"] in REWARDS
    assert run.simulator == TASKS[name].simulator
    assert f"--task {name} " in command(run)


def test_presets_of_a_task_apply_to_similar_tasks():
    for name in ("halfcheetah-medium", "halfcheetah-medium-old-masses"):
        twin, original = compose(f"rerolled/{name}"), compose("halfcheetah-medium-v2")
        assert (twin.config, twin.evaluation) == (original.config, original.evaluation)
    assert compose("local/halfcheetah-medium").config == compose("halfcheetah-medium-v2").config
    assert compose("local/scene-play").config == compose("scene-play-singletask-v0").config


def test_generated_tasks_do_not_pass_for_the_published_ones():
    for name in GENERATED:
        assert name.startswith("local/")
        assert "generated locally" in TASKS[name].data
    assert DEFAULT_TASK in GENERATED
    assert get_task(DEFAULT_TASK).simulator == "HalfCheetah-v4"


@pytest.mark.parametrize(("name", "remedy"), [
    ("hopper-medium-v2", "bfq data download hopper-medium-v2.*bfq data import FILE --as"),
    ("rerolled/hopper-medium", "bfq data reroll FILE --as rerolled/hopper-medium"),
    ("pen-human-v1", r"bfq data import FILE --as pen-human-v1`\.$"),  # nothing is similar
    ("checkerboard", "bfq toy"),
])  # fmt: skip
def test_data_that_is_not_here_is_refused_with_the_remedy(name, remedy):
    with pytest.raises(BadInput, match=remedy):
        load_dataset(name)
    if name == "checkerboard":
        with pytest.raises(BadInput, match=remedy):
            compose(name)
