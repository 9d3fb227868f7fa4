"""The types of the public names, for editors and type checkers; `__init__.py` imports them when used."""

from bfq.agents.contract import Acting as Acting
from bfq.agents.contract import Agent as Agent
from bfq.agents.contract import Batch as Batch
from bfq.agents.contract import Spec as Spec
from bfq.agents.fields import hyperparameters as hyperparameters
from bfq.agents.registry import register as register
from bfq.api import Policy as Policy
from bfq.api import Result as Result
from bfq.api import evaluate as evaluate
from bfq.api import load_policy as load_policy
from bfq.api import plan as plan
from bfq.api import train as train
from bfq.data.arrays import from_arrays as from_arrays
from bfq.data.arrays import from_episodes as from_episodes
from bfq.data.dataset import Dataset as Dataset
from bfq.errors import BadInput as BadInput
from bfq.run import versions as versions
from bfq.tasks.sources import load_dataset as load_dataset

PACKAGES: tuple[str, ...]
__version__: str
__all__: list[str]
