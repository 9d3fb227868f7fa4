"""Every array shape in a signature is checked while the tests run."""

import os
import tempfile

# Tests compile many small programs once each: compiling less thoroughly makes them several times faster.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()

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
