"""A run as an animated GIF, or as an MP4 film where ffmpeg is installed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.animation.moments import Moment, moments
from kernelswarm.simulations.animation.picture import Picture, closing
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.figures.learned import rebuild, reopen
from kernelswarm.simulations.figures.sheet import look
from kernelswarm.simulations.machine.whole_files import whole_file

if TYPE_CHECKING:
    from kernelswarm.simulations.records.result import Result

Pixels = npt.NDArray[np.uint8]

MOST = 60  # moments
LARGEST = 5_000_000  # bytes of a GIF
COLORS = 128  # of a GIF
HOLD = 2.0  # seconds that the last pictures stand still


def animate(result: Result, path: Path | str, seconds: float = 8.0, dots: int = 100) -> Path:
    """Draw a run as a moving picture: nodes by their risk, edges by the difference of their ends, curves that grow.

    Edges are wider where the dual variable is larger. Functions of one input, and classes over two, are shown at the
    end, when the record has them. A run with many evaluations shows an even selection; a GIF that would be larger than
    5 MB shows fewer of them.

    Parameters
    ----------
    result : Result
        The run, also one that goes on.
    path : Path or str
        A file that ends in ``.gif`` or ``.mp4``; it is replaced.
    seconds : float
        How long the nodes learn in it.
    dots : int
        Dots in an inch of 9.6 times 5.4 inches.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        The run was measured less than twice, the file ends otherwise, or is a film and there is no ffmpeg.
    SimulationError
        The file cannot be written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".gif", ".mp4"):
        raise InputError(f"{shown(str(path))} must end in .gif or .mp4")
    if not 0.0 < seconds < float("inf"):
        raise InputError(f"seconds = {seconds!r} must be positive")
    if ending == ".mp4" and not can_film():
        raise InputError(
            f"{path} needs ffmpeg, which is not installed here: install it, or name a file that ends in .gif"
        )
    found = moments(result, MOST)
    frames, last = _frames(result, found, dots)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{path} could not be written: {error.strerror or error}") from error
    with whole_file(path) as partial:
        if ending == ".mp4":
            _film(frames, last, partial, seconds, dots)
        else:
            _gif(frames, last, partial, seconds)
    return path


def can_film() -> bool:
    """Return whether ffmpeg is installed."""
    from matplotlib.animation import FFMpegWriter

    return bool(FFMpegWriter.isAvailable())


def _frames(result: Result, found: Sequence[Moment], dots: int) -> tuple[list[Pixels], Pixels | None]:
    """Return the pictures of all moments, and the one of what was learned."""
    with look():
        picture = Picture(result, found, dots)
        frames = [picture.frame(moment) for moment in found]
        try:
            learned = rebuild(result)
        except InputError as error:
            warnings.warn(f"the models are not drawn, their configuration cannot be built here: {error}", stacklevel=3)
            return frames, None
        if not learned.nodes:
            return frames, None
        return frames, closing(result, found[-1], found, learned, reopen(learned), dots)


def _gif(frames: Sequence[Pixels], last: Pixels | None, path: Path, seconds: float) -> None:
    """Write frames as a GIF; every second one is left out as long as the file would be too large."""
    from PIL import Image

    while True:
        shown = [*frames, *([] if last is None else [last])]
        # One palette for all frames, or equal places would flicker; it is that of the first, middle and last ones.
        sample = np.concatenate([shown[place] for place in (0, len(shown) // 2, -1)])
        palette = Image.fromarray(sample).quantize(COLORS, dither=Image.Dither.NONE)
        images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in shown]
        each = max(20, round(1000 * seconds / len(frames)))  # milliseconds; below 20 viewers fall back to 100
        times = [each] * len(images)
        for place in (-1, -2)[: 1 if last is None else 2]:
            times[place] = round(1000 * HOLD)
        images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True)
        if path.stat().st_size <= LARGEST or len(frames) <= 2:
            return
        frames = [*frames[:-1:2], frames[-1]]


def _film(frames: Sequence[Pixels], last: Pixels | None, path: Path, seconds: float, dots: int) -> None:
    from matplotlib.animation import FFMpegWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    high, wide, _ = frames[0].shape
    rate = max(1, round(len(frames) / seconds))
    held = round(HOLD * rate)
    figure = Figure(figsize=(wide / dots, high / dots), dpi=dots)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    image = axes.imshow(frames[0], interpolation="nearest", aspect="auto")
    # Players want the colours of a film at half the resolution.
    writer = FFMpegWriter(fps=rate, codec="h264", extra_args=["-pix_fmt", "yuv420p"])
    with writer.saving(figure, str(path), dots):
        for frame in [*frames, *[frames[-1]] * held, *([] if last is None else [last] * held)]:
            image.set_data(frame)
            writer.grab_frame()
