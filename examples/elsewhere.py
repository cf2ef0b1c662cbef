"""Read a model file of kernelswarm in numpy alone: docs/elsewhere.md says what is in the file."""

import json

import numpy as np


def read(path):
    """Return what a model file says of its arrays, and the arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("description"))), arrays


def kernel(table, points, centers):
    """Return kappa(points[i], centers[m]), (n, M)."""
    if table["name"] in ("linear", "polynomial"):
        return (table.get("scale", 1.0) * points @ centers.T + table["offset"]) ** table.get("degree", 1)
    apart = (points[:, None] - centers) / table["bandwidth"]  # one length, or one for each input
    if table["name"] in ("gaussian", "trended"):
        values = np.exp(-0.5 * np.sum(apart**2, axis=2))
        if table["name"] == "trended":
            center, unit = table["center"] or [0.0], table["unit"] or [1.0]
            u, v = ((each - np.array(center)) / unit for each in (points, centers))
            values += table["trend"] * (1.0 + u @ v.T) / (1.0 + points.shape[1])
        return values
    if table["name"] == "laplacian":
        return np.exp(-np.sum(np.abs(apart), axis=2))
    if table["name"] == "student_t":
        n = table["degrees"]
        return (1.0 + np.sum(apart**2, axis=2) / n) ** (-0.5 * (n + 1.0))
    if table["name"] == "matern":
        r = np.sqrt(2.0 * table["smoothness"] * np.sum(apart**2, axis=2))
        return (1.0 + r + (r**2 / 3.0 if table["smoothness"] == 2.5 else 0.0)) * np.exp(-r)
    raise ValueError(f"the kernel {table['name']} is not written out here")


def cosines(arrays, z):
    """Return the features sqrt(2 / L) cos(w_l . z + b_l), (n, L)."""
    return np.sqrt(2.0 / len(arrays["phases"])) * np.cos(z @ arrays["frequencies"].T + arrays["phases"])


def function(said, arrays, z):
    """Return f at points in the learner's units, (n, C)."""
    kind = said.get("function", "")
    if kind == "affine":
        return z @ arrays["weights"] + arrays.get("intercept", 0.0)
    if kind == "cosines":
        return cosines(arrays, z) @ arrays["weights"]
    if kind == "mixed":
        members = [
            kernel(table, z, arrays[f"points_of_{e}"]) @ arrays[f"weights_of_{e}"]
            for e, table in enumerate(said["kernels"])
        ]
        return np.tensordot(arrays["shares"], members, axes=1)
    rows = kernel(said["kernel"], z, arrays["points"])
    if kind == "subspace":
        return rows @ arrays["basis"] @ arrays["mixing"] @ arrays["coefficients"]
    if kind == "mirrored":
        dual = rows @ arrays["duals"]
        return np.exp(dual) if said["mirror_map"]["name"] == "kl" else dual
    values = rows @ arrays["weights"]
    return values + cosines(arrays, z) @ arrays["coefficients"] if kind == "dual" else values


def scaled(said, x):
    """Return inputs as the learner saw them."""
    inputs = said["inputs"]
    if inputs.get("coding"):
        raise ValueError("inputs were words, times or had gaps: turn them into numbers as inputs.coding says")
    if "tail" in inputs:  # logarithms of columns with heavy tails
        tail, apart = np.array(inputs["tail"]), x - inputs["middle"]
        bent = np.copysign(np.log1p(np.abs(apart) / np.where(tail > 0.0, tail, 1.0)), apart)
        x = np.where(tail > 0.0, bent, x)
    return x if inputs["mean"] is None else (x - inputs["mean"]) / inputs["deviation"]


def predict(said, arrays, x):
    """Return the labels or values at inputs (n, p) as they stand in the data."""
    values, targets = function(said, arrays, scaled(said, x)), said["targets"]
    if "classes" in arrays:
        return arrays["classes"][(values[:, 0] > 0.0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)]
    if targets["mean"] is not None:
        values = values * targets["deviation"] + targets["mean"]
    return values[:, 0] if said["flat"] and values.shape[1] == 1 else values


