"""From the log to the agent: every transform is applied, and applied once, whichever way the data takes."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import bfq
from bfq import experiment, trained
from bfq.agents.contract import Batch
from bfq.agents.registry import get_agent
from bfq.hooks import Hooks
from bfq.settings import compose
from bfq.training.population import draw_ahead

EPISODES, LENGTH, SIZE = 4, 10, 64
ROWS = EPISODES * LENGTH


class Seen(NamedTuple):
    """The state of an agent that learns nothing and keeps the batch that it was given last."""

    batch: Batch
    step: object


def begin(key, spec, config):
    s, a, one = (jnp.zeros((SIZE, n)) for n in (spec.observation_dim, spec.action_dim, 1))
    return Seen(Batch(s, a, one[:, 0], s, one[:, 0], a, one[:, 0]), jnp.zeros((), jnp.int32))


def keep(state, batch, key, config):
    return Seen(batch, state.step + 1), {"loss": jnp.zeros(())}


def log():
    """Episodes far from 0, with actions in [−2, 6]; the first half of them truly end, the others time out."""
    rng = np.random.default_rng(0)
    walked = [500.0, -30.0] + rng.normal(size=(EPISODES, LENGTH + 1, 2)) * [20.0, 0.1]
    last = np.arange(ROWS) % LENGTH == LENGTH - 1
    ended = last & (np.arange(ROWS) < ROWS // 2)
    s, following = walked[:, :-1].reshape(ROWS, 2), walked[:, 1:].reshape(ROWS, 2)
    return {"observations": s, "next_observations": following,
            "actions": rng.uniform(-2, 6, (ROWS, 1)), "rewards": rng.normal(3.0, 1.0, ROWS),
            "terminals": ended, "timeouts": last & ~ended}  # fmt: skip


def by_hand(log, rows):
    """What the agent must see of these rows: s and s′ by the mean and deviation of s, and 4 (r − ½)."""
    s, following, a, r = map(log.get, ("observations", "next_observations", "actions", "rewards"))
    mean, std = s.mean(0), s.std(0)
    unit = (a - 2.0) / 4.0
    known = np.arange(ROWS) % LENGTH != LENGTH - 1
    columns = ((s - mean) / std, unit, 4.0 * r - 2.0, (following - mean) / std, 1.0 - log["terminals"],
               np.roll(unit, -1, axis=0), 1.0 * known)  # fmt: skip
    return Batch(*(column[rows] for column in columns))


@pytest.mark.parametrize("gigabytes", ["1", "1e-9"], ids=["on the device", "streamed"])
def test_an_update_sees_each_transform_once_and_in_both_states(tmp_path, monkeypatch, gigabytes):
    monkeypatch.setenv("BFQ_MEMORY_GB", gigabytes)
    keeping = get_agent("bc")._replace(init=begin, update=keep, needs=("next_actions",))
    monkeypatch.setattr(trained, "get_agent", lambda name: keeping)
    data = bfq.from_arrays(**log(), action_low=-2.0, action_high=6.0)
    run = compose("data.store", "bc", steps=1, seeds=1, chunk=1, values={"batch_size": SIZE},
                  transforms={"observations": "standardize", "reward": "cql_antmaze"})  # fmt: skip
    experiment.start(run, tmp_path / "run", data)
    list(experiment.execute(tmp_path / "run", data, Hooks(), quiet=True))
    run = trained.load_trained(tmp_path / "run")
    found = run.checkpoint.states.batch
    rows = draw_ahead(run.population.keys, jnp.int32(0), length=1, size=SIZE, rows=ROWS)[0, 0]
    expected = by_hand(log(), np.asarray(rows))
    unknown = expected.next_known[:, None] == 0  # a′ of an episode's last row is anything
    for name in Batch._fields:
        one, other = np.asarray(getattr(found, name))[0], getattr(expected, name)
        if name == "next_actions":
            one, other = np.where(unknown, 0.0, one), np.where(unknown, 0.0, other)
        np.testing.assert_allclose(one, other, atol=2e-3, err_msg=name)
