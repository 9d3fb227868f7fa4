"""Array shapes in the signatures of what agents are built from (CHECKED) are checked while the tests run."""

import atexit
import os
import shutil
import tempfile
from html.parser import HTMLParser

# Tests compile many small programs: compiling less thoroughly makes them several times faster, and what one
# process has compiled another need not compile again (workers and commands inherit these variables).
FLAGS = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def temporary(prefix):
    """A folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = temporary("bfq-compiled-")
os.environ["BFQ_HOME"] = temporary("bfq-tests-")  # data of tests is kept away from the user's

import jax  # noqa: E402 - after the flags, which JAX reads once
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

CHECKED = ["bfq.nets", "bfq.flow", "bfq.agents.learning", "bfq_paper.checkerboard"]
install_import_hook(CHECKED, "beartype.beartype")

import bfq.kernels  # noqa: E402
from bfq.agents.registry import registered  # noqa: E402
from bfq.envs.make import choose_graphics  # noqa: E402 - after the hook, which sees modules imported later

bfq.kernels.install()  # the formulas that training uses, in tests of single networks too
choose_graphics()  # MuJoCo looks once, when it is first imported, and some tests import it themselves


@pytest.fixture(autouse=True, scope="module")
def forget_programs_and_agents():
    """A file's compiled programs and agents go with it; all files' programs would fill gigabytes."""
    before = dict(registered)
    yield
    registered.clear()
    registered.update(before)
    jax.clear_caches()


class Page(HTMLParser):
    """A page's elements and text; every element must be closed, and nothing loaded from elsewhere."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []
        assert page.startswith("<!doctype html>")
        assert not any(word in page for word in ("url(", "@import"))
        for name, attributes in self.elements:
            assert name not in ("script", "link", "iframe", "object")
            assert not any(key.startswith("on") for key in attributes)
            for key in ("src", "href", "srcset"):
                assert (attributes.get(key) or "#").startswith(("#", "data:image/png;base64,"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open += [] if tag in ("meta", "img") else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return [name for name, _ in self.elements].count(tag)


@pytest.fixture(scope="session")
def parse_page():
    """Parse and check an HTML page."""
    return Page


@pytest.fixture(scope="session")
def tiny_data():
    """Sixty random transitions in three episodes, with Pendulum's dimensions."""
    import numpy as np

    import bfq

    rng, n = np.random.default_rng(0), 60
    return bfq.from_arrays(
        observations=rng.normal(size=(n, 3)), actions=rng.uniform(-2, 2, (n, 1)),
        rewards=rng.normal(size=n), terminals=np.arange(n) % 20 == 19,
        action_low=-2.0, action_high=2.0, name="made-up",
    )  # fmt: skip


@pytest.fixture
def command(capsys):
    """Run `bfq` with these words: its exit code, standard output and standard error."""
    from bfq.cli.main import main

    def run(*words):
        capsys.readouterr()
        code = main([part for word in words for part in str(word).split()])
        return code, *capsys.readouterr()

    return run
