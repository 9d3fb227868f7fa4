"""Composing a run: its checks, and the command that repeats it."""

import shlex

import jax
import numpy as np
import pytest

import bfq
from bfq.cli.main import build_parser
from bfq.cli.words import read_options
from bfq.errors import BadInput
from bfq.experiment import start
from bfq.options import OPTIONS
from bfq.settings import command, compose

SMALL = {"width": 8, "critic_width": 8, "depth": 1, "critic_depth": 1, "batch_size": 16}


def small_run(**changes):
    options = {"seeds": [0, 4], "values": SMALL, "eval_episodes": 1, "chunk": 10, "steps": 60}
    return compose("pendulum-mixed", "bfq", **{**options, **changes})


RUNS = {
    "values": lambda file: small_run(values={"preconditioned": False, "eta": [0.1, 0.2]}, chunk=None),
    "file": lambda file: compose(
        file, "bfq", seeds=[3], keep_going=True, episode_steps=7, env="Pendulum-v1"
    ),
    "baselines": lambda file: compose(
        "pendulum-mixed", "bc", baselines=["bfq"], evaluations=0
    ),
    "zeros": lambda file: compose("pendulum-mixed", "bfq", temperature=0.0, eval_seed=0),
    "acting": lambda file: compose(
        "pendulum-mixed", "dql", values={"sampler": "ddim"}, policy="online", eval_seed=5,
        transforms={"observations": "none", "reward": "standardize"},
    ),
    "candidates": lambda file: compose(
        "pendulum-mixed", "bfq", candidates=4, selection="softmax", softmax_weight=2.5
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_command_describes_the_whole_run(name, tmp_path):
    run = RUNS[name](str(tmp_path / "a b;$(touch x).npz"))
    words = shlex.split(command(run))
    parsed = read_options(build_parser("train").parse_args(words[1:]), OPTIONS)
    assert compose(**parsed) == run


def test_hyperparameters_are_checked_together():
    values = {"denoising_steps": 1, "noise_schedule": "vp"}
    assert compose("pendulum-mixed", "dql", values=values).config["denoising_steps"] == 1
    with pytest.raises(BadInput, match="cosine"):
        compose("pendulum-mixed", "dql", values={"denoising_steps": 1})
    with pytest.raises(BadInput, match="boundary_ratio"):
        small_run(values={**SMALL, "boundary_ratio": [0.5, 1.5]})


def test_evaluations_are_a_number_or_a_list_of_steps():
    assert "--evaluations 5000," in command(small_run(steps=5000, evaluations=[5000]))
    assert small_run(evaluations=np.array([40, 20])).evaluations == [20, 40]
    assert small_run(evaluations=np.int64(3)).evaluations == 3
    for wrong in ([], [0], [61], [2.5], [True], True, 2.5, "20"):
        with pytest.raises(BadInput, match="evaluations must be"):
            small_run(evaluations=wrong)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="bfloat16 works on this device")
def test_an_unsupported_precision_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(BadInput, match="float16"):
        small_run(precision="float16")
    run = small_run(precision="bfloat16")  # composed here, trained elsewhere
    with pytest.raises(BadInput, match="NVIDIA"):
        start(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "--precision bfloat16" in command(run)


@pytest.mark.parametrize(("changes", "message"), [
    ({"seeds": [1.5]}, "whole number"),
    ({"seeds": 2.5}, "whole number"),
    ({"values": {"eta": []}}, "no value"),
    ({"eval_episodes": "x"}, "whole number"),
    ({"transforms": {"rewards": "x"}}, "did you mean 'reward'"),
    ({"transforms": {"reward": "x"}}, "reward transform"),
    ({"chunk": 0}, "from 1 to"),
    ({"chunk": 1.5}, "whole number"),
])  # fmt: skip
def test_bad_options_leave_nothing_behind(changes, message, tmp_path):
    ends = np.arange(9) == 8
    data = bfq.from_arrays(np.zeros((9, 3)), np.zeros((9, 1)), np.zeros(9), timeouts=ends)
    options = {"values": SMALL, "steps": 20, "out": tmp_path / "run", "quiet": True, **changes}
    with pytest.raises(BadInput, match=message):
        bfq.train(data, **options)
    assert not (tmp_path / "run").exists()
