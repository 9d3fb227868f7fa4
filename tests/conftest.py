"""Every array shape in a signature is checked while the tests run."""

import os
import tempfile

# Tests compile many small programs: compiling less thoroughly makes them several times faster, and what one
# process has compiled another need not compile again (workers and commands inherit these variables).
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="bfq-compiled-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

# Data that tests make is kept away from the user's own.
os.environ["BFQ_HOME"] = tempfile.mkdtemp(prefix="bfq-tests-")

from jaxtyping import install_import_hook  # noqa: E402 - after the flags, which JAX reads once

CHECKED = [
    "bfq.nets",
    "bfq.flow",
    "bfq.diffusion",
    "bfq.agents.values",
    "bfq.agents.learning",
    "bfq.evaluation.distributions",
    "bfq.data.checkerboard",
]
install_import_hook(CHECKED, "beartype.beartype")

from bfq.simulation.optional import choose_graphics  # noqa: E402 - after the hook, which sees modules imported later

choose_graphics()  # MuJoCo looks once, when it is first imported, and some tests import it themselves
