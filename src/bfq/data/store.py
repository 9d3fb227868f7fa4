"""Where data is kept on this machine: one folder, which the user can choose.

A dataset on disk: a folder of plain arrays that is memory-mapped, so that it may be larger than memory.

    transitions.npy   (N, 2s + a + 2) float32: observations, actions, next observations, rewards, masks
    episode_ends.npy  (N,) bool
    returns.npy       (episodes,) float64
    infos-NAME.npy    (N, …): columns no agent sees, such as qpos and qvel
    dataset.json      its name, source, notes, action bounds, fingerprint, and how it was made

A row is one piece of the disk, because drawing a batch reads rows in any order.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bfq.data.dataset import Dataset
from bfq.data.statistics import Summarizer, Summary
from bfq.errors import BadInput, Busy, DiskTrouble
from bfq.files import locked, write_json

HOME = "BFQ_HOME"  # the environment variable that names the folder


def home() -> Path:
    """The folder of everything that can be made or fetched again: $BFQ_HOME, or bfq in the user's cache."""
    chosen = os.environ.get(HOME)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "bfq"


def dataset_folder(name: str) -> Path:
    """Where the dataset of that name is kept; a name may have folders in it, such as local/hopper-medium."""
    parts = name.split("/")
    if not all(
        part and part.strip(".") and part.isprintable() and "\\" not in part for part in parts
    ):
        raise BadInput(f"{name!r} cannot name a dataset: use letters, digits, dashes and slashes.")
    return home().joinpath("datasets", *parts)


def downloads() -> Path:
    """Where fetched files are kept as they came."""
    return home() / "downloads"


FORMAT = 1
CARD = "dataset.json"
Row = npt.NDArray[Any]


def save(dataset: Dataset, folder: Path, made: Mapping[str, Any] | None = None) -> Dataset:
    """Keeps a dataset in a folder that does not exist yet, and returns it as read back from there."""
    with Writer(folder) as writer:
        writer.append(dataset)
        return writer.finish(dataset.name, dataset.source, dataset.notes, made)


def load(folder: Path) -> Dataset:
    """The dataset in a folder. Nothing is read before it is used, and nothing in it is executed."""
    card = _card(folder)
    try:
        dataset = _assembled(folder, card)
        if "summary" not in card:  # while it is being written
            return dataset
        return dataset.known(_summary(card["summary"], _array(folder / "returns.npy")))
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise BadInput(
            f"the dataset in {folder} is damaged ({error}): remove the folder."
        ) from error


def _assembled(folder: Path, card: Mapping[str, Any]) -> Dataset:
    """The columns as views of the mapped rows."""
    packed, ends = _array(folder / "transitions.npy"), np.array(_array(folder / "episode_ends.npy"))
    infos = {name: _array(_info(folder, name)) for name in card["infos"]}
    low, high = (np.asarray(card[name], np.float32) for name in ("action_low", "action_high"))
    s, a = int(card["observation_dim"]), int(card["action_dim"])
    rows = {len(ends), *map(len, infos.values())}
    if packed.shape != (len(ends), 2 * s + a + 2) or len(rows) > 1:
        raise ValueError("its arrays differ in length")
    if packed.dtype != np.float32 or ends.dtype != bool or not len(low) == len(high) == a:
        raise ValueError("its arrays are not of the kinds its card tells")
    observations, actions, following, rewards, masks = np.split(
        packed, np.cumsum([s, a, s, 1]), axis=1
    )
    return Dataset(
        observations,
        actions,
        rewards[:, 0],
        following,
        masks[:, 0],
        ends,
        low,
        high,
        str(card["name"]),
        str(card["source"]),
        tuple(map(str, card["notes"])),
        infos,
    )


def _array(path: Path) -> Row:
    array: Row = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def exists(folder: Path) -> bool:
    """Whether a complete dataset is kept there."""
    return (folder / CARD).is_file()


def made(folder: Path) -> dict[str, Any]:
    """How the dataset in a folder came to be, as its card tells."""
    told = _card(folder).get("made")
    return told if isinstance(told, dict) else {}


