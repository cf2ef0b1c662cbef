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
"""Formats whose columns have no names."""


@dataclass(frozen=True)
class File:
    """Your own data from a file: npz, MATLAB, csv, Excel, parquet, Arrow, JSON or svmlight.

    Rows that name their node go to it, all others are dealt to the nodes by ``split``; either way the seed shuffles
    them first, unless ``order`` keeps them as they stand in the file. Labels of classes and names of nodes are numbers
    or text, and the models know them.

    Parameters
    ----------
    path
        The file. A csv, JSON, Arrow or svmlight file may be compressed with gzip. A folder is read where it holds
        parquet files, in the order of their names. JSON has a record in each line, or is one list of records.
    format
        "auto" goes by the file's ending: .npz, .mat, .csv, .tsv, .txt, .dat, .data, .xlsx, .xlsm, .parquet, .pq,
        .arrow, .feather, .json, .jsonl, .ndjson, .svmlight, .svm, .libsvm, before a possible .gz.
    test_path
        A second file of the same format with the test rows (an npz or MATLAB file holds x_test and y_test itself).
    task
        "classification", "regression", "events", or "auto": one target of text, or of at most ten different whole
        numbers that come again, is a class label, anything else a regression. Labels in increasing or alphabetical
        order become classes 0, 1, 2, ... Of events, whose density or intensity is learned, the target is how many a
        row stands for.
    target
        Target column or columns of a table; empty means the column y, and for events that each row is one.
    features
        Input columns of a table; empty means all with a name that are neither target nor node.
    drop
        Columns that are no inputs, where ``features`` is empty.
    node_column
        Column (npz: array) that names each row's node by a whole number or by text, used if there. The names in
        increasing or alphabetical order are the nodes of the network. "" ignores it.
    order
        "shuffled": the seed decides in which order rows are learned from. "file": every node sees its rows in the order
        of the file, which time series need. "time": the same in the order of ``time_column``. "auto": "time" where one
        input holds dates or times, in nine of ten rows at least, else, and for events, "shuffled". Where rows keep an
        order and held-out rows are later or given, all seeds are the same run.
    time_column
        The column of dates, times or numbers of ``order = "time"``, which need be no input; empty means the only input
        that holds dates or times.
    missing
        What is done about gaps: fields that are empty or hold ?, NA, nan, null and the like, missing values of frames,
        nan in arrays. "refuse" names the first; "drop" leaves out every row with one; "mean" fills those of inputs with
        the mean of the rows that are learned from, the most frequent of words and truth values; "last" with the last
        value that the node knew before in the order of the rows, the first with the mean. Rows without a target or a
        node are left out. Rows that name their node and keep their order are left out as rounds without a sample.
    na_values
        Values that stand for gaps besides: a number such as -200, text, a list of them, or a table of these by column.
    times
        What dates and times become: "days" since the first row that is learned from; "cycles": sine and cosine of hour,
        weekday and season too; "auto": of those of the three that dates go through again and again, see
        `columns.repeated`, but none of events, whose density is over time. Times of a zone count in UTC.
    delimiter
        One character between the fields of a csv file, " " for any blanks; "auto" finds which of "," ";" "\\t" "|" the
        first lines have, or blanks.
    decimal
        "." or ",": what stands before the fraction of a number in a csv file; "auto" takes the comma where fields are
        parted by something else, no number has a point, and one shows it, such as 0,5 (1,234 may be a thousand).
    encoding
        What a csv file is written in, such as "cp1252" or "latin-1"; "auto" takes UTF-16 and UTF-32 by the mark at
        their beginning, and everything else for UTF-8.
    skip_lines
        Lines above the header of a csv file or an Excel sheet; "auto" finds it below comments (#), a line such as sep=;
        and lines that are not of the table.
    sheet
        Of an Excel file; empty means the only one that holds something.
    split
        "iid": dealt in turn; "label_skew": each class shared out in Dirichlet proportions; "patches": the
        rows cut into regions of equal size along ``split_columns``; "target_shift": iid, and each node's targets get
        an offset; "sorted": blocks of rows sorted by target or by the first of ``split_columns``.
    split_columns
        Columns by which rows are cut or sorted, names in csv and parquet files and numbers from 0 in others; empty
        means all inputs (patches) or the target (sorted).
    concentration
        With label_skew, the Dirichlet parameter > 0: small is uneven, large is nearly iid.
    shift
        With target_shift, standard deviation >= 0 of the nodes' offsets, in the unit of the (standardized) target.
    epochs
        How often each node sees its rows, >= 1.
    test_fraction
        Share of each node's rows, in (0, 1), on which it is measured and which it never learns from; unused where
        there are test rows.
    held_out
        Which rows these are: "random", "later", the last of each node in the order of times or of the file, or "auto":
        later where rows have times to be ordered by.
    standardize
        Give the inputs mean 0 and standard deviation 1 over all rows that are learned from. The models undo it: they
        predict from inputs as they stand in the file. "auto" leaves columns of nothing but 0 and 1 as they are, and the
        inputs of events; true scales every column; false takes all numbers literally.
    standardize_targets
        The same for the targets of a regression; the models predict in the unit of the file. "auto" does what
        ``standardize`` says.
    contents
        What an npz or parquet file must hold: its rows, columns and SHA-256, as data in memory say it in what a run
        leaves. "" takes any.

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
        object.__setattr__(self, "path", Path(self.path))  # a string from Python
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
        """Return the stream with data in memory in place of its file."""
        stream = replace(self, path=held.path, test_path=held.test_path, contents=held.contents)
        object.__setattr__(stream, "held", held)
        return stream

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        rows, test = self.read()
        return open_rows(rows, test, self.task, self.dealing(), nodes, seed, held_out, locations)

    def read(self) -> tuple[Rows, Rows | None]:
        """Return the rows of the file and, where there are some, its test rows; ValueError where they are refused."""
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
        """Read csv files, or Excel's as if they were."""
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
        """Read npz or parquet files whole, and refuse other contents than those asked for."""
        if kind not in ("npz", "parquet"):
            raise RefusedKey("contents", f"= {shown(self.contents)} is for npz and parquet files: leave it out")
        held: Held = read_npz_whole(*found[0]) if kind == "npz" else read_parquet_whole(found)
        require_contents(self.contents, held.contents, call(*found[0]))
        return held

    def dealing(self) -> Dealing:
        """Return the keys that decide the rows of each node."""
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
    """Return a stream with the data in memory of another one, where its description is of the same data."""
    if not isinstance(stream, File) or not isinstance(other, File) or other.held is None:
        return stream
    if stream.held is not None or stream.contents != other.contents:
        return stream
    return stream.holding(other.held)


def held_by(stream: Stream) -> Held | None:
    """Return the in-memory data of a stream, or None if it reads files or generates samples."""
    return stream.held if isinstance(stream, File) else None


def with_data_in(stream: Stream, folder: Path) -> Stream:
    """Return the stream of a run folder with the data that the folder holds, where the run began with them in memory.

    A folder may be moved: its stream is then described as when the run began, and not by where the folder is now.

    Raises
    ------
    ValueError
        They are missing or damaged, or others than the run began with.
    """
    if not isinstance(stream, File) or not stream.contents or stream.path.name not in FILES:
        return stream
    if stream.path.resolve().parent != folder.resolve():
        return stream
    stream._files()  # refuses missing files
    held = read_held(folder, stream.path.name)
    require_contents(stream.contents, held.contents, f"the run folder {folder}")
    return stream.holding(held)
