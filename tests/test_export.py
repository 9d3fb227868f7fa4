"""An exported policy acts like the trained agent in NumPy, C and ONNX, and its file executes nothing."""

import ctypes
import dataclasses
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bfq
from bfq.agents.contract import Acting, Spec
from bfq.agents.registry import agent_names, configure, get_agent
from bfq.data.transforms import Transforms
from bfq.deploy import export, formats, numpy_policy
from bfq.deploy.plan import Layer, plan_of
from bfq.errors import BadInput
from bfq.experiment import start
from bfq.nets.mlp import ACTIVATIONS
from bfq.run import RewardTransform
from bfq.settings import compose
from bfq.trained import population_of
from bfq.training.checkpoint import save_checkpoint
from bfq.training.population import initial_states

SPEC = Spec(5, 3)
SMALL = {"width": 20, "critic_width": 8, "depth": 2, "critic_depth": 1, "behavior_depth": 1}
CASES = {
    "bfq": {}, "bfq raw_time": {"architecture": "raw_time"}, "bfq displacement": {"preconditioned": False},
    "ofql": {}, "fql": {}, "td3_bc": {}, "rebrac": {}, "srpo": {},
    "bc": {"activation": "mish"}, "bc silu": {"activation": "silu"},
    "bc deterministic": {"kind": "deterministic", "activation": "tanh"},
    "bc unit_std": {"unit_std": True, "activation": "gelu"},
    "iql": {"tanh_mean": False}, "iql tanh": {"tanh_mean": True}, "sac_n": {}, "edac": {}, "cql": {},
}  # fmt: skip
COMPILER = shutil.which("cc")
REWARD = RewardTransform("none", 1.0, 0.0)


def transforms():
    random = np.random.default_rng(3)
    mean, std = random.normal(3.0, 2.0, (2, SPEC.observation_dim)).astype(np.float32)
    low = np.float32([-2.0, 0.0, 5.0])
    high = low + np.float32([0.7, 3.0, 1.1])
    return Transforms(mean, np.abs(std) + 0.1, low, high, REWARD, "standardize")


def made_up(like):
    """A state as training might leave it: averaged and current weights differ, bounds are reached."""
    random = np.random.default_rng(2)

    def fill(leaf):
        spread = 0.0 if np.issubdtype(leaf.dtype, np.integer) else 0.15
        return jnp.asarray(random.normal(0, spread, leaf.shape), leaf.dtype)

    return jax.tree.map(fill, like)


def agent_of(case, **more):
    agent = get_agent(case.split()[0])
    known = {field.name for field in dataclasses.fields(agent.config())}
    values = {k: v for k, v in {**SMALL, **CASES.get(case, {}), **more}.items() if k in known}
    config = configure(agent, values)
    like = jax.eval_shape(lambda: agent.init(jax.random.key(1), SPEC, config))
    return agent, made_up(like), config


@cache
def planned(case, temperature=0.7):
    """The plan, observations, noise, and the agent's actions for them."""
    agent, state, config = agent_of(case)
    plan, _ = plan_of(agent, state, "ema", temperature, transforms())
    unit = np.random.default_rng(0).normal(size=(40, SPEC.observation_dim))
    observations = (transforms().observation_mean + unit).astype(np.float32)
    key, acting = jax.random.key(7), Acting(temperature=temperature)
    normalized = jnp.asarray(transforms().normalize(observations))
    actions = np.asarray(agent.act(state, normalized, key, config, acting))
    noise = np.asarray(export.acting_noise(key, 40, plan.noise_dim))
    return plan, observations, noise, transforms().from_unit(actions)


def metadata(plan):
    facts = {"agent": "x", "task": "y", "update": 1, "remark": "", "format": numpy_policy.FORMAT}
    return {**facts, **plan.metadata}


def written(case, folder):
    plan = planned(case)[0]
    path = folder / "policy.npz"
    path.write_bytes(formats.npz(plan, metadata(plan)))
    return path


