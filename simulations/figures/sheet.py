"""The sheet of figures: a page for the screen or for a paper, with its sizes and files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kernelswarm.simulations.core import letters
from kernelswarm.simulations.core.errors import InputError, nearest, shown
from kernelswarm.simulations.core.files import whole_file, write_text
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.result import AGAINST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")

TEXT: dict[Any, Any] = {
    "pdf.fonttype": 42,  # TrueType: letters remain text, as publishers require; Type 3 fonts are drawings
    "svg.fonttype": "none",
    "svg.hashsalt": "kernelswarm",  # otherwise the names inside a file would differ at each writing
}

UNSAID: dict[str, dict[Any, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
"""The metadata that matplotlib would add to the figure: versions and dates."""


@dataclass(frozen=True)
class Style:
    """The sizes and fonts of figures.

    Parameters
    ----------
    width : float, optional
        Inches of a whole figure, or None for the width of its panels.
    titles : bool
        Whether a figure has a title. In a paper its caption replaces the title.
    text : float
        The size of text relative to the screen.
    letters : int
        Characters per inch in a legend.
    rc : dict
        Settings that differ from ``style.RC``.
    """

    width: float | None = None
    titles: bool = True
    text: float = 1.0
    letters: int = 13
    rc: Mapping[Any, Any] = field(default_factory=dict)


PRINT: dict[Any, Any] = {
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
    "font.family": "STIXGeneral",  # similar to Times; included in matplotlib
    "font.size": 8,
    "grid.linewidth": 0.4,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 8,
    "legend.handlelength": 2.4,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 1.1,
    "lines.markersize": 4.2,
    "mathtext.fontset": "stix",
    "savefig.dpi": 300,
    "xtick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.6,
}

STYLES: dict[str, Style] = {
    "screen": Style(),
    "paper": Style(width=3.5, titles=False, text=0.75, letters=20, rc=PRINT),
    "two_column": Style(width=7.16, titles=False, text=0.75, letters=20, rc=PRINT),
}
"""``paper`` has the width of one column of a page with two columns (IEEE: 88.9 mm), ``two_column`` of both (182 mm)."""

LEAST = 0.5  # minimum share of a panel's width on the screen: narrower panels are not put side by side
LINE = 0.2  # inches, of a legend on the screen
PAGE = 9.0  # inches, of a paper's page
HIGH = 22  # characters per line of a y-axis's name, in print

T = TypeVar("T")


@dataclass(frozen=True)
class Drawing:
    """The options of figures.

    Parameters
    ----------
    formats : tuple of str
        Some of ``FORMATS``; each figure is written in each format.
    style : str
        One of ``STYLES``.
    columns : tuple of str
        The measured columns that are plotted as panels of one figure; empty for the usual figures.
    against : str
        The x-axis, a key of ``AGAINST``.
    """

    formats: tuple[str, ...] = ("png",)
    style: str = "screen"
    columns: tuple[str, ...] = ()
    against: str = "samples"

    def __post_init__(self) -> None:
        _require("format", self.formats, FORMATS)
        _require("style", (self.style,), STYLES)
        _require("against", (self.against,), AGAINST)
        if not self.formats:
            raise InputError(f"format is empty: name some of {', '.join(FORMATS)}")

    @property
    def usual(self) -> bool:
        """Whether neither columns nor axis were chosen, so that all usual figures are drawn."""
        return not self.columns and self.against == "samples"

    def named(self, name: str) -> str:
        """Return the name of a figure, with the x-axis if it is not the usual one."""
        return name if self.against == "samples" else f"{name}-{self.against}"

    @classmethod
    def asked(
        cls,
        format: str | Sequence[str] = "png",
        style: str = "screen",
        columns: str | Sequence[str] = (),
        against: str = "samples",
    ) -> Drawing:
        """Parse the options of figures: sequences, or one text with commas.

        Examples
        --------
        >>> Drawing.asked("png, pdf", "paper").formats
        ('png', 'pdf')
        """
        return cls(_words(format), style, _words(columns), against)


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given
    return tuple(dict.fromkeys(word.strip() for word in listed if word.strip()))


def _require(name: str, given: Sequence[str], known: Sequence[str] | Mapping[str, Any]) -> None:
    for word in given:
        if word not in known:
            raise InputError(
                f"{name} = {shown(word)} is unknown{nearest(word, list(known))} (known: {', '.join(known)})"
            )


def refuse_unknown(columns: Sequence[str], tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise an InputError for columns that no table has."""
    known = list(dict.fromkeys(name for table in tables for name in table))
    for column in columns:
        if column not in known:
            near = nearest(column, known)
            raise InputError(f"columns = {shown(column)} was not measured{near} (known: {', '.join(known)})")


