"""From whatever holds logged data to a `Dataset`: files, folders, tables, episodes and replay buffers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data import store
from bfq.data.arrays import from_episodes
from bfq.data.cells import Cells
from bfq.data.checks import as_array
from bfq.data.dataset import Dataset
from bfq.data.defects import describe_rows, refuse
from bfq.data.ranges import BOUNDS
from bfq.data.readers import Table, reader
from bfq.errors import BadInput, unknown
from bfq.options import IMPORT, check_options

HDF5 = (".hdf5", ".h5")
KINDS = (
    "a Dataset, a path, a dict of arrays, a pandas, Polars or Arrow table, a list of episodes, a Minari dataset, "
    "or a replay buffer of d3rlpy or Stable-Baselines3"
)


def as_dataset(data: Any, columns: Mapping[str, Any] | None = None, **options: Any) -> Dataset:
    """Turn `data` into a Dataset; BadInput says what is wrong with it.

    Args:
        data: A Dataset; the path of a file or folder; a dict of arrays; a pandas, Polars or Arrow table; a list
            of episodes as `from_episodes` takes them; a Minari dataset; a replay buffer of d3rlpy or
            Stable-Baselines3.
        columns: For tables and files, which column is which: `{"observations": "temperature+pressure"}`.
        options: `action_low` and `action_high`, inferred from the data if they are not given, `name`, and, for
            tables and files, the options of `bfq data import`.
    """
    for name in options:
        if name not in (*BOUNDS, "name", *IMPORT):
            raise unknown("option", name, (*BOUNDS, "name", *IMPORT))
    given = {name: value for name, value in options.items() if value is not None}
    checked = (name for name in IMPORT if name in given and not isinstance(given[name], list))
    given |= check_options({name: given[name] for name in checked}, IMPORT)
    if isinstance(data, str | Path):
        return read_path(Path(data).expanduser(), columns, **given)
    table = _as_table(data)
    if table is not None:
        return reader("tables:from_table")(table, "table", columns, **given)
    _check_plain(f"a {type(data).__name__}", _of_columns(columns, given))
    if isinstance(data, Dataset):
        _check_plain("a Dataset", given)
        return data
    if isinstance(data, list | tuple) and all(isinstance(one, Mapping) for one in data):
        return from_episodes(data, **{**dict.fromkeys(BOUNDS), **given})
    if hasattr(data, "iterate_episodes"):
        return reader("minari:from_minari")(data, **given)
    if hasattr(data, "episodes"):
        return reader("buffers:from_d3rlpy")(data, **given)
    if hasattr(data, "dones") and hasattr(data, "pos"):
        return reader("buffers:from_stable_baselines")(data, **given)
    raise BadInput(f"bfq cannot read data from a {type(data).__name__}: give {KINDS}.")


def read_path(path: Path, columns: Mapping[str, Any] | None = None, **options: Any) -> Dataset:
    """Read a file or a folder, or the Minari dataset with this id; the content says how."""
    try:
        there = path.exists()
    except (OSError, ValueError) as error:  # too long, or with a null byte
        reason = getattr(error, "strerror", error)
        raise BadInput(f"{str(path)[:80]!r} cannot name a file: {reason}.") from error
    if path.is_dir() and store.exists(path):
        _check_plain(f"the dataset in {path}", {**(columns or {}), **options})
        return store.open_dataset(path)
    if (path / "meta" / "info.json").is_file():
        return reader("lerobot:read_lerobot")(path, columns, **options)
    if path.is_dir() or not (there or path.suffix):
        _check_plain(f"the Minari dataset {path}", _of_columns(columns, options))
        folder = path if path.is_dir() else reader("minari:find_minari")(str(path))
        return reader("minari:read_minari")(folder, **options)
    function = _layout(path) if path.suffix.lower() in HDF5 else None
    if function == "d4rl:read_d4rl" and _of_columns(columns, options):
        function = None  # a table with these columns
    if function is None:
        return reader("tables:read_table")(path, columns, **options)
    _check_plain(f"the layout of {path.name}", _of_columns(columns, options))
    return reader(function)(path, **options)


def _of_columns(columns: Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that only tables with columns have."""
    return {**(columns or {}), **{name: options[name] for name in IMPORT if name in options}}


def _check_plain(what: str, settings: Mapping[str, Any] | None) -> None:
    """Refuse settings of data whose columns are known."""
    if settings:
        raise BadInput(f"{what} has fixed columns: leave {', '.join(settings)} out.")


def _layout(path: Path) -> str | None:
    """The reader of an HDF5 file that another library wrote; None for any other table."""
    try:
        names = reader("binary:hdf5_names")(path)
    except BadInput:  # the reader of tables says what is wrong
        return None
    if reader("buffers:is_d3rlpy")(names):
        return "buffers:read_d3rlpy"
    if reader("buffers:is_tianshou")(names):
        return "buffers:read_tianshou"
    return "d4rl:read_d4rl" if reader("d4rl:is_d4rl")(path) else None


def _as_table(data: Any) -> Table | None:
    """The columns of a dict of arrays or of a data frame, if `data` is one."""
    if isinstance(data, Mapping):
        return Table(list(data), lambda names: {name: as_array(name, data[name]) for name in names})
    if hasattr(data, "to_arrow") and hasattr(data, "columns"):
        data = data.to_arrow()  # Polars
    if hasattr(data, "column_names"):
        return reader("arrow:as_table")(data)
    return _pandas_table(data) if hasattr(data, "iloc") and hasattr(data, "columns") else None


def _pandas_table(frame: Any) -> Table:
    places = {str(name): name for name in frame.columns}

    def column(name: str) -> npt.NDArray[Any]:
        values = frame[places[name]].to_numpy()
        if values.dtype != object:
            return np.asarray(values)
        missing = np.asarray(frame[places[name]].isna())
        if missing.any():
            found = f"the column {name} has no value in {describe_rows(missing)}"
            raise refuse("empty-cell", found)
        return as_array(name, values.tolist())  # words, lists, or numbers that could be missing

    return Table(
        list(places),
        lambda names: {name: column(name) for name in names},
        by_column=True,
        cells=lambda names: Cells({name: frame[places[name]].to_numpy() for name in names}),
    )
