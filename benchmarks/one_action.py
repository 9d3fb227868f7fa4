"""Microseconds of one action for one observation: the trained agent on JAX, its NumPy file, its C file.

Run: python benchmarks/one_action.py --out benchmarks/one_action.json
One call per action, timed from Python, noise included; the C function is called through ctypes. BLAS has one
thread.
"""

# ruff: noqa: E402 - NumPy reads the variable set below when it is first imported

import argparse
import ctypes
import itertools
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when NumPy is first imported

import jax
import numpy as np

from bfq.agents.contract import Acting, Spec
from bfq.agents.registry import (
    configure,
    get_agent,
)
from bfq.data.transforms import Transforms
from bfq.deploy.formats import arrays_of, c_source
from bfq.deploy.numpy_policy import NumpyPolicy
from bfq.deploy.plan import plan_of
from bfq.evaluation.policy import Policy
from bfq.files import write_json
from bfq.run import (
    RewardTransform,
    versions,
)

SPEC = Spec(17, 6)
FLAGS = ["-O3", "-march=native", "-fno-trapping-math", "-shared", "-fPIC"]


def transforms():
    random = np.random.default_rng(0)
    mean = random.normal(size=SPEC.observation_dim).astype(np.float32)
    ones = np.ones(SPEC.action_dim, np.float32)
    return Transforms(
        mean, np.ones_like(mean), -ones, ones, RewardTransform("none", 1.0, 0.0), "standardize"
    )


def trained(name, width, depth):
    agent = get_agent(name)
    config = configure(agent, {"width": width, "depth": depth})
    return agent, agent.init(jax.random.key(0), SPEC, config), config


def jax_act(agent, state, config, folder):
    policy = Policy(agent, state, config, transforms(), Acting(), 0)
    return policy, jax.devices()[0].device_kind


def numpy_act(agent, state, config, folder):
    plan, _ = plan_of(agent, state, "ema", 1.0, transforms())
    policy, action = NumpyPolicy(arrays_of(plan), plan.metadata), np.empty(6, np.float32)
    return lambda observation: policy(observation, out=action), ""


def c_act(agent, state, config, folder):
    plan, _ = plan_of(agent, state, "ema", 1.0, transforms())
    metadata = {"agent": agent.name, "task": "random weights", "update": 0, "remark": ""}
    source, library = Path(folder) / "policy.c", Path(folder) / f"policy-{time.monotonic_ns()}.so"
    source.write_bytes(c_source(plan, metadata))
    subprocess.run(["cc", *FLAGS, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).bfq_act
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    random, noise, action = (
        np.random.default_rng(0),
        np.empty(6, np.float32),
        np.empty(6, np.float32),
    )
    at, to = noise.ctypes.data, action.ctypes.data
    pointers = {}

    def act(observation):
        where = pointers.get(id(observation))
        if where is None:
            where = pointers[id(observation)] = observation.ctypes.data
        random.standard_normal(dtype=np.float32, out=noise)
        function(where, at, to)

    return act, subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.split(
        "\n"
    )[0]


RUNTIMES = {"jax": jax_act, "numpy": numpy_act, "c": c_act}


def measure(act, calls):
    observations = list(
        np.random.default_rng(1).normal(size=(64, SPEC.observation_dim)).astype(np.float32)
    )
    for observation in itertools.islice(itertools.cycle(observations), 500):
        act(observation)
    times = np.empty(calls)
    for k in range(calls):
        observation = observations[k % 64]
        began = time.perf_counter_ns()
        act(observation)
        times[k] = time.perf_counter_ns() - began
    return np.percentile(times, 50) / 1000, np.percentile(times, 99) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="bfq,fql,td3_bc")
    parser.add_argument("--runtime", default="jax,numpy,c")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", default="3,4")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    choices = itertools.product(
        args.agent.split(","), map(int, args.depth.split(",")), args.runtime.split(",")
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, depth, runtime in choices:
            act, on = RUNTIMES[runtime](*trained(name, args.width, depth), folder)
            median, p99 = measure(act, args.calls)
            print(
                f"{name:8} {runtime:6} width {args.width} depth {depth}: {median:7.1f} us, p99 {p99:7.1f} us",
                flush=True,
            )
            rows.append({
                "agent": name, "runtime": runtime, "on": on, "width": args.width, "depth": depth,
                "observations": SPEC.observation_dim, "actions": SPEC.action_dim, "calls": args.calls,
                "median_us": round(median, 2), "p99_us": round(p99, 2), "cpu": cpu(),
                "versions": versions(), "command": " ".join(["python", *sys.argv]),
            })  # fmt: skip
    if args.out:
        write_json(args.out, rows)


def cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


if __name__ == "__main__":
    main()