class Sheet:
    """Makes the figures of one folder in one style, and writes them.

    Parameters
    ----------
    folder : Path
        The folder, created if it is missing; files with the same names are replaced.
    drawing : Drawing
        Formats and style.

    Attributes
    ----------
    written : list of Path
        The files, in the order in which they were written.
    """

    def __init__(self, folder: Path, drawing: Drawing) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.drawing = drawing
        self.style = STYLES[drawing.style]
        self.written: list[Path] = []
        self._captions: dict[str, str] = {}
        self._boxes: set[str] = set()
        self._titles: dict[Figure, str] = {}

    def figure(self, width: float, height: float) -> Figure:
        """Create a figure of ``width`` by ``height`` inches on the screen; for papers, the width is fixed."""
        # Not plt.figure: it would open the user's windows, and these figures only ever become files.
        from matplotlib.figure import Figure

        wide = self.style.width
        size = (width, height) if wide is None else (wide, height * max(self.style.text, wide / width))
        return Figure(figsize=size, layout="constrained")

    def grid(
        self,
        count: int,
        columns: int,
        width: float,
        height: float,
        margin: float = 0.3,
        share: bool | Literal["row", "column"] = False,
        shape: Literal["curves", "square", "lines"] = "curves",
    ) -> tuple[Figure, list[Axes], int]:
        """Create panels row by row; return the figure, the panels and the number of columns.

        Parameters
        ----------
        count : int
            Number of panels.
        columns : int
            Maximum number of panels side by side.
        width, height : float
            The wanted size of a panel, in inches on the screen.
        margin : float
            Inches around all panels.
        share : bool, "row" or "column"
            Shared axes of the panels. True: both axes; "row": the x-axis, and the y-axis within rows; "column": the
            x-axis within columns.
        shape : {"curves", "square", "lines"}
            The height of a panel that is narrower in a paper: flat, proportional, or determined by its lines of text.
        """
        from matplotlib.figure import Figure

        columns, head = min(columns, count), 0.9
        if self.style.width is not None:
            beside = self.style.text * margin
            columns = self._columns(columns, width, beside)
            panel = (self.style.width - beside) / columns
            height = {
                "curves": 0.4 + 0.48 * panel,  # with room for its labels
                "square": height * panel / width,
                "lines": self.style.text * height,
            }[shape]
            width, margin, head = panel, beside, 0.15
        rows = math.ceil(count / columns)
        figure = Figure(figsize=(width * columns + margin, height * rows + head), layout="constrained")
        sharey = False if share == "column" else share
        panels = figure.subplots(rows, columns, squeeze=False, sharex=bool(share), sharey=sharey)
        axes = list(panels.ravel())
        for spare in axes[count:]:
            spare.remove()
        if share and rows > 1:
            # The panels above the removed ones are the lowest of their columns and keep their labels.
            for ax in axes[count - columns : count]:
                ax.xaxis.set_tick_params(labelbottom=True)
        return figure, axes[:count], columns

    def title(self, figure: Figure, text: str) -> None:
        """Write a figure's title above it, or, for a paper, its caption in ``captions.txt``."""
        if self.style.titles:
            wide = int(TITLE * figure.get_figwidth())
            figure.suptitle("\n".join(style.wrapped(line, wide) for line in text.split("\n")))
        else:
            self._titles[figure] = "; ".join(line for line in text.split("\n") if line)

    def legend(self, figure: Figure, entries: dict[str, Any]) -> None:
        """Put one legend below all panels, in as many columns as fit."""
        if not entries:
            return
        wide = figure.get_figwidth()
        entry = min(ENTRY, int(wide * self.style.letters) - 8)
        entries = {style.wrapped(label, entry): handle for label, handle in entries.items()}
        longest = max(len(line) for label in entries for line in label.split("\n"))
        columns = max(1, int(wide * self.style.letters) // (longest + 8))
        lines = sum(label.count("\n") + 1 for label in entries) / columns
        kept = 3 if self.style.width is None else 0  # lines for which there is already room
        # The panels keep their height.
        figure.set_figheight(figure.get_figheight() + LINE * self.style.text * max(0.0, lines - kept))
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=min(len(entries), columns)
        )

    def pages(
        self, panels: Sequence[T], width: float, height: float, margin: float
    ) -> Iterator[tuple[str, Sequence[T]]]:
        """Split panels with lines of text into pages of paper, each with the suffix of its file name."""
        count = max(1, len(panels))
        if self.style.width is not None:
            columns = self._columns(count, width, self.style.text * margin)
            count = columns * max(1, int(PAGE / (self.style.text * height)))
        for place, first in enumerate(range(0, len(panels), count)):
            yield f"-{place + 1}" if place else "", panels[first : first + count]

    def _columns(self, most: int, width: float, beside: float) -> int:
        assert self.style.width is not None
        return max(1, min(most, int((self.style.width - beside) / (LEAST * width))))

    def panel_title(self, figure: Figure, text: str, columns: int) -> str:
        """Return a panel's title in lines not wider than a panel."""
        return style.wrapped(text, int(TITLE * self.style.letters / 13 * figure.get_figwidth() / columns))

    def save(self, figure: Figure, name: str) -> None:
        """Write a figure in each format, as ``name`` with the format's ending."""
        if self.style.width is not None:
            for ax in figure.axes:
                if ax.get_label() != "<colorbar>":
                    ax.set_ylabel(style.wrapped(ax.get_ylabel(), HIGH))
        self._boxes |= letters.borrow(figure)
        self.written += [save(figure, self.folder / f"{name}.{ending}") for ending in self.drawing.formats]
        if figure in self._titles:
            self._captions[name] = self._titles.pop(figure)

    def finished(self) -> list[Path]:
        """Write the captions of a paper's figures, if any, and return all files."""
        letters.warn(self._boxes)
        if self._captions:
            path = self.folder / "captions.txt"
            captions = self._earlier(path) | self._captions
            text = "\n".join(f"{name}: {caption}" for name, caption in captions.items())
            self.written.append(write_text(path, f"{text}\n"))
        return self.written

    def _earlier(self, path: Path) -> dict[str, str]:
        """Return the captions of earlier figures in the folder, by their names."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = dict(line.split(": ", 1) for line in lines if ": " in line)
        drawn = {file.stem for file in self.folder.iterdir()} if found else set()
        return {name: caption for name, caption in found.items() if name in drawn}


ENTRY = 60  # characters in a line of a legend
TITLE = 12  # characters in an inch of a title on the screen


@contextmanager
def look(drawn: str = "screen") -> Iterator[None]:
    """Use the project's style in place of the user's matplotlibrc, so that a run gives the same figure everywhere."""
    import matplotlib.pyplot as plt

    with plt.rc_context():
        plt.rcdefaults()
        plt.rcParams.update(style.RC)
        plt.rcParams.update(STYLES[drawn].rc)
        yield


def keep_outer_labels(axes: Sequence[Axes], columns: int) -> None:
    """Keep the names of the axes only at the left and lower edge of a grid of panels."""
    for place, ax in enumerate(axes):
        if place + columns < len(axes):
            ax.set_xlabel("")
        if place % columns:
            ax.set_ylabel("")


def legend_entries(axes: Sequence[Axes]) -> dict[str, Any]:
    """Gather the artists of the panels by label, each label once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return entries


def save(figure: Figure, path: Path) -> Path:
    """Write the figure in the format of the path's ending, under a temporary name, and rename it.

    The file has neither software version nor date, so equal figures are equal files.

    Raises
    ------
    SimulationError
        The disk is full or the folder is not writable; no part of the file remains.
    """
    import matplotlib

    ending = path.suffix.removeprefix(".")
    style.without_formulas(figure)
    with whole_file(path) as partial, matplotlib.rc_context(TEXT), letters.without_warnings():
        figure.savefig(partial, format=ending, metadata=UNSAID[ending])
    return path
