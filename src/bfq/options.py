"""The options of a run, each declared once with its type, range, help and flag.

The command line, the checks, the printed command and the keywords of `bfq.train` are derived from these
declarations.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_type_hints

import msgspec
from msgspec import Meta

from bfq.errors import BadInput, unknown
from bfq.records import check_value


class Shown(NamedTuple):
    """How an option with a help text appears on the command line, and its default."""

    metavar: str = "N"
    flag: str | None = None  # --NAME unless given
    default: Any = None


# Names appear in pages, file names and commands: no angle brackets, no control characters.
Name = Annotated[str, Meta(pattern=r"^[^<>\x00-\x1f\x7f]+\Z", max_length=4096)]
# An id such as Pendulum-v1, or `module:Name`, which is imported only if the user names it (bfq.envs.own).
Simulator = Annotated[str, Meta(pattern=r"^[\w./-]+(:[\w.-]+)?\Z", max_length=200)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Several = Annotated[int, Meta(ge=1, le=10_000)]
Calls = Annotated[int, Meta(ge=0, le=1000)]
Factor = Annotated[float, Meta(ge=0, le=1_000_000)]
Value = bool | int | float | str

Precision = Literal["float32", "bfloat16"]
Replay = Literal["symmetric", "balanced", "new"]
Episodes = Annotated[Positive, "episodes per seed in each evaluation"]
FirstSeed = Annotated[Natural, "simulator seed of the first episode of an evaluation"]

Checkpoint = Annotated[
    Literal["last", "best"],
    "the checkpoint that is scored; best: the one with the highest mean score so far",
    Shown("RULE"),
]


class ActingOptions(TypedDict):
    """How the trained network chooses an action in an evaluation."""

    candidates: Annotated[Several, "actions drawn per state; the critic selects one of them"]
    temperature: Annotated[Factor, "scale of the initial noise", Shown("X")]
    selection: Annotated[
        Literal["argmax", "softmax"], "rule that selects among the candidates", Shown("RULE")
    ]
    softmax_weight: Annotated[Factor, "w in softmax(w · Q)", Shown("W")]
    policy: Annotated[
        Literal["ema", "online"], "weights that act: averaged or current", Shown("WEIGHTS")
    ]
    sampling_steps: Annotated[Calls, "network calls per action; 0: as trained"]
    sampler: Annotated[
        Name, "sampling rule of these steps, such as ddim; see `bfq agents`", Shown("NAME")
    ]


class ProtocolValues(ActingOptions):
    """Everything besides the policy that can change a score."""

    episodes: Episodes
    seed: FirstSeed
    checkpoint: Checkpoint


class DataOptions(TypedDict):
    """The transforms of the data before training."""

    observations: Name
    reward: Name


class RunOptions(TypedDict, total=False):
    """The options of a run. What is left out comes from the task and from the agent's preset."""

    task: Annotated[
        Name,
        "a task (see `bfq tasks`), or your own folder or file: .npz, .csv, .csv.gz, .parquet, .feather, "
        ".arrow, .hdf5, .h5, .jsonl or .json",
        Shown("NAME"),
    ]
    agent: Annotated[
        Name,
        "an agent (see `bfq agents`), or a Python file with an agent",
        Shown("NAME", default="bfq"),
    ]

    steps: Annotated[Positive, "gradient updates; default from the preset"]
    seeds: Annotated[
        Several | list[Natural], "a number of seeds, or a list such as 3,7", Shown(default=5)
    ]
    values: Annotated[
        dict[str, Value | list[Value]],
        "a hyperparameter; each of several values is trained with every seed",
        Shown("NAME=VALUE[,VALUE…]", "--set"),
    ]
    baselines: Annotated[
        list[Name],
        "also train this agent with its own preset and show it in the report; several as iql,bc; "
        "`all` for every other agent",
        Shown("AGENT", "--baseline", default=()),
    ]
    eval_episodes: Episodes
    eval_seed: FirstSeed
    checkpoint: Checkpoint
    evaluations: Annotated[
        Natural | list[Positive],
        "how many during training, or a list of updates after which to evaluate",
        Shown(default=8),
    ]
    transforms: Annotated[
        dict[str, Name],
        "a transform of the data, such as observations=none or reward=standardize; default from the "
        "preset",
        Shown("NAME=TRANSFORM", "--transform"),
    ]
    env: Annotated[
        Simulator,
        "environment that scores a policy of your own data: a Gymnasium id, module:Class or module:Id",
        Shown("ENV"),
    ]
    episode_steps: Annotated[Positive, "episode limit with --env; default the environment's own"]
    start_from: Annotated[
        Name,
        "start from the weights, the optimizer and the settings of this run; for more updates, or with "
        "other data, transformed as there",
        Shown("RUN", "--from"),
    ]
    online: Annotated[
        Positive,
        "take this many steps in the environment per seed, with a gradient update after each, on the data "
        "and on the new experience",
    ]
    replay: Annotated[
        Replay,
        "batches of --online: symmetric is half data and half experience, balanced is drawn from both "
        "together, new is experience only",
        Shown("RULE", default="symmetric"),
    ]
    exploration: Annotated[
        Factor,
        "noise on the actions of --online, in half action ranges",
        Shown("STD", default=0.1),
    ]
    keep_going: Annotated[bool, "do not stop when a seed diverges", Shown(default=False)]
    precision: Annotated[
        Precision,
        "bfloat16 multiplies faster on NVIDIA GPUs",
        Shown("NAME", default="float32"),
    ]
    chunk: Annotated[Positive, "updates per compiled call; default depends on the device"]


