"""Behavior policies: SAC, environments in processes, weight files, and the policies that ship."""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tools.behavior import sac
from tools.behavior.robots import ROBOTS, ParallelRobots, episode_returns, get_robot, make_robot
from tools.behavior.saving import save_weights
from tools.behavior.select import Pack, join, medium, replay
from tools.behavior.train import Member, Settings, SnapshotLog, arguments, evaluate, recipe, train

from bfq.agents import learning
from bfq.agents.contract import Batch, Spec
from bfq.errors import BadInput
from bfq.tasks.weights import GaussianPolicy, load_weights

SHIPPED = sorted(Path(str(files("bfq.tasks") / "policies")).glob("*.npz"))
SMALL = sac.Config(batch_size=8, width=16, depth=1)
BOTH = jnp.ones(2)


@pytest.fixture(autouse=True)
def _random_numbers_that_compile_fast():
    with jax.default_prng_impl("unsafe_rbg"):
        yield


@cache
def tiny_state():
    """Numbers from NumPy, because JAX's own take seconds to compile."""
    shapes = jax.eval_shape(lambda key: sac.init(key, Spec(3, 2), SMALL), jax.random.key(0))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype), shapes)
    names = ("policy", "critics", "temperature")
    return state._replace(**{n: learning.learner(getattr(state, n).params) for n in names})


def tiny_batch(rows=5):
    rng = np.random.default_rng(0)
    s, n = rng.normal(size=(2, rows, 3)).astype(np.float32)
    a = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    masks = np.array([1, 0, 1, 1, 0], np.float32)[:rows]
    return Batch(*map(jnp.asarray, (s, a, rng.normal(size=rows).astype(np.float32), n, masks)))


def tiny_weights(**changes):
    rng = np.random.default_rng(3)
    one = sac.policy_arrays(tiny_state().policy.params)
    stacked = {n: np.float32(np.float16(rng.normal(size=(2, *a.shape)))) for n, a in one.items()}
    facts = [{"seed": 0, "env_steps": k, "training_return": k / 9} for k in (0, 9)]
    meta = {"activation": "relu", "squash": "tanh", "robot": "hopper", "recipe": ""}
    meta["snapshots"] = facts
    return GaussianPolicy(stacked, {**meta, **changes})


