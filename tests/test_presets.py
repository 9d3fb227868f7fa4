"""The presets against the paper's tables, which were typed apart from them; and every preset can be used."""

import dataclasses
import itertools

import pytest

from bfq.agents.registry import agent_names, configure, get_agent
from bfq.errors import BadInput
from bfq.evaluation.protocol import Protocol
from bfq.presets import SECTIONS, entries, preset
from bfq.run import write_record
from bfq.scoring import with_environment
from bfq.settings import compose, load_run
from bfq.tasks.catalog import PAPER, TASKS
from bfq_paper.published import PAPER as PUBLISHED

AGENTS = agent_names()

# What the paper's numbers for an agent are called here.
FIELDS = {
    "td3_bc": ("eta",), "iql": ("beta",), "edp": ("eta", "denoising_steps"), "idql": ("candidates",),
    "dql": ("eta",), "srpo": ("beta",), "cac": ("eta",), "sorl": ("eta",), "fql": ("alpha",),
    "bfq": ("eta",), "rebrac": ("policy_penalty", "critic_penalty"), "fawac": ("alpha",),
    "fbrac": ("alpha",), "ifql": ("candidates",),
}  # fmt: skip

# CleanDiffuser's softmax weights; BFQ and OFQL publish none and take DQL's.
WEIGHTS = {
    # DQL, EDP, IDQL
    "halfcheetah-medium": (50, 50, 400),
    "halfcheetah-medium-replay": (50, 150, 100),
    "halfcheetah-medium-expert": (50, 50, 10),
    "hopper-medium": (100, 300, 50),
    "hopper-medium-replay": (100, 300, 50),
    "hopper-medium-expert": (8, 8, 5),
    "walker2d-medium": (300, 300, 200),
    "walker2d-medium-replay": (300, 100, 200),
    "walker2d-medium-expert": (300, 300, 300),
    "antmaze-medium-play": (10, 10, 5),
    "antmaze-medium-diverse": (5, 5, 5),
    "antmaze-large-play": (5, 5, 5),
    "antmaze-large-diverse": (10, 10, 5),
}
WEIGHT_COLUMNS = {"dql": 0, "bfq": 0, "ofql": 0, "edp": 1, "idql": 2}

# One line a method, for the tasks that its numbers come from.
SAME_POLICY = {"policy_target_rate": 0.005, "policy_target_every": 5, "critic_target_rate": 0.005}
SOFTMAX = {"candidates": 50, "selection": "softmax"}
FQL_FAMILY = {"learning_rate": 3e-4, "schedule": "constant", "critic_target_rate": 0.005, "batch_size": 256,
              "observations": "none"}  # fmt: skip
LINES = {
    "bc": {"learning_rate": 3e-4, "schedule": "constant", "observations": "standardize_padded"},
    "td3_bc": {"learning_rate": 3e-4, "schedule": "constant", "critic_target_rate": 0.005, "policy_every": 2,
               "policy_target_rate": 0.005, "observations": "standardize_padded"},
    "iql": {"learning_rate": 3e-4, "schedule": "cosine", "critic_target_rate": 0.005, "observations": "none",
            "expectile": 0.7, "reward": "return_range"},
    "rebrac": {"learning_rate": 1e-3, "schedule": "constant", "critic_target_rate": 0.005, "batch_size": 1024,
               "policy_target_rate": 0.005, "policy_every": 2, "observations": "none"},
    "dql": {"learning_rate": 3e-4, "schedule": "cosine", "clip_norm": 0, "observations": "standardize",
            "temperature": 0.5, **SAME_POLICY, **SOFTMAX},
    "edp": {"learning_rate": 3e-4, "schedule": "cosine", "clip_norm": 0, "observations": "standardize",
            "temperature": 0.5, **SAME_POLICY, **SOFTMAX},
    "idql": {"learning_rate": 3e-4, "schedule": "cosine", "policy_target_rate": 1e-4, "expectile": 0.7,
             "observations": "standardize", "temperature": 0.5, **SOFTMAX},
    "srpo": {"learning_rate": 3e-4, "schedule": "cosine", "critic_target_rate": 0.005, "observations": "none",
             "batch_size": 2048, "expectile": 0.7, "candidates": 1},
    "cac": {"learning_rate": 3e-4, "schedule": "constant", "observations": "none", **SAME_POLICY, **SOFTMAX},
    "ofql": {"learning_rate": 3e-4, "schedule": "cosine", "clip_norm": 0, "observations": "standardize",
             **SAME_POLICY, **SOFTMAX},
    "bfq": {"learning_rate": 3e-4, "schedule": "cosine", "clip_norm": 0, "observations": "standardize",
            "temperature": 0.5, **SAME_POLICY, **SOFTMAX},
}  # fmt: skip
OGBENCH_LINES = {
    "fql": {**FQL_FAMILY, "candidates": 1, "flow_steps": 10, "normalize_q": False},
    "fbrac": {**FQL_FAMILY, "candidates": 1, "flow_steps": 10, "normalize_q": False},
    "fawac": {**FQL_FAMILY, "candidates": 1, "flow_steps": 10},
    "ifql": {**FQL_FAMILY, "candidates": 32, "selection": "argmax", "expectile": 0.9, "flow_steps": 10},
    "iql": {**FQL_FAMILY, "expectile": 0.9},
    "rebrac": {**FQL_FAMILY, "policy_every": 2},
    "sorl": {"learning_rate": 1e-4, "schedule": "constant", "clip_norm": 1, "critic_target_rate": 0.005,
             "policy_target_rate": 0.005, "observations": "none", "candidates": 1, "flow_steps": 8},
}  # fmt: skip