def compiled(plan, folder, *flags):
    if COMPILER is None:
        pytest.skip("there is no C compiler `cc` here")
    source, library = folder / "policy.c", folder / "policy.so"
    source.write_bytes(formats.c_source(plan, metadata(plan)))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *strict, *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).bfq_act
    floats = np.ctypeslib.ndpointer(np.float32, flags="C")
    function.argtypes, function.restype = [floats, ctypes.c_void_p, floats], None

    def act(observation, noise):
        action = np.full(plan.action_dim, np.nan, np.float32)
        function(observation, None if noise is None else noise.ctypes.data, action)
        return action

    return act


def near(found, wanted):
    half = 0.5 * (transforms().action_high - transforms().action_low)
    assert np.abs((found - wanted) / half).max() < 1e-5


@pytest.mark.parametrize("case", CASES)
def test_numpy_acts_as_the_agent(case, tmp_path):
    plan, observations, noise, wanted = planned(case)
    policy = numpy_policy.load(written(case, tmp_path))
    near(policy(observations, noise if plan.noise_dim else None), wanted)
    for k in range(10):
        near(policy(observations[k], noise[k]), wanted[k])
    within = (wanted > transforms().action_low + 1e-3) & (wanted < transforms().action_high - 1e-3)
    assert within.mean() > 0.1  # not only bounds are compared


@pytest.mark.parametrize(("case", "flags"), [
    *((case, ["-O1"]) for case in CASES),
    ("bfq", ["-O3", "-fno-trapping-math"]),
    ("bfq", ["-O3", "-ffast-math"]),
])  # fmt: skip
def test_c_acts_as_the_agent(case, flags, tmp_path):
    plan, observations, noise, wanted = planned(case)
    act = compiled(plan, tmp_path, *flags)
    near(np.stack([act(s, e) for s, e in zip(observations, noise, strict=True)]), wanted)


@pytest.mark.filterwarnings("ignore")  # from onnx
@pytest.mark.parametrize("case", CASES)
def test_onnx_acts_as_the_agent(case):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    plan, observations, noise, wanted = planned(case)
    session = runtime.InferenceSession(formats.FORMATS["onnx"](plan, metadata(plan)))
    inputs = {"observation": observations, **({"noise": noise} if plan.noise_dim else {})}
    near(session.run(None, inputs)[0], wanted)
    assert session.get_modelmeta().custom_metadata_map["agent"] == "x"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_far_from_zero(activation, tmp_path):
    x = np.float32([-1e4, -100.0, -88.0, -30.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 19.0, 30.0, 88.0, 1e4])
    wanted = np.asarray(ACTIVATIONS[activation](jnp.asarray(x)))
    found = x.copy()
    numpy_policy.ACTIVATIONS[activation](found, np.empty_like(x), np.empty_like(x))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    zero, bound = np.zeros(1, np.float32), np.float32([2e4])
    wide = Transforms(zero, zero + 1, -bound, bound, REWARD, "none")
    one = np.ones((1, 1), np.float32)
    plan = dataclasses.replace(planned("td3_bc")[0], transforms=wide, output="plain", layers=(
        Layer(one, one[0] * 0, activation), Layer(one / np.float32(2e4), one[0] * 0, "none")))  # fmt: skip
    act = compiled(plan, tmp_path)
    np.testing.assert_allclose([act(v, None)[0] for v in x[:, None]], wanted, rtol=4e-6, atol=4e-3)


def test_c_weights_are_the_same_float32_numbers_and_names_cannot_end_the_comment():
    plan = planned("bfq")[0]
    text = formats.c_source(plan, metadata(plan)).decode()
    for k, layer in enumerate(plan.layers):
        (body,) = re.findall(rf"bfq_weight_{k}\[\d+\] = \{{(.*?)\}};", text, re.DOTALL)
        numbers = np.array([np.float32(word.strip().removesuffix("f")) for word in body.split(",")])
        np.testing.assert_array_equal(numbers, formats.pack_blocks(layer)[0].ravel())
    hostile = {**metadata(plan), "task": "x */ int evil; /*\nint worse;"}
    text = formats.c_source(plan, hostile).decode()
    assert text.index("*/") == text.index("*/\n\n#include")


