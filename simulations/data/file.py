"""The user's own data from a file: npz, MATLAB, csv, Excel, parquet, Arrow, JSON or svmlight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kernelswarm.arrays import Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Missing
from kernelswarm.simulations.core.errors import shown, some
from kernelswarm.simulations.data.array_files import read_mat, read_npz, read_svmlight
from kernelswarm.simulations.data.columns import TimesAs
from kernelswarm.simulations.data.contract import Source, Stream
from kernelswarm.simulations.data.csv_dialect import AUTO, Dialect, dialect_of, is_parted_by_blanks
from kernelswarm.simulations.data.dealing import Dealing, HeldOutRows, Order, Split
from kernelswarm.simulations.data.finite import open_rows
from kernelswarm.simulations.data.gaps import NaValues, check_codes
from kernelswarm.simulations.data.in_memory import (
    FILES,
    Held,
    read_held,
    read_npz_whole,
    read_parquet_whole,
    require_contents,
)
from kernelswarm.simulations.data.reading import call, check_encoding, find
from kernelswarm.simulations.data.rows import Rows, Scaling, Task
from kernelswarm.simulations.data.tables import (
    Columns,
    parted_by_tabs,
    read_typed,
    rows_of,
    sheet_of,
    start_of,
    text_of,
)

Format = Literal["auto", "npz", "mat", "csv", "excel", "parquet", "arrow", "json", "svmlight"]

#: Endings of file names, before a possible .gz.
FORMATS: dict[str, Format] = {
    ".npz": "npz",
    ".mat": "mat",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".dat": "csv",
    ".data": "csv",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
}

ARFF = "; scipy.io.arff.loadarff reads ARFF, and pandas.DataFrame(loadarff(path)[0]) is data in Python"

NAMELESS = "npz", "mat", "svmlight"
"""Formats with unnamed columns."""


@dataclass(frozen=True)
class File:
    """Your own data from a file: npz, MATLAB, csv, Excel, parquet, Arrow, JSON or svmlight.

    Rows that name their node go to this node; other rows are dealt to the nodes by ``split``. In both cases the seed
    shuffles the rows first, unless ``order`` keeps their order. Labels of classes and names of nodes are numbers or
    text, and models store them.

    Parameters
    ----------
    path
        The file. A csv, JSON, Arrow or svmlight file may be compressed with gzip. A folder of parquet files is read in
        the order of their names. JSON has one record per line, or is one list of records.
    format
        "auto" uses the ending of the file's name: .npz, .mat, .csv, .tsv, .txt, .dat, .data, .xlsx, .xlsm, .parquet,
        .pq, .arrow, .feather, .json, .jsonl, .ndjson, .svmlight, .svm, .libsvm, before a possible .gz.
    test_path
        A second file of the same format with the test rows (npz and MATLAB files contain x_test and y_test).
    task
        "classification", "regression", "events", or "auto": a single target of text, or of at most ten distinct
        repeated whole numbers, is a class label; other targets are regressions. Labels in increasing or alphabetical
        order become classes 0, 1, 2, ... The density or intensity of events is learned, and the target is the number of
        events of a row.
    target
        Target column or columns of a table; empty means the column y, and for events one event per row.
    features
        Input columns of a table; empty means all named columns except target and node.
    drop
        Columns that are not inputs, if ``features`` is empty.
    node_column
        Column (npz: array) with the name of each row's node, a whole number or text; optional in the file. The names in
        increasing or alphabetical order are the nodes of the network. "" ignores it.
    order
        Order of the training rows. "shuffled": by the seed. "file": as in the file, which time series need. "time": by
        ``time_column``. "auto": "time" if one input has dates or times in at least nine of ten rows, else, and for
        events, "shuffled". If rows keep an order and held-out rows are later or given, all seeds are the same run.
    time_column
        The column of dates, times or numbers for ``order = "time"``, an input or not; empty means the only input with
        dates or times.
    missing
        Treatment of gaps: empty fields, fields with ?, NA, nan, null and the like, missing values of frames, NaN in
        arrays. "refuse" raises an error that names the first gap. "drop" leaves out each row with a gap. "mean" fills
        gaps in inputs with the mean over the training rows, or with the most frequent word or truth value. "last" fills
        them with the node's last value in the order of the rows, and with the mean before the first value. Rows without
        a target or a node are left out. If rows name their node and keep their order, the node has no sample in the
        round of a row that is left out.
    na_values
        Additional codes for gaps: a number such as -200, text, a list of these, or a table of these by column.
    times
        Inputs made from dates and times. "days": days since the first training row. "cycles": also sine and cosine of
        hour, weekday and season. "auto": also the cycles that repeat in the data, see `columns.repeated`, but none for
        events, whose density is over time. Times with a zone are converted to UTC.
    delimiter
        The character between the fields of a csv file, " " for any blanks; "auto" detects "," ";" "\\t" "|" or blanks
        from the first lines.
    decimal
        Decimal mark of a csv file, "." or ",". "auto" takes the comma if it is not the delimiter, numbers have no
        points, and some number shows it, such as 0,5 (in 1,234 it may separate thousands).
    encoding
        Encoding of a csv file, such as "cp1252" or "latin-1"; "auto" detects UTF-16 and UTF-32 by their byte order
        marks, and otherwise means UTF-8.
    skip_lines
        Number of lines above the header of a csv file or an Excel sheet; "auto" finds the header below comments (#), a
        line such as sep=; and other lines.
    sheet
        Sheet of an Excel file; empty means the only sheet with content.
    split
        "iid": dealt in turn; "label_skew": each class shared out in Dirichlet proportions; "patches": the
        rows cut into regions of equal size along ``split_columns``; "target_shift": iid, and each node's targets get
        an offset; "sorted": blocks of rows sorted by target or by the first of ``split_columns``.
    split_columns
        Columns by which rows are cut or sorted: names in files with named columns, numbers from 0 in others; empty
        means all inputs (patches) or the target (sorted).
    concentration
        With label_skew, the Dirichlet parameter > 0: small is uneven, large is nearly iid.
    shift
        With target_shift, standard deviation >= 0 of the nodes' offsets, in the unit of the (standardized) target.
    epochs
        Number >= 1 of passes of each node over its rows.
    test_fraction
        Share of each node's rows, in (0, 1), that are held out for its evaluation; unused if there are test rows.
    held_out
        The choice of these rows: "random"; "later": the last rows of each node in the order of times or of the file;
        "auto": later if rows are ordered by times, else random.
    standardize
        Scale the inputs to mean 0 and standard deviation 1 over all training rows. Models include the scaling: they
        predict from inputs as in the file. "auto" does not scale columns of 0 and 1 only, nor inputs of events; true
        scales every column; false scales none.
    standardize_targets
        The same for the targets of a regression; the models predict in the unit of the file. "auto" does what
        ``standardize`` says.
    contents
        The required content of an npz or parquet file, as its rows, columns and SHA-256. A run with data in memory
        writes this key into its folder. "" accepts any content.

    Attributes
    ----------
    held
        Data in memory in place of the file; see `holding`.
    """

    path: Path
    format: Format = "auto"
    test_path: Path | None = None
    task: Task = "auto"
    target: str | tuple[str, ...] = ""
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    node_column: str = "node"
    order: Order = "auto"
    time_column: str = ""
    missing: Missing = "refuse"
    na_values: NaValues = ()
    times: TimesAs = "auto"
    delimiter: str = AUTO
    decimal: Literal["auto", ".", ","] = "auto"
    encoding: str = AUTO
    skip_lines: int | Literal["auto"] = "auto"
    sheet: str = ""
    split: Split = "iid"
    split_columns: tuple[str | int, ...] = ()
    concentration: float = 1.0
    shift: float = 1.0
    epochs: int = 1
    test_fraction: float = 0.2
    held_out: HeldOutRows = "auto"
    standardize: Scaling = "auto"
    standardize_targets: Scaling = "auto"
    contents: str = ""
    held: Held | None = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.dealing()
        object.__setattr__(self, "path", Path(self.path))  # may be a string
        if self.test_path is not None:
            object.__setattr__(self, "test_path", Path(self.test_path))
        if len(self.delimiter) != 1 and self.delimiter != AUTO:
            raise RefusedKey(
                "delimiter", f'= {shown(self.delimiter)} must be one character, or "auto": use "," or ";" or "\\t"'
            )
        if self.decimal not in (AUTO, ".", ","):
            raise RefusedKey("decimal", f'= {shown(self.decimal)} must be "auto", "." or ","')
        if self.decimal == self.delimiter != AUTO:
            raise RefusedKey(
                "decimal",
                f"= {shown(self.decimal)} is also the delimiter between fields: set stream.delimiter to what "
                'stands there, such as ";"',
            )
        check_encoding(self.encoding)
        check_codes(self.na_values)
        if self.skip_lines != "auto" and self.skip_lines < 0:
            raise RefusedKey("skip_lines", f'= {self.skip_lines} must be "auto", or at least 0')
        if self.features and self.drop:
            raise RefusedKey("drop", "is for inputs that features does not list: leave one of the two out")
        if self.time_column and self.order in ("shuffled", "file"):
            raise RefusedKey(
                "time_column", f'= {shown(self.time_column)} is for order = "time": set it, or leave it out'
            )
        if self.task == "classification" and self.split == "target_shift":
            raise RefusedKey("split", '= "target_shift" adds an offset, which a class does not have: use "label_skew"')
        if self.task == "regression" and self.split == "label_skew":
            raise RefusedKey(
                "split", '= "label_skew" needs classes, and task = "regression" has none: use "target_shift"'
            )
        if self.task == "events" and self.split in ("label_skew", "target_shift"):
            raise RefusedKey("split", f'= "{self.split}" changes targets, and events have none: use "patches" or "iid"')
        if self.task == "events" and self.standardize_targets is True:
            raise RefusedKey("standardize_targets", "= true changes how many events a row stands for: leave it out")

    def holding(self, held: Held) -> File:
        """Return the stream with in-memory data in place of its file."""
        stream = replace(self, path=held.path, test_path=held.test_path, contents=held.contents)
        object.__setattr__(stream, "held", held)
        return stream

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        rows, test = self.read()
        return open_rows(rows, test, self.task, self.dealing(), nodes, seed, held_out, locations)

    def read(self) -> tuple[Rows, Rows | None]:
        """Return the rows of the file, and its test rows if there are any; raises ValueError for invalid rows."""
        found = [] if self.held is not None else self._files()
        kind = self._format()
        if kind in NAMELESS and (self.target or self.features or self.drop):
            key = "target" if self.target else "features" if self.features else "drop"
            raise RefusedKey(key, f"names columns, and {kind} files have none: leave it out")
        if kind in NAMELESS and self.order == "time":
            raise RefusedKey("order", f'= "time" needs a column of times, and {kind} files have none: use "file"')
        if kind in ("npz", "mat") and self.test_path is not None:
            raise RefusedKey("test_path", f"is not for {kind} files: put x_test and y_test into the same file")
        columns = self._columns()
        if self.held is not None:
            return self.held.rows(columns)
        if self.contents:
            return self._required(kind, found).rows(columns)
        if kind in ("npz", "mat"):
            read = read_npz if kind == "npz" else read_mat
            return read(*found[0], self.node_column, self.split_columns, self.na_values)
        if kind == "svmlight":
            return read_svmlight(found, self.split_columns, self.na_values)
        if kind in ("parquet", "arrow", "json"):
            rows = read_typed(*found[0], kind, columns)
            return rows, None if len(found) == 1 else read_typed(*found[1], kind, columns.of_test(rows))
        return self._read_texts(found, kind, columns)

    def _read_texts(self, found: list[tuple[str, Path]], kind: Format, columns: Columns) -> tuple[Rows, Rows | None]:
        """Read csv files, or Excel sheets converted to csv."""
        names = [call(*one) for one in found]
        if kind == "excel":
            texts = [sheet_of(name, path, self.sheet) for name, (_, path) in zip(names, found, strict=True)]
            dialect = Dialect(",", ".")
        else:
            texts = [text_of(name, path, self.encoding) for name, (_, path) in zip(names, found, strict=True)]
            delimiter, skip = self.delimiter, self.skip_lines
            blanks = is_parted_by_blanks(start_of(texts[0]), delimiter, skip)
            if blanks:
                texts, delimiter = [parted_by_tabs(text) for text in texts], "\t"
            dialect = dialect_of(start_of(texts[0]), delimiter, self.decimal, skip)._replace(blanks=blanks)
        rows = rows_of(names[0], texts[0], dialect, self.skip_lines, columns)
        if len(found) == 1:
            return rows, None
        return rows, rows_of(names[1], texts[1], dialect, self.skip_lines, columns.of_test(rows))

    def _files(self) -> list[tuple[str, Path]]:
        files = [("path", self.path)]
        if self.test_path is not None:
            files.append(("test_path", self.test_path))
        for key, path in files:
            if self.contents and not path.expanduser().exists():
                raise ValueError(
                    f"{call(key, path)} does not exist, and its data lay in memory when the experiment was made "
                    f"({self.contents}): give them again as data=..., or go on with a run folder, which holds them"
                )
        parts = ".parquet" if self.format in (AUTO, "parquet") else ""
        return [(key, find(key, path, parts)) for key, path in files]

    def _columns(self) -> Columns:
        target = (self.target,) if isinstance(self.target, str) else tuple(self.target)
        return Columns(
            tuple(name for name in target if name),
            self.features,
            self.node_column,
            self.split_columns,
            self.task,
            mark="" if self.decimal == "auto" else self.decimal,
            time=self.time_column if self.time_column or self.order == "time" else None,
            seeks_time=self.order == "auto" and self.task != "events",
            drop=self.drop,
            na_values=self.na_values,
        )

    def _required(self, kind: Format, found: list[tuple[str, Path]]) -> Held:
        """Read npz or parquet files completely, and raise an error if the content differs from ``contents``."""
        if kind not in ("npz", "parquet"):
            raise RefusedKey("contents", f"= {shown(self.contents)} is for npz and parquet files: leave it out")
        held: Held = read_npz_whole(*found[0]) if kind == "npz" else read_parquet_whole(found)
        require_contents(self.contents, held.contents, call(*found[0]))
        return held

    def dealing(self) -> Dealing:
        """Return the keys that determine the rows of each node."""
        days = self.task == "events" and self.times == "auto"
        return replace(Dealing.of(self), times="days" if days else self.times)

    def _format(self) -> Format:
        if self.format != "auto":
            return self.format
        if self.held is None and self.path.expanduser().is_dir():
            return "parquet"
        name = self.path.name.lower().removesuffix(".gz")
        ending = Path(name).suffix
        if ending not in FORMATS:
            raise RefusedKey(
                "format",
                f'= "auto" cannot tell the format of {call("path", self.path)} from its ending {shown(ending)}: '
                f"set format to {some(sorted(set(FORMATS.values())))}, or use an ending of {', '.join(FORMATS)}"
                + (ARFF if ending == ".arff" else "; unpack it first" if ending == ".zip" else ""),
            )
        return FORMATS[ending]


def with_data_of(stream: Stream, other: Stream) -> Stream:
    """Return a stream with the in-memory data of another stream if both describe the same data."""
    if not isinstance(stream, File) or not isinstance(other, File) or other.held is None:
        return stream
    if stream.held is not None or stream.contents != other.contents:
        return stream
    return stream.holding(other.held)


def held_by(stream: Stream) -> Held | None:
    """Return the in-memory data of a stream, or None if it reads files or generates samples."""
    return stream.held if isinstance(stream, File) else None


def with_data_in(stream: Stream, folder: Path) -> Stream:
    """Return the stream of a run folder, with the data in the folder if the run began with in-memory data.

    If the folder was moved, the stream keeps the description of the run's start, without the new path.

    Raises
    ------
    ValueError
        The data are missing or damaged, or differ from the data of the run's start.
    """
    if not isinstance(stream, File) or not stream.contents or stream.path.name not in FILES:
        return stream
    if stream.path.resolve().parent != folder.resolve():
        return stream
    stream._files()  # raises an error for missing files
    held = read_held(folder, stream.path.name)
    require_contents(stream.contents, held.contents, f"the run folder {folder}")
    return stream.holding(held)