def chosen(agent, task):
    """What a run would use, all sections together."""
    run = compose(task, agent)
    return {**run.evaluation, **run.data, **run.config}


@pytest.mark.parametrize("agent", FIELDS)
def test_the_papers_tables(agent):
    for table in (PUBLISHED["d4rl_settings"], PUBLISHED["ogbench_settings"]):
        columns = [column for column in table.columns if column.split()[0] == agent]
        pairs = list(zip(FIELDS[agent], columns, strict=True)) if columns else []
        for (field, column), task in itertools.product(pairs, table.rows):
            if number := table.get(task, column):
                found, known = chosen(agent, task)[field], preset(agent, task, TASKS[task].family)
                assert found == number.value, (task, field)
                sourced = any(field in known[section] for section in SECTIONS)
                default = getattr(get_agent(agent).config(), field, None)
                assert sourced or default == number.value, f"{field} on {task} has no source"


@pytest.mark.parametrize("agent", WEIGHT_COLUMNS)
def test_softmax_weights(agent):
    for task, row in WEIGHTS.items():
        used = chosen(agent, f"{task}-v2")
        assert used["softmax_weight"] == row[WEIGHT_COLUMNS[agent]], task
        assert used["selection"] == "softmax", task


@pytest.mark.parametrize(("lines", "tasks"), [(LINES, PAPER[:9]), (OGBENCH_LINES, PAPER[13:19])])
def test_one_line_defaults(lines, tasks):
    for agent, line in lines.items():
        for task in tasks:
            used = chosen(agent, task)
            assert {field: used[field] for field in line} == line, (agent, task)


@pytest.mark.parametrize("agent", AGENTS)
def test_budgets_and_discounts_are_equal_for_all(agent):
    for task in PAPER:
        used, far = chosen(agent, task), "giant" in task or "humanoid" in task
        assert used["steps"] == (500_000 if task.startswith("pen") else 1_000_000), task
        if (agent, TASKS[task].family) != ("rebrac", "antmaze"):  # its authors have 0.999 there
            assert used["discount"] == (0.995 if far else 0.99), task
        assert used["episodes"] == 50, task
    assert chosen(agent, "pendulum-mixed")["steps"] == 3000
    assert chosen(agent, "local/halfcheetah-mini")["steps"] == 6000


def test_the_best_of_ten_backup_and_clipped_double_q_are_for_antmaze_and_pens():
    mazes = [task for task in PAPER[:13] if task.startswith("antmaze")]
    for agent in ("dql", "edp", "cac", "ofql", "bfq"):
        found = {task: chosen(agent, task)["backup_samples"] for task in PAPER[:13]}
        assert found == {task: 10 if task in mazes else 1 for task in PAPER[:13]}
    smallest = [t for t in PAPER[13:] if t.startswith(("pen", "antmaze-large", "antmaze-giant"))]
    for agent in ("fql", "fbrac", "fawac", "sorl", "bfq"):
        found = [task for task in PAPER[13:] if chosen(agent, task)["aggregation"] == "min"]
        assert found == smallest, agent
    assert [chosen("edp", task)["candidates"] for task in PAPER[:13]] == [50] * 9 + [200] * 4