def test_wide_and_uneven_layers_are_padded(tmp_path):
    agent, state, config = agent_of("bc", width=70, depth=1)
    plan, _ = plan_of(agent, state, "ema", 1.0, transforms())
    observation = np.ones(SPEC.observation_dim, np.float32)
    wanted = numpy_policy.NumpyPolicy(formats.arrays_of(plan), metadata(plan))(observation)
    near(compiled(plan, tmp_path)(observation, None), wanted)


def test_bad_observations_are_not_hidden(tmp_path):
    """NumPy raises; C returns NaN for NaN, so that a supervisor can detect it."""
    for case in ("bfq", "td3_bc"):
        plan = planned(case)[0]
        broken = np.full(SPEC.observation_dim, np.nan, np.float32)
        policy = numpy_policy.load(written(case, tmp_path))
        for given in (broken, [broken, broken], np.float32([0, 0, np.inf, 0, 0])):
            with pytest.raises(ValueError, match="not finite"):
                policy(given)
        zeros = np.zeros(plan.action_dim, np.float32)
        assert np.isnan(compiled(plan, tmp_path)(broken, zeros)).all()


def test_noise_is_seeded_scaled_and_optional(tmp_path):
    path = written("bfq", tmp_path)
    observation = np.ones(SPEC.observation_dim)
    one, same, other = (numpy_policy.load(path, seed) for seed in (1, 1, 2))
    first = one(observation)
    np.testing.assert_array_equal(first, same(observation))
    for again in (one(observation), other(observation)):
        assert (first != again).any()
    one.temperature = 0.0
    still = one(observation)
    np.testing.assert_array_equal(still, one(observation))
    np.testing.assert_array_equal(still, same(observation, np.zeros(3)))
    plan = planned("bfq")[0]
    near(compiled(plan, tmp_path)(observation.astype(np.float32), None), still)


def test_out_receives_the_action_and_other_shapes_are_refused(tmp_path):
    policy = numpy_policy.load(written("bfq", tmp_path))
    out = np.empty(3, np.float32)
    assert policy(np.ones(5), out=out) is out
    kept = policy(np.ones(5))
    before = kept.copy()
    policy(np.zeros(5))
    np.testing.assert_array_equal(kept, before)  # returned arrays are not reused
    for observation in (1.0, np.ones(4), np.ones((2, 4)), np.ones((1, 1, 5))):
        with pytest.raises(ValueError, match="an observation has 5 numbers"):
            policy(observation)
    with pytest.raises(ValueError, match="the noise for this has shape"):
        policy(np.ones(5), np.ones(7))


def test_what_cannot_be_exported_is_refused():
    exportable = {name for name in agent_names() if get_agent(name).network}
    assert {case.split()[0] for case in CASES} == exportable
    several = (("bfq", {"architecture": "residual"}), ("bc", {"kind": "flow"}), ("dql", {}))
    for case, more in several:
        agent, state, _ = agent_of(case, **more)
        with pytest.raises(BadInput, match="an exported policy is one call of an MLP"):
            plan_of(agent, state, "ema", 1.0, transforms())
    agent, state, _ = agent_of("td3_bc")
    own = agent._replace(name="own", network=None)
    with pytest.raises(BadInput, match="this own acts in several network calls"):
        plan_of(own, state, "ema", 1.0, transforms())
    own = own._replace(network=lambda state, policy: (state.policy.params, "online"))
    assert plan_of(own, state, "ema", 1.0, transforms())[1] == "online"
    broken = jax.tree.map(lambda x: x * np.nan if x.ndim else x, state)
    with pytest.raises(BadInput, match="diverged"):
        plan_of(agent, broken, "ema", 1.0, transforms())
    plan = planned("td3_bc")[0]  # and other actions than the agent's
    with pytest.raises(BadInput, match="would not act like"):
        export.check_plan(plan, lambda s, key: np.zeros((len(s), 3)), metadata(plan))