class ImportOptions(TypedDict, total=False):
    """How tables and files of a log are read: options of `bfq data import` and `bfq.load_dataset`."""

    drop_bad_rows: Annotated[
        bool,
        "drop rows with missing, infinite or unreadable values and cut their episodes there",
        Shown(),
    ]
    report: Annotated[Name, "write all defects of the rows to this CSV file", Shown("FILE")]
    resample: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)],
        "put rows on a regular grid; needs --columns time=…",
        Shown("SECONDS"),
    ]
    categorical: Annotated[
        dict[str, list[str]],
        "observations to encode as one 0/1 number per category; categories in another order, or those of an "
        "earlier file, as COLUMN=A+B+C",
        Shown("COLUMN[,…]"),
    ]
    units: Annotated[
        dict[str, str],
        "the unit of a column, or none; other units come from the header",
        Shown("COLUMN=UNIT"),
    ]


class Option(NamedTuple):
    """One option, as its declaration describes it."""

    name: str
    type: Any
    flag: str
    metavar: str
    help: str
    default: Any

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of a value."""
        return msgspec.json.schema(self.type)

    @property
    def kind(self) -> str:
        """The JSON type of a value: boolean, object, array, integer, number or string; `` for several."""
        return str(self.schema.get("type", "string" if "enum" in self.schema else ""))


def options_of(*declarations: type) -> dict[str, Option]:
    """The options that these classes declare, by name."""
    found: dict[str, Option] = {}
    for declaration in declarations:
        for name, hint in get_type_hints(declaration, include_extras=True).items():
            notes = getattr(hint, "__metadata__", ())
            shown = next((note for note in notes if isinstance(note, Shown)), Shown())
            flag = shown.flag or f"--{name.replace('_', '-')}"
            for text in (note for note in notes if isinstance(note, str)):
                found[name] = Option(name, hint, flag, shown.metavar, text, shown.default)
    return found


OPTIONS = options_of(RunOptions, ActingOptions)
IMPORT = options_of(ImportOptions)
PROTOCOL = options_of(ProtocolValues)
ACTING = options_of(ActingOptions)


def check_options(given: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """The options that are not None, with checked names, types and ranges."""
    for name in given:
        if name not in known:
            raise unknown("option", name, known)
    return {
        name: check_value(name, value, known[name].type)
        for name, value in given.items()
        if value is not None
    }


def spell(option: Option, value: Any) -> list[str]:
    """The words on a command line that give an option this value."""
    if option.kind == "boolean":
        return [option.flag] if value else []
    if option.kind == "object":
        pairs = [f"{name}={_text(one)}" for name, one in value.items()]
        return [word for pair in pairs for word in (option.flag, pair)]
    return [option.flag, _text(value)]


def _text(value: Any) -> str:
    """`6`, `true`, `0.1,0.3`; a list of one number ends with a comma: `3,`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        alone = len(value) == 1 and isinstance(value[0], int)
        return ",".join(map(_text, value)) + ("," if alone else "")
    return str(value)


def parse(option: Option, given: Any) -> Any:
    """The value of an option from what follows its flag: a word, or a list where it can be repeated."""
    if option.kind == "boolean":
        return given
    if option.kind == "object":
        kind = option.schema["additionalProperties"].get("type")
        if kind == "array":
            words = (word.partition("=") for one in given for word in one.split(",") if word)
            return {name: values.split("+") if equals else [] for name, equals, values in words}
        return (
            parse_names(given, option.flag)
            if kind == "string"
            else parse_values(given, option.flag)
        )
    if option.kind == "array":
        value: Any = [name for word in given for name in word.split(",") if name]
    elif option.kind == "":
        value = (
            [_number(one) for one in given.split(",") if one] if "," in given else _number(given)
        )
    else:
        value = given if option.kind == "string" else _number(given)
    return check_value(option.flag, value, option.type)


def _number(word: str) -> Any:
    """A number, or the word itself."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def parse_values(words: Sequence[str], flag: str = "--set") -> dict[str, list[Any]]:
    """`eta=0.05,0.1` as {"eta": [0.05, 0.1]}."""
    found = _pairs(words, flag, "NAME=VALUE or NAME=VALUE,VALUE,…")
    if any("=" in value for values in found.values() for value in values):
        raise BadInput(f"{flag} takes one name: repeat {flag} for each name.")
    return {
        name: [one == "true" if one in ("true", "false") else _number(one) for one in values]
        for name, values in found.items()
    }


def parse_names(words: Sequence[str], flag: str) -> dict[str, str]:
    """`observations=obs,actions=act` as {"observations": "obs", "actions": "act"}."""
    pairs = ",".join(words).split(",") if words else []
    return {name: other for name, (other,) in _pairs(pairs, flag, "NAME=NAME").items()}


def _pairs(words: Sequence[str], flag: str, form: str) -> dict[str, list[str]]:
    """`NAME=VALUE,VALUE` of each word as a name with its values."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not (equals and name and all(values.split(","))):
            raise BadInput(f"{flag} takes {form}, not {word!r}.")
        if name in found:
            raise BadInput(f"{flag} {name} is given twice: give all its values at once.")
        found[name] = values.split(",")
    return found
