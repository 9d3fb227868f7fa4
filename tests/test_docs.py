"""The documentation's code runs."""

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from bfq.agents import Acting, Spec
from bfq.training.population import Member, Program, initial_states, pack, populate

DOCS = Path(__file__).parent.parent / "docs"


def test_the_agent_of_the_architecture_page_is_a_whole_agent(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "architecture.md").read_text(), re.DOTALL)
    (tmp_path / "tiny.py").write_text(code)
    spec = importlib.util.spec_from_file_location("tiny", tmp_path / "tiny.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agent, rng = module.AGENT, np.random.default_rng(0)
    observations = rng.normal(size=(200, 3)).astype(np.float32)
    arrays = {"observations": observations, "actions": np.tanh(observations[:, :2]), "masks": np.ones(200),
              "next_observations": observations, "rewards": np.zeros(200)}  # fmt: skip
    rows = pack({name: value.astype(np.float32) for name, value in arrays.items()})
    population = populate(agent, agent.config(), [Member(0, {"learning_rate": 1e-2}), Member(1, {})])
    states, metrics = Program(population, 200)(initial_states(population, rows.spec), rows, jnp.int32(0))
    loss = np.asarray(metrics["bc_loss"])
    assert (loss[-20:].mean(0) < 0.5 * loss[:20].mean(0)).all()
    state = jax.tree.map(lambda leaf: leaf[0], states)
    actions = agent.act(state, rows.packed[:, :3], jax.random.key(0), agent.config(), Acting())
    assert rows.spec == Spec(3, 2)
    assert float(jnp.abs(actions - arrays["actions"]).mean()) < 0.2
