"""The figures of what the nodes have learned: functions of one input, regions of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import curves, functions, regions, style
from kernelswarm.simulations.figures.network import final_risks
from kernelswarm.simulations.figures.run_figures import title
from kernelswarm.simulations.figures.sheet import Sheet, keep_outer_labels, legend_entries

if TYPE_CHECKING:
    from kernelswarm.simulations.figures.learned import Learned, Reopened

Array = npt.NDArray[np.float64]

PANELS = 12  # nodes shown one by one at most
REGIONS = 6
COLUMNS = 3  # of panels side by side


def all_functions(sheet: Sheet, learned: Learned, stream: Reopened) -> None:
    """Draw all nodes on one pair of axes when they share a truth, else one panel a node."""
    grid = functions.interval(learned, stream)
    found = functions.truths(learned, stream, grid)
    color = curves.run_color(learned.result)
    data, names = learned.result.data, style.node_names(learned.result)
    if functions.shared(found):
        figure, axes, columns = sheet.grid(
            learned.outputs, columns=COLUMNS, width=6.4 if learned.outputs == 1 else 4.2, height=3.8
        )
        for output, ax in enumerate(axes):
            functions.all_nodes(ax, learned, stream, grid, None if found is None else found[0], output, color)
            ax.set_xlabel(style.short(data.inputs.name(0, "input x")))
            ax.set_ylabel(
                style.short(
                    data.targets.name(output, "target y" if learned.outputs == 1 else f"target y, column {output}")
                )
            )
        note = ""
    else:
        order = sorted(learned.result.graph.nodes)
        shown = order[:PANELS]
        figure, axes, columns = sheet.grid(len(shown), columns=4, width=2.7, height=2.1, share=True)
        drawn: list[Array] = []
        for ax, node in zip(axes, shown, strict=True):
            truth = None if found is None else found[order.index(node)]
            drawn += functions.one_node(ax, learned, node, grid, truth, color)
            ax.set_title(f"node {style.short(names[node])}")
            ax.set_xlabel(style.short(data.inputs.name(0, "input x")))
            ax.set_ylabel(style.short(data.targets.name(0, "target y")))
        if learned.has_bands:
            functions.close(axes[0], drawn)
        keep_outer_labels(axes, columns)
        note = f"\nthe first {len(shown)} of {len(order)} nodes" if len(shown) < len(order) else ""
    sheet.title(figure, title(learned.result) + note + _without(stream))
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, "functions")


def some_regions(sheet: Sheet, learned: Learned, stream: Reopened) -> None:
    """Draw a few nodes from the lowest risk to the highest, one panel each."""
    risks = final_risks(learned.result)
    classes, sides = regions.class_count(learned, stream), regions.window(learned, stream)
    shown = regions.chosen(learned.nodes, risks, REGIONS)
    width = {1: 6.4, 2: 4.4}.get(len(shown), 3.1)
    figure, axes, columns = sheet.grid(
        len(shown), columns=COLUMNS, width=width, height=0.93 * width, share=True, shape="square"
    )
    order = sorted(learned.result.graph.nodes)
    data, names = learned.result.data, style.node_names(learned.result)
    for ax, node in zip(axes, shown, strict=True):
        regions.regions(ax, learned, node, sides, classes)
        regions.bayes(ax, stream, order.index(node), sides, classes)
        risk = f", risk {style.readable(risks[node])}" if node in risks else ""
        ax.set_title(sheet.panel_title(figure, f"node {style.short(names[node])}{risk}, {learned.size(node)}", columns))
        ax.set_xlabel(style.short(data.inputs.name(0, "first input")))
        ax.set_ylabel(style.short(data.inputs.name(1, "second input")))
    keep_outer_labels(axes, columns)
    which = ""
    if len(shown) > 1:
        which = f"{len(shown)} of {len(learned.nodes)} nodes, from the lowest risk to the highest"
    marks = "marks: the dictionary" if learned.written_in_points else ""
    texts = "; ".join(filter(None, (which, marks)))
    sheet.title(figure, title(learned.result) + (f"\n{texts}" if texts else "") + _without(stream))
    known = stream.source is not None and stream.source.truth is not None
    labels = [data.class_name(k) for k in range(classes)]
    entries = regions.legend_entries(labels, marked=learned.written_in_points, known=known)
    sheet.legend(figure, {str(entry.get_label()): entry for entry in entries})
    sheet.save(figure, "regions")


def _without(stream: Reopened) -> str:
    """Return the note of the figure on its missing truth; empty when the stream could be opened."""
    return f"\nwithout truth and samples: {stream.missing[:90]}" if stream.source is None else ""
