"""Datasets on disk: folders of plain arrays that are memory-mapped, so they may be larger than memory.

    transitions.npy   (N, 2s + a + 2) float32: observations, actions, next observations, rewards, masks
    episode_ends.npy  (N,) bool
    returns.npy       (episodes,) float64
    infos-NAME.npy    (N, …): columns that agents do not see, such as qpos and qvel
    dataset.json      the card: name, source, notes, action bounds, fingerprint, how it was made

A row is contiguous on disk, because batches read rows in any order.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from bfq.data.dataset import Column, Dataset, DataSummary, SummaryCard
from bfq.errors import BadInput, Busy
from bfq.files import locked, write_json, writing
from bfq.options import Name, Positive, Simulator
from bfq.records import Labels, decode, read_text
from bfq.run import LARGEST_FLOAT32, Float32, as_json

HOME = "BFQ_HOME"  # the environment variable that names the folder
CARD = "dataset.json"
KEPT = "memory/"  # how the names of datasets that a program gave begin
FORMAT: Literal[1] = 1
PACKED = ("observations", "actions", "next_observations", "rewards", "masks")

ColumnName = Annotated[str, Meta(pattern=r"^\w+\Z", max_length=200)]


def home() -> Path:
    """The folder of everything that can be regenerated: $BFQ_HOME, or bfq in the user's cache."""
    chosen = os.environ.get(HOME)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "bfq"


def dataset_folder(name: str) -> Path:
    """The folder of the dataset of this name; a name may contain slashes, such as local/hopper-medium."""
    parts = name.split("/")
    if not all(
        part and part.strip(".") and part.isprintable() and not set(part) & set("\\<>")
        for part in parts
    ):
        raise BadInput(f"{name!r} cannot name a dataset: use letters, digits, dashes and slashes.")
    return home().joinpath("datasets", *parts)


def downloads() -> Path:
    """The folder of downloaded files."""
    return home() / "downloads"


@dataclass(frozen=True)
class SharedLayout:
    """The shapes and bounds that all pieces of a dataset share."""

    observation_dim: Positive
    action_dim: Positive
    action_low: list[Float32]
    action_high: list[Float32]
    infos: list[ColumnName]
    labels: Labels | None = None


@dataclass(frozen=True, kw_only=True)
class Card(SharedLayout):
    """What dataset.json holds."""

    format: Literal[1] = FORMAT
    name: Name
    source: str
    notes: list[str]
    made: dict[str, Any]
    transitions: Positive
    summary: SummaryCard
    env: Simulator | None = None

    def __post_init__(self) -> None:
        for name in ("action_low", "action_high"):
            if len(getattr(self, name)) != self.action_dim:
                raise ValueError(f"{name} must have {self.action_dim} numbers, like action_dim")
        if not all(low < high for low, high in zip(self.action_low, self.action_high, strict=True)):
            raise ValueError("action_low must be below action_high")
        for name in ("observation_mean", "observation_std"):
            if len(getattr(self.summary, name)) != self.observation_dim:
                raise ValueError(f"summary.{name} must have observation_dim numbers")
        if self.labels and (len(self.labels.observations), len(self.labels.actions)) != (
            self.observation_dim, self.action_dim
        ):  # fmt: skip
            raise ValueError("labels must name every observation and every action")
        if len(set(self.infos)) < len(self.infos):
            raise ValueError("infos must not repeat a name")


@dataclass
class Journal:
    """What a writer has safely written so far."""

    recipe: dict[str, Any]
    rows: int = 0
    pieces: dict[str, int] = field(default_factory=dict)  # with each label
    columns: dict[str, tuple[str, list[int]]] = field(default_factory=dict)  # type, shape of a row
    layout: SharedLayout | None = None


def save_dataset(dataset: Dataset, folder: Path, made: Mapping[str, Any] | None = None) -> Dataset:
    """Save a dataset in a folder that does not exist yet, and return it as read back from there."""
    with Writer(folder) as writer:
        writer.append(dataset)
        return writer.finish(dataset.name, dataset.source, dataset.notes, made, dataset.env)


def keep_dataset(dataset: Dataset) -> str:
    """Store a dataset of this process once, by its content, and return the name it is stored under."""
    words = re.sub(r"[^\w-]+", "-", dataset.name).strip("-") or "data"
    name = f"{KEPT}{words[:60]}-{dataset.sha256[:12]}"
    folder = dataset_folder(name)
    if not exists(folder):
        save_dataset(dataset, folder)
    return name


