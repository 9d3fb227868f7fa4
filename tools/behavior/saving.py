"""Weight files of policies, as `bfq.tasks.weights` reads them."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np

from bfq.files import write_bytes
from bfq.tasks.weights import GaussianPolicy


def save_weights(path: Path, policy: GaussianPolicy) -> None:
    """Write the arrays in half precision: an error of 0.1 % in a weight is harmless."""
    half = {name: array.astype(np.float16) for name, array in policy.arrays.items()}
    content = BytesIO()
    np.savez_compressed(content, meta=np.array(json.dumps(policy.meta)), **half)
    write_bytes(path, content.getvalue())
