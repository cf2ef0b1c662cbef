"""Regions of a report differ for readers who lack the red or the green cones, on light pages and on dark ones."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kernelswarm.arrays import Array
from kernelswarm.simulations.report import page

LEAST = 20.0
"""Of the distance in CIELAB between any two areas; 2.3 is just noticed where they touch."""

SIGHTS = {
    "all cones": np.eye(3),
    # Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def variables(dark: bool) -> dict[str, str]:
    sheet = (Path(page.__file__).parent / "page.css").read_text()
    light, night = sheet.split("@media (prefers-color-scheme: dark)")
    return dict(re.findall(r"--(\w+): (#\w{6})", night if dark else light))


def linear(colors: list[str]) -> Array:
    """Return (n, 3) shares of light."""
    given = np.array([to_rgb(color) for color in colors])
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def lab(light: Array) -> Array:
    """Return the CIELAB coordinates (n, 3) of linear sRGB, with the white point D65."""
    to_xyz = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    ratio = light @ to_xyz.T / to_xyz.sum(axis=1)
    root = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.stack([116 * root[:, 1] - 16, 500 * (root[:, 0] - root[:, 1]), 200 * (root[:, 1] - root[:, 2])], axis=1)


def nearest(colors: list[str], sight: str) -> float:
    """Return the least distance between two of the colours, as they are seen."""
    seen = lab(np.clip(linear(colors) @ SIGHTS[sight].T, 0.0, 1.0))
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


def contrast(first: str, second: str) -> float:
    """Return the ratio of luminances as of WCAG 2, from 1 to 21."""
    low, high = sorted(linear([first, second]) @ [0.2126, 0.7152, 0.0722])
    return float((high + 0.05) / (low + 0.05))


def test_distances_and_contrasts_are_those_of_known_colours() -> None:
    np.testing.assert_allclose(lab(linear(["#ffffff", "#ff0000"])), [[100, 0, 0], [53.24, 80.09, 67.2]], atol=0.05)
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    rust_and_olive = ["#c04f00", "#6b8000"]
    assert nearest(rust_and_olive, "all cones") > 2.0 * LEAST
    assert nearest(rust_and_olive, "deuteranopia") < LEAST / 2.0


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_areas_of_two_classes_differ_however_they_are_seen(dark: bool, sight: str) -> None:
    found = variables(dark)
    areas = [found[f"k{place}"] for place in range(8)]
    assert nearest(areas, sight) >= LEAST
    lines = [found[f"c{place}"] for place in range(8)]
    assert nearest(lines, sight) < LEAST  # which have dashes besides, and are no colours for areas


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_areas_stand_out_from_what_they_lie_on(dark: bool) -> None:
    found = variables(dark)
    assert min(contrast(found[f"k{place}"], found["card"]) for place in range(8)) >= 3.0  # as WCAG 2 asks of graphics
