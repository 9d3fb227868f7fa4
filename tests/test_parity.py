"""Every agent with public reference code computes what that code computes.

Each file in tests/parity holds the losses, parameters, target copies and Adam moments that an agent's
reference code gave in three consecutive updates in float64, with the tolerance measured there. The files hold
numbers and settings only. They run in a process of their own, because JAX must be in 64 bits from its start.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PARITY = Path(__file__).parent / "parity"
NAMES = sorted(path.stem for path in PARITY.glob("*.npz"))
GROUPS = [NAMES[k::4] for k in range(4)]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_updates_equal_the_reference(names):
    environment = os.environ | {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok") == len(names)


def kind_of(name):
    if name[0] != ".":
        return "losses"
    if ".moments" in name:
        return "first moments"
    return "targets" if "target" in name else "parameters"


def relative_error(got, expected):
    """max|a − b| / max|b|."""
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-30))


def errors(data):
    """The largest error of each kind of number over three updates."""
    import jax
    import jax.numpy as jnp

    from bfq.agents.contract import Batch, Spec
    from bfq.agents.registry import configure, get_agent

    agent = get_agent(str(data["agent"]))
    config = configure(agent, json.loads(str(data["config"])))
    state = agent.init(jax.random.key(0), Spec(5, 3), config)
    paths, tree = jax.tree_util.tree_flatten_with_path(state)
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    leaves = []
    for name, (_, leaf) in zip(names, paths, strict=True):
        kind = leaf.dtype if jnp.issubdtype(leaf.dtype, jnp.integer) else np.float64
        leaves.append(jnp.asarray(data[f"state0/{name}"].astype(kind)))
        assert leaves[-1].shape == leaf.shape, name
    assert {f"state0/{name}" for name in names} == {n for n in data if n.startswith("state0/")}
    state, update, largest = jax.tree_util.tree_unflatten(tree, leaves), jax.jit(agent.update), {}
    for k in (1, 2, 3):
        prefix = f"batch_{k}/"
        rows = {n[len(prefix) :]: jnp.asarray(x) for n, x in data.items() if n.startswith(prefix)}
        key = jax.random.wrap_key_data(data[f"key/{k}"])
        state, metrics = update(state, Batch(**rows), key, config)
        found = dict(zip(names, jax.tree_util.tree_leaves(state), strict=True)) | metrics
        for full in (n for n in data if n.startswith(f"expected/{k}/")):
            name = full.split("/", 2)[2]
            got = np.asarray(found[name])
            got = got.ravel()[data[f"index/{name}"]] if f"index/{name}" in data else got
            assert got.shape == data[full].shape, full
            assert got.dtype == np.float64, full
            kind = kind_of(name)
            largest[kind] = max(largest.get(kind, 0.0), relative_error(got, data[full]))
    return largest


def main(names):
    failed = False
    for name in names:
        data = dict(np.load(PARITY / f"{name}.npz"))
        allowed = json.loads(str(data["tolerance"]))
        found = errors(data)
        wrong = {kind: error for kind, error in found.items() if not error <= allowed[kind]}
        print(name, found, f"beyond {allowed}" if wrong else "ok", flush=True)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
