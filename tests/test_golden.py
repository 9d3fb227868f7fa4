"""Every agent's weights, metrics and scores after 200 updates equal those recorded earlier.

`python tests/test_golden.py` records them again; that is right only after a change that is meant to change
numbers, and the changelog then says which.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

GOLDEN = Path(__file__).parent / "golden"
AGENTS = sorted(path.stem for path in GOLDEN.glob("*.json"))
STEPS = 200
SMALL = {"width": 16, "critic_width": 16, "depth": 1, "critic_depth": 1, "behavior_depth": 1,
         "batch_size": 24, "critic_batch_size": 24, "policy_batch_size": 24, "behavior_batch_size": 24,
         "flow_steps": 2, "policy_target_start": 50}  # fmt: skip


def dataset():
    import bfq

    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(12):
        s = rng.normal(size=(31, 3)).cumsum(0) / 5
        a = 2 * np.tanh(s[:-1, :1] + 0.1 * rng.normal(size=(30, 1)))
        episodes.append(
            {"observations": s, "actions": a, "rewards": -np.square(s[1:]).sum(1), "terminals": np.zeros(30, bool)}
        )  # fmt: skip
    names = ("actions", "rewards", "terminals")
    arrays = {name: np.concatenate([e[name] for e in episodes]) for name in names}
    arrays["observations"] = np.concatenate([e["observations"][:-1] for e in episodes])
    arrays["next_observations"] = np.concatenate([e["observations"][1:] for e in episodes])
    arrays["timeouts"] = np.tile(np.arange(30) == 29, 12)
    return bfq.from_arrays(**arrays, action_low=-2.0, action_high=2.0)


def numbers(agent, folder):
    """The four moments of every leaf, the last metrics, and the scores of a short run."""
    import dataclasses

    import bfq
    from bfq.agents.registry import get_agent

    known = {field.name for field in dataclasses.fields(get_agent(agent).config())}
    run = bfq.train(
        dataset(), agent, steps=STEPS, seeds=2, out=folder, quiet=True, env="Pendulum-v1",
        episode_steps=20, eval_episodes=2, evaluations=2, chunk=20,
        values={name: value for name, value in SMALL.items() if name in known},
    )  # fmt: skip
    (state,) = Path(folder).glob(f"checkpoints/step-{STEPS:09d}/state.safetensors")
    weights = {
        name: [float(leaf.mean()), float(np.sqrt(np.square(leaf).mean())), *map(float, leaf.ravel()[[0, -1]])]
        for name, leaf in ((n, x.astype(np.float64)) for n, x in load_file(state).items())
    }  # fmt: skip
    rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    metrics = [row["metrics"] for row in rows if row["kind"] == "train"][-1]
    return {"weights": weights, "metrics": metrics, "scores": run.scores["return"]}


@pytest.mark.parametrize("agent", AGENTS)
def test_numbers_are_those_recorded(agent, tmp_path):
    expected = json.loads((GOLDEN / f"{agent}.json").read_text())
    found = numbers(agent, tmp_path / "run")
    assert found["weights"].keys() == expected["weights"].keys()
    for kind in ("weights", "metrics"):
        for name, values in expected[kind].items():
            close = {"rtol": 2e-4, "atol": 1e-6, "err_msg": name}
            np.testing.assert_allclose(found[kind][name], values, **close)
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-3)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import conftest  # noqa: F401 - its flags decide how numbers are rounded
    from bfq.agents.registry import agent_names

    os.environ["JAX_PLATFORMS"] = "cpu"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN
    target.mkdir(exist_ok=True, parents=True)
    for name in agent_names():
        out = Path(conftest.temporary("bfq-golden-")) / "run"
        content = json.dumps(numbers(name, out), indent=1)
        (target / f"{name}.json").write_text(content + "\n")
        print(name, len(content), flush=True)