def test_log_probability_is_the_change_of_variables():
    u = np.array([[0.3, -0.8], [1.5, 0.0]])
    mean, log_std = np.full((2, 2), 0.2), np.full((2, 2), -0.5)
    normal = -0.5 * ((u - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
    expected = (normal - np.log(1 - np.tanh(u) ** 2)).sum(-1)
    found = sac.log_probability(jnp.asarray(u), jnp.asarray(mean), jnp.asarray(log_std), BOTH)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    far = jnp.array([[40.0, -40.0]])  # where tanh is flat
    assert jnp.isfinite(sac.log_probability(far, far, jnp.zeros((1, 2)), BOTH)).all()


def test_padding_has_neither_action_nor_probability():
    state, one = tiny_state(), jnp.array([1.0, 0.0])
    observations, key = jnp.ones((4, 3)), jax.random.key(1)
    actions, log_prob = jax.jit(sac.sample)(state.policy.params, observations, key, one)
    mean, log_std = jax.jit(sac.gaussian)(state.policy.params, observations)
    u = jnp.arctanh(actions[:, :1])
    alone = sac.log_probability(u, mean[:, :1], log_std[:, :1], jnp.ones(1))
    assert (actions[:, 1] == 0.0).all()
    np.testing.assert_allclose(log_prob, alone, rtol=1e-4)


def test_temperature_falls_while_the_entropy_is_above_its_target():
    slope = jax.grad(lambda log_alpha, log_prob: sac.temperature_loss(log_alpha, log_prob, BOTH)[0])
    for entropy, sign in ((3.0, 1), (-2.0, 0), (-5.0, -1)):  # against a target of −2
        assert jnp.sign(slope(jnp.zeros(()), jnp.full(4, -entropy))) == sign  # descent lowers α


def test_soft_target_by_hand():
    state, batch, key = tiny_state(), tiny_batch(), jax.random.key(2)
    state = state._replace(temperature=state.temperature._replace(params=jnp.log(0.3)))
    actions, log_prob = jax.jit(sac.sample)(state.policy.params, batch.next_observations, key, BOTH)
    q = np.asarray(jax.jit(sac.q_values)(state.critics_target, batch.next_observations, actions))
    expected = batch.rewards + 0.9 * batch.masks * (np.minimum(*q) - 0.3 * log_prob)
    found = jax.jit(sac.soft_target)(state, batch, key, BOTH, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_update_moves_everything_and_the_target_slowly():
    state, batch = tiny_state(), tiny_batch()
    update = jax.jit(sac.update, static_argnums=4)
    new, metrics = update(state, batch, jax.random.key(0), BOTH, SMALL)
    weight = new.critics.params.output.weight
    target = 0.995 * state.critics_target.output.weight + 0.005 * weight
    np.testing.assert_allclose(new.critics_target.output.weight, target, rtol=1e-5)
    assert new.temperature.params != state.temperature.params
    assert (new.policy.params.output.weight != state.policy.params.output.weight).any()
    assert all(np.isfinite(value) for value in metrics.values())


def test_memory_overwrites_the_oldest_and_returns_the_parts_of_rows():
    memory = sac.empty_memory(1, 4, Spec(1, 1))
    for k in range(3):
        memory = sac.remember(memory, jnp.full((1, 2, 5), float(k)))
    np.testing.assert_array_equal(memory.rows[0, :, 0], [2, 2, 1, 1])
    assert (int(memory.filled), int(memory.position)) == (4, 2)
    rows = jnp.arange(14.0).reshape(1, 14)
    batch = sac.batch_of(rows, Spec(5, 2))
    parts = [batch.observations, batch.actions, batch.next_observations, batch.rewards, batch.masks]
    np.testing.assert_array_equal(jnp.concatenate([p.reshape(1, -1) for p in parts], -1), rows)


def test_the_directional_ant_is_rewarded_for_its_way_and_turns_every_hundred_steps():
    ant = make_robot("ant-direction")
    first, _ = ant.reset(seed=0)
    assert first.shape == (29,)
    assert ant.unwrapped.dt == pytest.approx(0.1)
    direction, before = ant.direction, ant.unwrapped.data.qpos[:2].copy()
    np.testing.assert_array_equal(first[27:], direction)
    after, reward, fallen, _, _ = ant.step(np.full(8, 0.5, np.float32))
    moved = ant.unwrapped.data.qpos[:2] - before
    assert reward == pytest.approx(10.0 * float(moved @ direction))
    np.testing.assert_array_equal(after[:13], ant.unwrapped.data.qpos[2:])
    assert not fallen
    ant.unwrapped.data.qpos[3:7] = (0.0, 1.0, 0.0, 0.0)
    assert ant.step(np.zeros(8, np.float32))[2]
    ant.reset(seed=0)
    seen = [tuple(ant.step(np.zeros(8, np.float32))[0][27:]) for _ in range(200)]
    assert [len(set(seen[:99])), len(set(seen[99:199])), len(set(seen))] == [1, 1, 3]
    with pytest.raises(BadInput, match="halfcheetah"):
        get_robot("half-cheetah")


def test_robots_in_processes_step_like_single_ones():
    names, steps = ["hopper", "halfcheetah", "ant-direction"], 60  # hopper falls and starts again
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 3, 8)).astype(np.float32)
    robots = ParallelRobots(names, seed=5, processes=2)
    alone = [make_robot(name) for name in names]
    now = [env.reset(seed=5 + i)[0] for i, env in enumerate(alone)]
    observations, falls = robots.reset(), 0
    for step in range(steps):
        for i, observation in enumerate(now):
            found = observations[i, : len(observation)]
            np.testing.assert_array_equal(found, np.float32(observation))
        arrays = robots.step(actions[step])
        observations = arrays.observations
        for i, (env, name) in enumerate(zip(alone, names, strict=True)):
            now[i], reward, fell, late, _ = env.step(actions[step, i, : ROBOTS[name].action_dim])
            following = arrays.next_observations[i, : len(now[i])]
            np.testing.assert_array_equal(following, np.float32(now[i]))
            found = (arrays.rewards[i], arrays.terminated[i], arrays.ended[i])
            assert found == (np.float32(reward), fell, fell or late)
            falls += fell
            now[i] = env.reset()[0] if fell or late else now[i]
    assert falls > 0
    assert (arrays.observations[0, 11:] == 0.0).all()
    returns = episode_returns(robots, lambda s: np.zeros((3, 8), np.float32), limit=5)
    assert 4.0 < returns[0] < 6.0  # five steps of standing, at about one each
    robots.close()


def test_training_leaves_packs_that_can_be_chosen_from(tmp_path):
    words = "--robot hopper walker2d --env-steps 120 --envs 2 --updates 1 --warmup 40 --snapshots 4"
    a = arguments([*words.split(), "--out", str(tmp_path)])
    members = tuple(Member(robot, 0) for robot in a.robot)
    budget = a.env_steps, a.envs, a.updates, a.warmup
    settings = Settings(members, *budget, 100, a.snapshots, a.minutes, SMALL)
    robots = ParallelRobots([m.robot for m in members for _ in range(2)], 0, 1)
    with (tmp_path / "log.jsonl").open("w") as log:
        snapshots = SnapshotLog(members, a.envs, log)
        states = train(settings, robots, snapshots, seed=0)
        evaluate(settings, robots, snapshots, states)
    robots.close()
    hopper, walker = snapshots.packs(recipe(a))
    assert hopper.arrays["hidden_0_w"].shape == (5, 11, 16)
    assert walker.arrays["mean_w"].shape == (5, 16, 6)
    assert [fact["env_steps"] for fact in hopper.meta["snapshots"]] == [0, 8, 30, 68, 120]
    assert "--warmup 40" in hopper.meta["recipe"]
    assert str(tmp_path) not in hopper.meta["recipe"]
    assert join([hopper]).runs == [[0, 3, 4]]  # those before the first update are all alike
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert sum("evaluation" in row for row in rows) == 4
    seen = np.ones((2, 11), np.float32)
    padded = np.stack([np.pad(seen, ((0, 0), (0, 6)))] * 2)
    expected = sac.mean_actions(states.policy.params, padded, settings.joints)[0, :, :3]
    np.testing.assert_allclose(hopper.snapshot(4).act(seen), expected, atol=1e-5)


def fake_pack(levels):
    facts = [{"env_steps": 10 * k * k, "training_return": level} for k, level in enumerate(levels)]
    return Pack(GaussianPolicy({}, {"snapshots": facts}), [list(range(len(levels)))])


def test_medium_is_about_what_is_wanted_and_replay_leads_there():
    levels = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 50.0, 64.0, 80.0, 99.0]
    pack = fake_pack(levels)
    way = medium(pack, 33.0, lambda k: {"return_mean": levels[k]})
    assert way == list(range(7))
    assert replay(pack, way) == list(range(6))
    assert replay(pack, list(range(12))) == [0, 4, 5, 6, 7, 8, 9, 10]