def probabilities(said, arrays, x):
    """Return the probability of each class, (n, classes): of a logistic loss, or where there is a temperature."""
    values = function(said, arrays, scaled(said, x)) / said.get("temperature", 1.0)
    if values.shape[1] == 1:
        values = np.hstack([np.zeros_like(values), values])
    grown = np.exp(values - values.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def deviation(said, arrays, x):
    """Return the standard deviation of targets, (n, C), where the file has a posterior."""
    z, units, rest = scaled(said, x), said["targets"]["deviation"], 0.0
    ridge, scale = arrays["posterior_units"]
    if said.get("function") in ("cosines", "affine"):
        rows = cosines(arrays, z) if said["function"] == "cosines" else z
        if "intercept" in arrays:
            rows = np.column_stack([rows, np.ones(len(rows))])
    else:
        rows = kernel(said["kernel"], z, arrays["points"])
        if said.get("function") == "subspace":
            rows = rows @ arrays["basis"]
    if len(arrays["posterior_factor"]) == len(arrays["posterior_root"]):
        own = np.array([kernel(said["kernel"], point[None], point[None])[0, 0] for point in z])
        rest = (own - np.sum((rows @ triangle(arrays["posterior_factor"])) ** 2, axis=1)) / ridge
    inside = np.linalg.solve(triangle(arrays["posterior_root"]).T, rows.T)
    variance = scale * (np.sum(inside**2, axis=0) + np.maximum(rest, 0.0))
    if "posterior_beyond" in arrays:  # apart from the samples the prior varies more
        excess, level, least = arrays["posterior_beyond"]
        inside = np.linalg.solve(triangle(arrays["posterior_root"]), inside)
        inside = least * np.linalg.solve(triangle(arrays["posterior_factor"]), inside)
        left = np.sum(inside**2, axis=0) + np.maximum(ridge * rest, 0.0)
        variance = variance + excess * np.maximum(left - level, 0.0)
    noise = 1.0
    if "posterior_levels" in arrays:  # it varies with the input
        shift, least, greatest = arrays["posterior_levels"][:3]
        noise = np.exp(shift + np.clip(rows @ arrays["posterior_levels"][3:], least, greatest))
    return np.sqrt((noise + variance[:, None]) * arrays["posterior_noise"]) * (1.0 if units is None else units)


def triangle(packed):
    """Return the upper triangular matrix whose rows are packed one behind the other."""
    order = int(np.sqrt(2 * len(packed)))
    found = np.zeros((order, order))
    found[np.triu_indices(order)] = packed
    return found


def header(said, arrays):
    """Return C text with the numbers of a regression by a sum of Gaussian kernels."""
    inputs, targets, (count, width) = said["inputs"], said["targets"], arrays["points"].shape
    assert said["kernel"]["name"] == "gaussian" and "function" not in said and arrays["weights"].shape[1] == 1
    assert "tail" not in inputs
    length = np.broadcast_to(said["kernel"]["bandwidth"], width)
    shift, unit = (np.zeros(width) if inputs["mean"] is None else np.array(inputs["mean"])), length
    if inputs["mean"] is not None:
        unit = length * np.array(inputs["deviation"])
    ends = [0.0, 1.0] if targets["mean"] is None else [targets["mean"][0], targets["deviation"][0]]
    numbers = {
        "SHIFT": shift,
        "UNIT": unit,
        "POINTS": arrays["points"] / length,
        "WEIGHTS": ends[1] * arrays["weights"],
        "MEAN": np.array(ends[:1]),
    }
    lines = [f"enum {{ COUNT = {count}, WIDTH = {width} }};"]
    for name, array in numbers.items():
        entries = ", ".join(repr(float(entry)) for entry in np.ravel(array))
        lines.append(f"static const double {name}[] = {{{entries}}};")
    return "\n".join(lines) + "\n"
