"""The structure of the packages: import order, sizes, names, and what nothing may do."""

import ast
import importlib.util
from collections import Counter
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import bfq

ROOT = Path(bfq.__path__[0])
SOURCE, TESTS = ROOT.parent, Path(__file__).parent
# A layer may import earlier ones, and itself.
LAYERS = [
    ["errors", "files", "records", "options", "run", "progress"],
    ["envs"],
    ["data"],
    ["tasks"],
    ["nets"],
    ["flow"],
    ["agents"],
    ["kernels"],
    ["presets"],
    ["training"],
    ["evaluation"],
    ["bench"],
    ["scoring"],
    ["settings"],
    ["trained"],
    ["reports"],
    ["hooks", "evaluators"],
    ["experiment"],
    ["results"],
    ["deploy"],
    ["offline"],
    ["api", "sweeps"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Stricter than the order: the only layers that a layer may import.
ONLY = {
    "nets": {"nets"},
    "flow": {"flow", "nets"},
    "agents": {"agents", "flow", "nets", "errors", "records"},
    "kernels": {"kernels", "nets"},
    "reports": {"reports", "errors", "files", "options", "run"},
    "envs": {"envs", "errors", "options", "records"},
    "presets": {"presets", "options", "records"},
}
SIMULATORS = {"gymnasium", "mujoco", "ogbench", "gymnasium_robotics"}
NO_SIMULATORS = {"nets", "flow", "agents", "training", "reports"}
PICKLES = {"pickle", "dill", "joblib", "cloudpickle"}
WITH_PICKLES = {ROOT / "envs/worker_pool.py"}  # from its own processes, never from a file


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """Everything that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def lines(paths) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
INSIDE = [path for name, path in FILES.items() if name.startswith("bfq.")]
OURS = [(path.relative_to(ROOT).parts[0].removesuffix(".py"), path) for path in INSIDE]


def reached(name: str) -> list[Path]:
    """The files that are imported with a module, directly or not."""
    seen, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in FILES and one not in seen:
            seen.add(one)
            todo += imports(FILES[one])
    return [FILES[one] for one in seen]


def test_imports_go_one_way():
    for layer, path in OURS:
        assert layer in RANK, f"{path} has no layer"
        for name in imports(path):
            assert name.split(".")[0] != "bfq_paper", f"{path} imports {name}"
            if name.startswith("bfq."):
                other = name.split(".")[1]
                assert RANK.get(other, 0) <= RANK[layer], f"{path} imports {name}"
                assert other in ONLY.get(layer, {other}), f"{path} imports {name}"


def test_the_paper_uses_public_names_only():
    """`from bfq import NAME`, or from one of the public packages."""
    for path in (ROOT.parent / "bfq_paper").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "bfq":
                assert {alias.name for alias in node.names} <= set(bfq.__all__), path
        modules = {".".join(name.split(".")[:2]) for name in imports(path)}
        used = {name.split(".")[1] for name in modules if name.startswith("bfq.")}
        assert used <= set(bfq.__all__), f"{path} imports {used - set(bfq.__all__)}"


def test_forbidden_imports():
    for layer, path in OURS:
        packages = {name.split(".")[0] for name in imports(path)}
        assert layer not in NO_SIMULATORS or not packages & SIMULATORS, path
        assert path in WITH_PICKLES or not packages & PICKLES, path
        assert "allow_pickle=True" not in path.read_text(), path


# Modules for all agents; and agents that hold what their family shares.
SHARED_BY_AGENTS = {
    "contract", "fields", "learning", "actor_critic", "fql", "dql", "iql", "td3_bc", "sac_n",
    "deterministic",
}  # fmt: skip


def test_agents_are_short_and_import_only_what_agents_share():
    folder = ROOT / "agents"
    for path in folder.glob("*.py"):
        assert lines([path]) <= 300, path
        if "AGENT = " not in path.read_text():
            continue
        known = {name.split(".")[2] for name in imports(path) if name.startswith("bfq.agents.")}
        modules = {name for name in known if (folder / f"{name}.py").exists()}
        assert modules <= SHARED_BY_AGENTS, path


def test_the_loop_names_no_agent_and_no_task():
    text = " ".join(path.read_text() for path in (ROOT / "training").glob("*.py"))
    for word in ("bfq.agents.bfq", "pendulum", "halfcheetah", "antmaze"):
        assert word not in text


def test_the_public_names_are_few_and_real():
    assert len(set(bfq.__all__) - set(bfq.PACKAGES)) <= 40
    for name in bfq.__all__:
        assert getattr(bfq, name) is not None


def test_the_package_states_its_version_and_its_types():
    assert bfq.__version__ == version("bfq-rl")
    assert (ROOT / "py.typed").exists()


EXPLAINED = {f"bfq.agents.{name}": (10, 1_200) for name in ("bfq", "fql", "dql", "td3_bc")}
EXPLAINED["bfq.cli.train"] = (60, 10_500)
PACKAGES = {"bfq": (172, 25_900), "bfq_paper": (20, 3_500)}


@pytest.mark.parametrize("module", EXPLAINED)
def test_few_files_explain_an_update_and_a_command(module):
    (files, size), found = EXPLAINED[module], reached(module)
    assert len(found) <= files
    assert lines(found) <= size


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_and_their_files_are_small(package):
    files, size = PACKAGES[package]
    found = [path for name, path in FILES.items() if name.split(".")[0] == package]
    assert len(found) <= files
    assert lines(found) <= size
    assert not [path for path in found if lines([path]) > 400]


# Names that every agent, command or package of losses defines.
SAME_EVERYWHERE = {
    "init", "update", "act", "sample", "critic_loss", "policy_loss", "total_loss", "losses",
    "Config", "State", "Networks", "add_arguments", "run",
}  # fmt: skip


def test_a_public_name_is_defined_once():
    kinds = ast.ClassDef | ast.FunctionDef
    nodes = [node for path in FILES.values() for node in tree(path).body if isinstance(node, kinds)]
    names = Counter(node.name for node in nodes if not node.name.startswith("_"))
    assert not {name for name, count in names.items() if count > 1} - SAME_EVERYWHERE


# Names of other libraries: named tuples, os, MuJoCo's and OGBench's environments.
NOT_OURS = {"_replace", "_asdict", "_fields", "_make", "_exit", "_model", "_data"}
NOT_OURS |= {"_reward_task_id", "_cur_button_states"}


def names_used(node: ast.AST) -> list[str]:
    """The names that a node imports, reads from an object, or patches by a dotted path."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [] if getattr(node.value, "id", "") == "self" else [node.attr]
    if isinstance(node, ast.Constant) and str(node.value).startswith(("bfq.", "bfq_paper.")):
        return str(node.value).split(".")
    return []


def test_tests_use_public_names():
    for path in TESTS.glob("*.py"):
        used = {name for node in ast.walk(tree(path)) for name in names_used(node)}
        private = {name for name in used if name.startswith("_") and not name.startswith("__")}
        assert not private - NOT_OURS, path


@pytest.mark.parametrize("folder", ["benchmarks", "tools", "examples"])
def test_scripts_import_what_exists(folder):
    """mypy does not read these folders."""
    for path in (ROOT.parent.parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES:
                module = importlib.import_module(node.module)
                for alias in node.names:
                    found = hasattr(module, alias.name)
                    assert found or importlib.util.find_spec(f"{node.module}.{alias.name}"), path