def test_a_pack_is_read_back_as_it_was_written(tmp_path):
    pack = tiny_weights()
    save_weights(tmp_path / "pack.npz", pack)
    back = load_weights(tmp_path / "pack.npz")
    assert back.meta == pack.meta
    for name, array in pack.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
    one, seen = back.snapshot(1), np.ones((2, 3), np.float32)
    assert one.meta["env_steps"] == 9
    x = np.maximum(seen @ one.arrays["hidden_0_w"] + one.arrays["hidden_0_b"], 0)
    mean = np.tanh(x @ one.arrays["mean_w"] + one.arrays["mean_b"])
    np.testing.assert_allclose(one.act(seen), mean, rtol=1e-6)
    np.testing.assert_array_equal(*(one.act(seen, np.random.default_rng(7)) for _ in range(2)))
    with pytest.raises(BadInput, match="different robots"):
        join([pack, tiny_weights(robot="ant")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_policies_act_within_bounds(path):
    policy = load_weights(path)
    robot = get_robot(policy.meta["robot"])
    rng = np.random.default_rng(0)
    actions = policy.act(rng.normal(size=(64, robot.observation_dim)).astype(np.float32), rng)
    assert all(np.isfinite(array).all() for array in policy.arrays.values())
    assert actions.shape == (64, robot.action_dim)
    assert (np.abs(actions) <= 1.0).all()
    assert policy.meta["episodes"] >= 20
    facts = {"level", "seed", "env_steps", "simulator", "mujoco", "recipe", "return_std"}
    assert facts <= set(policy.meta)


@pytest.mark.parametrize("robot", ["halfcheetah", "hopper", "walker2d", "ant"])
def test_shipped_levels_are_in_order(robot):
    metas = [load_weights(path).meta for path in SHIPPED if path.stem.startswith(f"{robot}-")]
    facts = [meta for meta in metas if meta["robot"] == robot]
    of = lambda level: np.mean([f["return_mean"] for f in facts if f["level"] == level])
    returns = [of(level) for level in ("replay", "medium", "expert")]
    assert facts[0]["random_return"] < returns[0] < returns[1] < returns[2]


def test_shipped_weights_stay_small():
    assert len(SHIPPED) > 30
    assert sum(path.stat().st_size for path in SHIPPED) < 8e6