# What is done to rewards on locomotion and on D4RL's AntMaze, where a method differs from the task's card.
REWARDS = {"td3_bc": "none minus_one", "rebrac": "none hundredfold", "cac": "none cql_antmaze",
           "cql": "none cql_antmaze", "sac_n": "none none", "edac": "none none"}  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
def test_rewards(agent):
    locomotion, antmaze = REWARDS.get(agent, "return_range minus_one").split()
    parts = ((PAPER[:9], locomotion), (PAPER[9:13], antmaze), (PAPER[13:19], "none"))
    for tasks, reward in parts:
        assert {chosen(agent, task)["reward"] for task in tasks} == {reward}


# Everything that an entry may name, and every situation in which entries are looked up.
FAMILIES = {task.family for task in TASKS.values() if task.simulator} | {"own", "*"}
NAMES = FAMILIES | {task.like for task in TASKS.values()}
SITUATIONS = {(task.like, task.family) for task in TASKS.values() if task.simulator}
SITUATIONS |= {("own", "own")}
ALLOWED = {
    "data": {"observations", "reward"},
    "evaluation": set(Protocol().describe()) - {"seed", "checkpoint"},
}


def names_of(entry):
    """Each section and name of a value in an entry."""
    return [(section, name) for section in SECTIONS for name in getattr(entry, section)]


@pytest.mark.parametrize("agent", AGENTS)
def test_entries_name_what_exists_and_say_where_it_comes_from(agent):
    fields = {field.name for field in dataclasses.fields(get_agent(agent).config())}
    allowed = {**ALLOWED, "config": fields}
    assert entries(agent), "no presets"
    for entry in entries(agent):
        assert names_of(entry), entry
        assert set(entry.tasks) <= NAMES, set(entry.tasks) - NAMES
        assert len(set(entry.tasks)) == len(entry.tasks), entry
        assert all(name in allowed[section] for section, name in names_of(entry)), entry


@pytest.mark.parametrize("agent", AGENTS)
def test_every_value_of_every_entry_counts_somewhere(agent):
    """A value that a later entry always overrides misleads who reads the file."""
    counted = set()
    for task, family in SITUATIONS:
        last = {}
        for number, entry in enumerate(entries(agent)):
            if entry.applies(task, family):
                last |= dict.fromkeys(names_of(entry), number)
        counted |= {(number, *key) for key, number in last.items()}
    for number, entry in enumerate(entries(agent)):
        for section, name in names_of(entry):
            assert (number, section, name) in counted, f"{name} of {entry.tasks} never counts"


@pytest.mark.parametrize("agent", AGENTS)
def test_every_task_can_be_described(agent):
    for name, task in TASKS.items():
        if task.simulator:
            run = compose(name, agent)
            configure(get_agent(agent), run.config)
    own = preset(agent, "own", "own")
    configure(get_agent(agent), {name: sourced.value for name, sourced in own["config"].items()})
    assert own["config"]["steps"].value == 100_000
    assert compose("mine.npz", agent, env="Pendulum-v1").steps == 100_000


def test_a_simulator_brings_its_own_limit_of_episodes():
    assert compose("mine.npz", env="Pendulum-v1").episode_steps == 200
    assert compose("mine.npz", env="Pendulum-v1", episode_steps=50).episode_steps == 50
    assert compose("mine.npz").episode_steps == 1000
    assert compose("mine.npz", env="bfq/Hopper-d4rl-v0").episode_steps == 1000
    own = compose("mine.npz", env="Pendulum-v1")
    assert with_environment(own, None, 7).episode_steps == 7
    assert with_environment(own, None, None) == own
    with pytest.raises(BadInput, match="is for your own data"):
        with_environment(compose("pendulum-mixed"), None, 7)
    with pytest.raises(BadInput, match="from 1 to"):
        with_environment(own, None, 0)


def test_varied_hyperparameters_in_a_file_are_lists_of_several_values(tmp_path):
    run = compose("pendulum-mixed", "bfq", values={"eta": [0.5, 1.0]})
    write_record(tmp_path, run)
    assert load_run(tmp_path).varied == {"eta": [0.5, 1.0]}
    for wrong in (0, [0.5], {}, None, [0, "a"]):
        write_record(tmp_path, dataclasses.replace(run, varied={"eta": wrong}))
        with pytest.raises(BadInput, match="varied"):
            load_run(tmp_path)
