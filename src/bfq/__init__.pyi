"""The types of the public names, for editors and type checkers; `__init__.py` imports them when used."""

from bfq import evaluators as evaluators
from bfq.agents.contract import Acting as Acting
from bfq.agents.contract import Agent as Agent
from bfq.agents.contract import Batch as Batch
from bfq.agents.contract import Spec as Spec
from bfq.agents.fields import hyperparameters as hyperparameters
from bfq.agents.registry import register as register
from bfq.api import Fit as Fit
from bfq.api import Sweep as Sweep
from bfq.api import finetune as finetune
from bfq.api import fit as fit
from bfq.api import plan as plan
from bfq.api import sweep as sweep
from bfq.api import train as train
from bfq.data.arrays import from_arrays as from_arrays
from bfq.data.arrays import from_episodes as from_episodes
from bfq.data.dataset import Dataset as Dataset
from bfq.deploy.export import export as export
from bfq.errors import BadInput as BadInput
from bfq.evaluation.policy import Policy as Policy
from bfq.hooks import patience as patience
from bfq.offline.evaluate import evaluate_offline as evaluate_offline
from bfq.results import Frame as Frame
from bfq.results import Result as Result
from bfq.results import evaluate as evaluate
from bfq.results import load_policy as load_policy
from bfq.results import load_result as load_result
from bfq.results import report as report
from bfq.run import versions as versions
from bfq.tasks.sources import load_dataset as load_dataset
from bfq.training.loop import Progress as Progress
from bfq.training.loop import Stopped as Stopped
from bfq.training.monitoring import Diverged as Diverged

PACKAGES: tuple[str, ...]
__version__: str
__all__: list[str]
