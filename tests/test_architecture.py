"""The tree's promises: imports go one way, and nothing reaches around."""

import ast
from importlib.metadata import version
from pathlib import Path

import bfq

ROOT = Path(bfq.__path__[0])
# A layer may import those before it, and itself.
LAYERS = [
    ["errors", "files", "records", "options", "run"],
    ["envs"],
    ["data"],
    ["tasks"],
    ["nets"],
    ["flow"],
    ["diffusion"],
    ["agents"],
    ["kernels"],
    ["presets"],
    ["training"],
    ["evaluation"],
    ["bench"],
    ["settings"],
    ["reports"],
    ["experiment"],
    ["sweep"],
    ["deploy"],
    ["api"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Stricter than the order: what a layer may see at all.
ONLY = {
    "nets": {"nets"},
    "flow": {"flow", "nets"},
    "diffusion": {"diffusion", "nets"},
    "agents": {"agents", "diffusion", "flow", "nets", "errors", "records"},
    "kernels": {"kernels", "nets"},
    "reports": {"reports", "errors", "files", "options", "run"},
    "envs": {"envs", "errors", "options", "records"},
    "presets": {"presets", "options", "records"},
}
SIMULATORS = {"gymnasium", "mujoco", "ogbench", "gymnasium_robotics"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{path} imports a neighbor by dots, and so by another name than all do"
            )
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def modules() -> list[tuple[str, Path]]:
    files = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    return [(path.relative_to(ROOT).parts[0].removesuffix(".py"), path) for path in files]


def test_every_module_has_a_layer():
    assert {layer for layer, _ in modules()} <= set(RANK)


def test_imports_go_one_way():
    for layer, path in modules():
        for name in imports(path):
            if name.startswith("bfq."):
                other = name.split(".")[1]
                assert RANK[other] <= RANK[layer], f"{path} imports {name}"
                assert other in ONLY.get(layer, {other}), f"{path} imports {name}"


def test_the_library_does_not_import_the_paper():
    for _, path in modules():
        assert not {name for name in imports(path) if name.split(".")[0] == "bfq_paper"}, path


def test_agents_and_training_know_no_simulator():
    for layer, path in modules():
        if layer in ("nets", "flow", "diffusion", "agents", "training", "reports"):
            assert not {name.split(".")[0] for name in imports(path)} & SIMULATORS, path


# Modules for all agents; and agents that hold what their family shares.
SHARED_BY_AGENTS = {"fields", "learning", "actor_critic", "fql", "dql", "iql", "td3_bc"}


def test_an_agent_can_be_read_at_one_sitting():
    for path in (ROOT / "agents").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 285, path


def test_agents_import_only_what_agents_share():
    folder = ROOT / "agents"
    for path in folder.glob("*.py"):
        known = {name.split(".")[2] for name in imports(path) if name.startswith("bfq.agents.")}
        modules = {name for name in known if (folder / f"{name}.py").exists()}
        assert modules <= SHARED_BY_AGENTS, path


def test_the_loop_names_no_agent_and_no_task():
    text = " ".join(
        path.read_text() for path in (ROOT / "training").glob("*.py") if path.stem != "toy"
    )
    for word in ("bfq.agents.bfq", "pendulum", "halfcheetah", "antmaze"):
        assert word not in text


def test_the_public_names_are_few_and_real():
    assert len(set(bfq.__all__) - set(bfq.PACKAGES)) <= 18
    for name in bfq.__all__:
        assert getattr(bfq, name) is not None


OWN_PIPES = {"worker_pool.py"}  # they talk to processes they started, and read no file


def test_nothing_loads_pickles():
    for _, path in modules():
        if path.parent.name == "envs" and path.name in OWN_PIPES:
            continue
        assert not imports(path) & {"pickle", "dill", "joblib", "cloudpickle"}, path
        assert "allow_pickle=True" not in path.read_text(), path


def test_the_package_states_its_version_and_its_types():
    assert bfq.__version__ == version("bfq-rl")
    assert (ROOT / "py.typed").exists()
