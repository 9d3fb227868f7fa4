"""Every array shape in a signature is checked while the tests run."""

from jaxtyping import install_import_hook

CHECKED = ["bfq.nets", "bfq.flow", "bfq.agents", "bfq.evaluation.distributions", "bfq.data.checkerboard"]
install_import_hook(CHECKED, "beartype.beartype")