def open_dataset(folder: Path) -> Dataset:
    """Open the dataset in a folder. Rows are read when they are used; nothing is executed."""
    card = _read_card(folder)
    dataset = _assemble(folder, card, card.transitions)
    returns = _open_array(folder / "returns.npy", (len(dataset.last_rows),), np.float64)
    if not (np.abs(returns) <= len(dataset) * LARGEST_FLOAT32).all():  # NaN is not either
        raise BadInput(
            f"{folder / 'returns.npy'} is damaged: it holds numbers that are not finite."
        )
    named = replace(
        dataset, name=card.name, source=card.source, notes=tuple(card.notes), env=card.env,
        labels=card.labels,
    )  # fmt: skip
    summary = DataSummary(**vars(card.summary), episode_returns=returns)
    vars(named)["summary"] = summary  # where cached_property looks
    return named


def _assemble(folder: Path, layout: SharedLayout, rows: int) -> Dataset:
    """The columns as views of the mapped rows."""
    s, a = layout.observation_dim, layout.action_dim
    packed = _open_array(folder / "transitions.npy", (rows, 2 * s + a + 2), np.float32)
    ends = np.array(_open_array(folder / "episode_ends.npy", (rows,), np.bool_))
    infos = {name: _open_array(folder / f"infos-{name}.npy", (rows,)) for name in layout.infos}
    cuts = np.cumsum([s, a, s, 1])
    observations, actions, following, rewards, masks = np.split(packed, cuts, axis=1)
    low, high = (np.asarray(bound, np.float32) for bound in (layout.action_low, layout.action_high))
    return Dataset(
        observations, actions, rewards[:, 0], following, masks[:, 0], ends, low, high,
        name="", source="", infos=infos,
    )  # fmt: skip


def _open_array(path: Path, shape: tuple[int, ...], dtype: type | None = None) -> Column:
    """Map an array of this shape and type, or of any type and shape of a row."""
    try:
        array: Column = np.lib.format.open_memmap(path, mode="r")  # refuses objects
        found = array.shape if dtype else array.shape[:1]
        wrong = found != shape or dtype not in (None, array.dtype)
        problem = (
            f"it holds {array.dtype} of shape {array.shape} and not of {shape} "
            f"(transitions, observation_dim and action_dim in {CARD})"
        )
    except Exception as error:  # noqa: BLE001 - a parser of damaged files may raise anything
        wrong, problem = True, str(error).rstrip(".") or type(error).__name__
    if wrong:
        raise BadInput(f"{path} is damaged: {problem}. Remove the folder.")
    return array


def exists(folder: Path) -> bool:
    """Whether there is a complete dataset in the folder."""
    return (folder / CARD).is_file()


def made(folder: Path) -> dict[str, Any]:
    """How the dataset in a folder was made, according to its card."""
    return _read_card(folder).made


def _read_card(folder: Path) -> Card:
    if not exists(folder):
        raise BadInput(f"there is no dataset in {folder}: it has no {CARD}.")
    return decode(read_text(folder / CARD), Card, str(folder / CARD))


