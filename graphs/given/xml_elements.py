"""Networks in XML: the one element that holds a network, and values of the types that XML names."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, fromstring

NUMBERS = {"int": int, "integer": int, "long": int, "float": float, "double": float, "real": float}
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def graph_element(text: str) -> tuple[Element, Element]:
    """Return the outermost element of a file, and in it the element of its network.

    Raises
    ------
    ValueError
        There is none, or there are several.
    """
    root = fromstring(text)
    graphs = root.findall("{*}graph")
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} networks: write each into a file of its own")
    return root, graphs[0]


def typed(text: str | None, kind: str | None) -> Any:
    """Return what a text stands for, of a type that the file names; text of types that are neither number nor truth.

    Raises
    ------
    ValueError
        The text is none of its type.
    """
    plain = "" if text is None else text
    if kind == "boolean":
        if plain.strip().lower() not in TRUTHS:
            raise ValueError(f"{plain!r} is no boolean")
        return TRUTHS[plain.strip().lower()]
    return NUMBERS[kind](plain) if kind in NUMBERS else plain


def required(element: Element, name: str) -> str:
    """Return an attribute without which an element means nothing. ValueError when it has none."""
    found = element.get(name)
    if found is None:
        raise ValueError(f"one of its elements {element.tag.rpartition('}')[2]} has no {name}")
    return found