# Hostile files


class Evil:
    def __reduce__(self):
        return (Path("evil").write_text, ("x",))


def rewrite(path, changes):
    """Replace some parts of the file; None removes one."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(name, data)


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    return file.getvalue()


def lying_header(*shape):
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + b"\0" * 16


def of_text(text):
    """The array of metadata with this text."""
    return npy(np.frombuffer(text, np.uint8))


HOSTILE = {
    "a missing array": {"weight_1.npy": None},
    "a strange array": {"weight_9.npy": npy(np.ones((2, 2), np.float32))},
    "a wrong shape": {"weight_1.npy": npy(np.ones((4, 4), np.float32))},
    "a wrong rank": {"bias_0.npy": npy(np.ones((20, 1), np.float32))},
    "double precision": {"bias_0.npy": npy(np.ones(20))},
    "columns first": {"weight_1.npy": npy(np.asfortranarray(np.ones((20, 20), np.float32)))},
    "NaN": {"bias_0.npy": npy(np.full(20, np.nan, np.float32))},
    "a spread of zero": {"observation_std.npy": npy(np.zeros(5, np.float32))},
    "an empty range": {"action_high.npy": npy(np.float32([-2.0, 0.0, 5.0]))},
    "pickled objects": {"bias_0.npy": npy(np.array([Evil()], object))},
    "a pickle": {"bias_0.npy": b"\x80\x04cos\nsystem\n"},
    "a huge claim": {"bias_0.npy": lying_header(2**40)},
    "a product that overflows": {"bias_0.npy": lying_header(2**32, 2**32)},
    "negative sizes": {"bias_0.npy": lying_header(-2, -2)},
    "no metadata": {"metadata.npy": None},
    "metadata of numbers": {"metadata.npy": npy(np.ones(3, np.float32))},
    "metadata of noise": {"metadata.npy": of_text(b"{]\xff")},
    "another format": {"metadata.npy": of_text(b'{"format": "x"}')},
    "deep metadata": {"metadata.npy": of_text(b"[" * 100_000)},
}


IMPOSSIBLE = [
    {"temperature": -1.0}, {"temperature": "x"}, {"temperature": float("1e999")}, {"noise_dim": 2},
    {"noise_dim": True}, {"noise_dim": -1}, {"noise_dim": 0}, {"output": "exec"}, {"output": ["tanh"]},
    {"activations": []}, {"activations": ["relu"] * 1000}, {"activations": ["__import__"] * 3},
    {"activations": [["relu"]] * 3}, {"activations": "relu"},
]  # fmt: skip


@pytest.mark.parametrize("case", [*HOSTILE, *IMPOSSIBLE], ids=str)
def test_hostile_files_are_refused_in_a_sentence(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written("bfq", tmp_path)
    if isinstance(case, dict):
        text = json.dumps({**metadata(planned("bfq")[0]), **case}).encode()
        rewrite(path, {"metadata.npy": of_text(text)})
    else:
        rewrite(path, HOSTILE[case])
    with pytest.raises(ValueError, match=r"polic.*\.$") as found:
        numpy_policy.load(path)
    assert "\n" not in str(found.value)
    assert not Path("evil").exists()


def test_damaged_archives_and_bombs_are_refused(tmp_path, monkeypatch):
    path = written("bfq", tmp_path)
    content = path.read_bytes()
    middle = len(content) // 2
    overwritten = content[:middle] + b"\xff" * 8 + content[middle + 8 :]
    for damaged in (b"", b"hello", content[:middle], overwritten):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a policy file"):
            numpy_policy.load(path)
    monkeypatch.setattr(numpy_policy, "LARGEST", 2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.npy", b"\0" * 2**22)
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        numpy_policy.load(path)


WITHOUT_BFQ = """
import sys
class Nothing:
    def find_spec(self, name, *rest):
        if name.split('.')[0] in ('bfq', 'jax', 'jaxlib', 'scipy'): raise ImportError(name)