class Writer:
    """Writes a dataset piece by piece beside its place, and moves it there when it is complete.

    `recipe` describes what is being written: a writer that finds the pieces of a killed one with the same
    recipe continues after them. Pieces with different labels are counted separately.
    """

    def __init__(
        self, folder: Path, recipe: Mapping[str, Any] | None = None, replace: bool = False
    ):
        self._folder, self._part = folder, folder.with_name(f".{folder.name}.part")
        self._before = folder.with_name(f".{folder.name}.before")
        self._journal = Journal(json.loads(json.dumps(recipe or {})))
        self._lock, self._replace, self._moved = ExitStack(), replace, False

    def __enter__(self) -> "Writer":
        self._check_place()
        self._hold()
        with writing(self._part):
            self._continue()
            for file in self._part.glob("*.npy"):  # the bytes of an incomplete piece go
                dtype, shape = self._journal.columns.get(file.name, ("V0", []))
                row_bytes = int(np.dtype(dtype).itemsize * np.prod(shape))
                os.truncate(file, _HEADER + self.rows * row_bytes if row_bytes else 0)
        return self

    def __exit__(self, *trouble: object) -> None:
        if self._journal.recipe or self._moved:
            self._lock.close()
        else:  # nobody can continue it
            self._discard()

    def _hold(self) -> None:
        """Create and lock the folder of the pieces; another process may move it away or finish first."""
        with writing(self._part):
            self._part.mkdir(parents=True, exist_ok=True)
        refusal = "another process is writing {folder}: wait for it."
        try:
            self._lock.enter_context(locked(self._part, refusal))
        except BadInput as error:
            if self._part.exists():
                raise
            raise Busy(refusal.format(folder=self._part)) from error
        with writing(self._folder):
            self._settle()
        if exists(self._folder) and not self._replace:
            self._discard()
            raise Busy(f"another process has just written {self._folder}.")

    def _settle(self) -> None:
        """Complete or undo a replacement that was killed halfway: without new data, restore the old."""
        if self._before.is_dir() and not exists(self._folder):
            os.replace(self._before, self._folder)
        shutil.rmtree(self._before, ignore_errors=True)

    def _discard(self) -> None:
        """Remove the pieces under another name: the next writer may start once the lock is released."""
        gone = self._part.with_name(f".{secrets.token_hex(8)}.gone")
        with suppress(OSError):
            os.replace(self._part, gone)
        self._lock.close()
        shutil.rmtree(gone, ignore_errors=True)

    def _check_place(self) -> None:
        """Refuse a name that is taken, contains other datasets or lies inside one."""
        if exists(self._folder) and not self._replace:
            raise BadInput(f"there is a dataset in {self._folder} already: remove it first.")
        if self._folder.is_dir() and not exists(self._folder) and any(self._folder.iterdir()):
            raise BadInput(f"{self._folder} is a folder of other datasets: choose another name.")
        for above in self._folder.parents:
            if exists(above):
                raise BadInput(f"{above} is a dataset: no other can be inside it.")

    def _continue(self) -> None:
        """Continue after the pieces of a killed writer, if it had the same recipe."""
        with suppress(BadInput):  # none, or a damaged one
            file = self._part / "journal.json"
            journal = decode(read_text(file), Journal, str(file))
            if journal.recipe and journal.recipe == self._journal.recipe:
                self._journal = journal

    def pieces(self, label: int = 0) -> int:
        """The number of pieces with this label that are safely written."""
        return self._journal.pieces.get(str(label), 0)

    @property
    def rows(self) -> int:
        """The number of transitions that are safely written."""
        return self._journal.rows

    def append(self, piece: Dataset, label: int = 0) -> None:
        """Add transitions; all pieces have the same widths, bounds and extra columns."""
        layout = SharedLayout(
            piece.observation_dim, piece.action_dim, piece.action_low.tolist(),
            piece.action_high.tolist(), sorted(piece.infos), piece.labels,
        )  # fmt: skip
        journal = self._journal
        if journal.layout not in (None, layout):
            raise BadInput(
                f"{piece.name} does not fit the pieces before it: its observations, actions, action bounds "
                "(give them: --action-low, --action-high), names or extra columns differ."
            )
        parts = [getattr(piece, name).reshape(len(piece), -1) for name in PACKED]
        packed = np.concatenate(parts, axis=1)
        columns = {"transitions.npy": packed, "episode_ends.npy": piece.episode_ends}
        columns |= {f"infos-{name}.npy": np.asarray(column) for name, column in piece.infos.items()}
        with writing(self._part):
            for name, column in columns.items():
                self._write(name, np.ascontiguousarray(column))
            journal.pieces[str(label)] = self.pieces(label) + 1
            journal.rows, journal.layout = journal.rows + len(piece), layout
            write_json(self._part / "journal.json", msgspec.to_builtins(journal))

    def _write(self, name: str, column: Column) -> None:
        self._journal.columns.setdefault(name, (column.dtype.str, list(column.shape[1:])))
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
        env: str | None = None,
    ) -> Dataset:
        """Complete the dataset and move it to its place."""
        layout = self._journal.layout
        if self.rows == 0 or layout is None:
            raise BadInput("there is no transition in it: at least one row is needed.")
        with writing(self._part):
            for column, (dtype, shape) in self._journal.columns.items():
                with (self._part / column).open("r+b") as file:
                    file.write(_header(dtype, (self.rows, *shape)))
            summary = _assemble(self._part, layout, self.rows).summary
            np.save(self._part / "returns.npy", summary.episode_returns)
            values = {key: getattr(summary, key) for key in SummaryCard.__dataclass_fields__}
            card = Card(
                **vars(layout), name=name, source=source, notes=list(notes), made=dict(made or {}),
                transitions=self.rows, summary=SummaryCard(**values), env=env,
            )  # fmt: skip
            decode(msgspec.json.encode(card), Card, str(self._folder / CARD))  # it can be read
            write_json(self._part / CARD, as_json(card))
            (self._part / "journal.json").unlink()
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            if self._folder.exists():  # renaming leaves the shortest possible moment without either
                os.replace(self._folder, self._before)
            os.replace(self._part, self._folder)
            self._moved = True
            (self._folder / ".lock").unlink(missing_ok=True)  # only now: it protects the pieces
            shutil.rmtree(self._before, ignore_errors=True)
        return open_dataset(self._folder)


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The header of an npy file; its length does not depend on the number of rows."""
    head, kind = BytesIO(), {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, kind)
    return head.getvalue()


_HEADER = len(_header("<f4", (1, 1)))