def _card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"there is no dataset in {folder}: {error}.") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise BadInput(f"{folder / CARD} is not the card of a dataset.")
    return card


def _info(folder: Path, name: str) -> Path:
    if not name.replace("_", "").isalnum():
        raise ValueError(f"{name!r} cannot name a column")
    return folder / f"infos-{name}.npy"


class Writer:
    """Writes a dataset piece by piece beside its place, and moves it there when it is whole.

    `recipe` tells what is being written: a writer that finds the pieces of a killed one with the same recipe
    goes on after them. Pieces may be counted apart by a label.
    """

    def __init__(
        self, folder: Path, recipe: Mapping[str, Any] | None = None, replace: bool = False
    ):
        self._folder, self._part = folder, folder.with_name(f".{folder.name}.part")
        self._before = folder.with_name(f".{folder.name}.before")
        self._recipe = json.loads(json.dumps(recipe or {}))
        self._journal = self._part / "journal.json"
        self._state: dict[str, Any] = {}
        self._summarizer: Summarizer | None = None
        self._lock, self._replace, self._moved = ExitStack(), replace, False

    def __enter__(self) -> "Writer":
        self._check_place()
        self._hold()
        with _disk(self._part):
            self._state = self._held() or {"pieces": {}, "rows": 0, "columns": {}}
            self._summarizer = None if self.rows else Summarizer()
            for file in self._part.glob("*.npy"):
                row_bytes = self._state["columns"].get(file.name, [None, 0])[1]
                os.truncate(file, _HEADER + self.rows * row_bytes if row_bytes else 0)
        return self

    def __exit__(self, *trouble: object) -> None:
        if self._recipe or self._moved:
            self._lock.close()
        else:  # nobody can go on with it
            self._discard()

    def _hold(self) -> None:
        """Makes the folder of the pieces and keeps others off; they may move it away or finish before us."""
        with _disk(self._part):
            self._part.mkdir(parents=True, exist_ok=True)
        refusal = "another process is writing {folder}: wait for it."
        try:
            self._lock.enter_context(locked(self._part, refusal))
        except BadInput as error:
            if self._part.exists():
                raise
            raise Busy(refusal.format(folder=self._part)) from error
        with _disk(self._folder):
            self._settle()
        if exists(self._folder) and not self._replace:
            self._discard()
            raise Busy(f"another process has just written {self._folder}.")

    def _settle(self) -> None:
        """Ends what a writer began that was killed while replacing: the former data stand if no others do."""
        if self._before.is_dir() and not exists(self._folder):
            os.replace(self._before, self._folder)
        shutil.rmtree(self._before, ignore_errors=True)

    def _discard(self) -> None:
        """Removes the pieces: under another name, since the next writer may come as soon as the lock goes."""
        gone = self._part.with_name(f".{secrets.token_hex(8)}.gone")
        with suppress(OSError):
            os.replace(self._part, gone)
        self._lock.close()
        shutil.rmtree(gone, ignore_errors=True)

    def _check_place(self) -> None:
        """Refuses a name that is taken, holds other datasets or lies in one: replacing it would take them."""
        if exists(self._folder) and not self._replace:
            raise BadInput(f"there is a dataset in {self._folder} already: remove it first.")
        if self._folder.is_dir() and not exists(self._folder) and any(self._folder.iterdir()):
            raise BadInput(f"{self._folder} is a folder of other datasets: choose another name.")
        for above in self._folder.parents:
            if exists(above):
                raise BadInput(
                    f"{above} is a dataset, so none can be kept inside it: choose another name."
                )

    def _held(self) -> dict[str, Any] | None:
        try:
            journal = json.loads(self._journal.read_text())
            return journal["state"] if journal["recipe"] == self._recipe and self._recipe else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def pieces(self, label: int = 0) -> int:
        """How many pieces with this label are safely written."""
        return int(self._state["pieces"].get(str(label), 0))

    @property
    def rows(self) -> int:
        """How many transitions are safely written."""
        return int(self._state["rows"])

    def append(self, piece: Dataset, label: int = 0) -> None:
        """Adds transitions; all pieces have the same widths, bounds and extra columns."""
        told = {
            "observation_dim": piece.observation_dim,
            "action_dim": piece.action_dim,
            "action_low": piece.action_low.tolist(),
            "action_high": piece.action_high.tolist(),
            "infos": sorted(piece.infos),
        }
        if self._state.setdefault("told", told) != told:
            raise BadInput(
                f"{piece.name} does not go with what came before: its observations, actions, action bounds "
                "(give them: --action-low, --action-high) or extra columns differ."
            )
        packed = np.concatenate([_as_rows(getattr(piece, name)) for name in PACKED], axis=1)
        columns = {"transitions.npy": packed, "episode_ends.npy": piece.episode_ends}
        columns |= {
            _info(self._part, name).name: np.asarray(column) for name, column in piece.infos.items()
        }
        if self._summarizer is not None:
            self._summarizer.add(piece.columns)
        with _disk(self._part):
            for name, column in columns.items():
                self._write(name, np.ascontiguousarray(column))
            self._state["pieces"][str(label)] = self.pieces(label) + 1
            self._state["rows"] += len(piece)
            write_json(self._journal, {"recipe": self._recipe, "state": self._state})

    def _summary(self) -> Summary:
        """Of all pieces: worked out while they came, or, where some were there before, from the disk."""
        if self._summarizer is None:
            return load(self._part).summary
        return self._summarizer.result(
            {
                name: np.asarray(self._state["told"][name], np.float32)
                for name in ("action_low", "action_high")
            }
        )

    def _write(self, name: str, column: Row) -> None:
        row_bytes = column.nbytes // max(len(column), 1)
        self._state["columns"].setdefault(
            name, [[column.dtype.str, list(column.shape[1:])], row_bytes]
        )
        with (self._part / name).open("ab") as file:
            if file.tell() == 0:
                file.write(b"\0" * _HEADER)  # the number of rows is known at the end
            file.write(column.data if column.size else b"")

    def finish(
        self,
        name: str,
        source: str,
        notes: tuple[str, ...] = (),
        made: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Completes the dataset and moves it to its place."""
        if self.rows == 0:
            raise BadInput("there is no transition in it: at least one row is needed.")
        with _disk(self._part):
            for column, ((dtype, shape), _) in self._state["columns"].items():
                with (self._part / column).open("r+b") as file:
                    file.write(_header(dtype, (self.rows, *shape)))
            card = {
                "format": FORMAT,
                "name": name,
                "source": source,
                "notes": list(notes),
                "made": dict(made or {}),
            }
            card |= {**self._state["told"], "transitions": self.rows}
            write_json(self._part / CARD, card)
            np.save(self._part / "returns.npy", np.zeros(0))
            summary = self._summary()
            np.save(self._part / "returns.npy", summary.episode_returns)
            write_json(self._part / CARD, {**card, "summary": _told(summary)})
            self._journal.unlink()
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            if (
                self._folder.exists()
            ):  # a moment without either is the shortest that renaming allows
                os.replace(self._folder, self._before)
            os.replace(self._part, self._folder)
            self._moved = True
            (self._folder / ".lock").unlink(
                missing_ok=True
            )  # before, the pieces would be anybody's
            shutil.rmtree(self._before, ignore_errors=True)
        return load(self._folder)


def _told(summary: Summary) -> dict[str, Any]:
    """A summary as JSON; the returns have a file of their own."""
    told = {name: value for name, value in vars(summary).items() if name != "episode_returns"}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in told.items()
    }


def _summary(told: Mapping[str, Any], returns: npt.NDArray[np.float64]) -> Summary:
    means: Any = {
        name: np.asarray(value) for name, value in told.items() if isinstance(value, list)
    }
    return Summary(**{**told, **means}, episode_returns=returns)


PACKED = ("observations", "actions", "next_observations", "rewards", "masks")


def _as_rows(column: Row) -> Row:
    return column.reshape(len(column), -1)


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The head of an npy file, as long for any number of rows: NumPy leaves room to grow."""
    head = BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return head.getvalue()


_HEADER = len(_header("<f4", (1, 1)))


@contextmanager
def _disk(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskTrouble(f"cannot write to {place}: {error.strerror or error}.") from error