sys.meta_path.insert(0, Nothing())
sys.path.insert(0, '.')
import numpy as np, numpy_policy
given = np.load('given.npz')
np.save('found.npy', numpy_policy.load('policy.npz')(given['observations'], given['noise']))
"""


def test_the_runtime_needs_numpy_alone(tmp_path):
    """The module, copied to an empty folder, where bfq and JAX cannot be imported."""
    _, observations, noise, wanted = planned("bfq")
    written("bfq", tmp_path)
    shutil.copy(numpy_policy.__file__, tmp_path)
    np.savez(tmp_path / "given.npz", observations=observations, noise=noise)
    subprocess.run([sys.executable, "-I", "-c", WITHOUT_BFQ], cwd=tmp_path, check=True)
    near(np.load(tmp_path / "found.npy"), wanted)


# The command


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_data):
    """A run with a checkpoint, as training leaves it."""
    folder = tmp_path_factory.mktemp("runs") / "bfq"
    small = {**SMALL, "width": 16, "batch_size": 16}
    del small["behavior_depth"]
    settings = {"values": small, "candidates": 5, "temperature": 0.5}
    composed = compose("made-up.store", "bfq", steps=3, seeds=2, **settings)
    start(composed, folder, tiny_data)
    like = jax.eval_shape(lambda: initial_states(population_of(composed), Spec(3, 1)))
    save_checkpoint(folder / "checkpoints", 3, made_up(like), keep=1)
    return folder


def test_the_command_writes_the_file_that_it_describes(run, tmp_path, command):
    code, out, _ = command("export", run, "--member 1 --json")
    facts = json.loads(out)
    assert code == 0
    assert facts["file"] == str(run / "policy-1.npz")
    assert facts["bytes"] == Path(facts["file"]).stat().st_size
    policy = numpy_policy.load(facts["file"])
    assert {name: facts[name] for name in policy.metadata} == policy.metadata
    assert (policy.metadata["member"], policy.metadata["seed"], policy.temperature) == (1, 1, 0.5)
    assert (policy.observation_dim, policy.action_dim, policy.metadata["policy"]) == (3, 1, "ema")
    assert "the critic choose among 5" in policy.metadata["remark"]
    assert policy.metadata["deviation"] < 1e-5
    trained = bfq.load_policy(run, 1, candidates=1, temperature=0.0)
    seen = np.random.default_rng(1).normal(size=(9, 3))
    np.testing.assert_allclose(policy(seen, np.zeros((9, 1))), trained(seen), atol=1e-5)
    file = tmp_path / "new" / "walk.c"
    code, out, _ = command("export", run, "--temperature 0 --policy online --out", file)
    assert (code, "walk.c" in out, "online" in out) == (0, True, True)
    assert "bfq_act" in file.read_text()
    assert list(file.parent.iterdir()) == [file]  # no temporary file is left


@pytest.mark.parametrize(("words", "sentence"), [
    ("--member 7", "members 0 to 1"), ("--member -1", "members 0 to 1"),
    ("--format pickle", "unknown format"), ("--out policy.exe", "unknown format"),
    ("--temperature nan", "temperature must be"), ("--policy best", "policy must be"),
    ("--out /dev/null/x.npz", "cannot write"), ("--out /", "is a folder"),
])  # fmt: skip
def test_bad_options_are_refused_in_one_line(run, words, sentence, command):
    code, _, error = command("export", run, words)
    assert (code, error.count("\n")) == (2, 1)
    assert sentence in error


def test_there_must_be_a_run_and_onnx_its_package(tmp_path, command, monkeypatch):
    code, _, error = command("export", tmp_path)
    assert (code, "there is no run" in error) == (2, True)
    monkeypatch.setitem(sys.modules, "onnx", None)
    plan = planned("bfq")[0]
    with pytest.raises(BadInput, match="pip install onnx"):
        formats.FORMATS["onnx"](plan, metadata(plan))
