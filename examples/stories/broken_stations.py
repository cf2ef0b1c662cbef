"""
A sensor network with three broken stations
===========================================

*Twelve stations measure fine dust over a town. One has been off by a constant since its last repair, one repeats the
value at which it froze, one has a loose wire. Nobody has noticed. Can the other nine still learn together, and who are
the three?*

The readings are made by a stated formula, so that the truth is known.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from kernelswarm import load_model, save_model, simulate

STATIONS = ["Abbey", "Bridge", "Canal", "Dock", "East", "Fair", "Gate", "Hill", "Inn", "Jetty", "Kiln", "Lane"]
BROKEN = {"Dock": "off by 12", "Gate": "frozen at 9", "Kiln": "loose wire"}


def dust(hour, wind):
    """Return the true fine dust in micrograms per cubic metre: two rush hours, thinned by the wind."""
    rush = np.exp(-((hour - 8.0) ** 2) / 6.0) + 0.8 * np.exp(-((hour - 18.0) ** 2) / 10.0)
    return (6.0 + 30.0 * rush) / (1.0 + 0.25 * wind)


def made_up_readings(rows=400, seed=0):
    """Return columns with ``rows`` readings of each station, of which those of the broken ones are wrong."""
    random = np.random.default_rng(seed)
    shape = rows, len(STATIONS)
    hour, wind = random.uniform(0.0, 24.0, shape), random.gamma(2.0, 2.0, shape)
    reading = dust(hour, wind) + 1.5 * random.normal(size=shape)
    reading[:, STATIONS.index("Dock")] += 12.0
    reading[:, STATIONS.index("Gate")] = 9.0
    reading[:, STATIONS.index("Kiln")] += 15.0 * random.normal(size=rows)
    columns = {"hour": hour, "wind": wind, "dust": reading, "station": np.tile(STATIONS, (rows, 1))}
    return {name: column.ravel() for name, column in columns.items()}


# %%
# Three networks
# --------------
# Each station talks to the four nearest. Alone, a sound station learns from its own noisy readings only. Together,
# without a defence, it learns what the broken ones say too. With ``robust = "trust"`` it leaves a neighbour out who
# predicts its own fresh readings worse than it does itself, beyond what noise explains.

keys = {
    "topology": {"name": "regular", "nodes": len(STATIONS), "degree": 4},
    "data": made_up_readings(),
    "target": "dust",
    "node": "station",
    "learner": "newton",
    "rounds": 400,
    "evaluate_every": 100,
}
runs = {
    "alone": simulate(protocol="isolated", **keys),
    "together": simulate(protocol={"name": "consensus", "penalty": 1.0}, **keys),
    "together, with trust": simulate(protocol={"name": "consensus", "penalty": 1.0, "robust": "trust"}, **keys),
}

# %%
# The answer
# ----------
# The error of a sound station is that on true values, root mean square, in micrograms.

hours = np.linspace(0.0, 24.0, 97)
grid = np.array([(hour, wind) for hour in hours[::4] for wind in (1.0, 3.0, 6.0)])
sound = [name for name in STATIONS if name not in BROKEN]


def error(result, station):
    """Return how far a station's model is from the truth."""
    return float(np.sqrt(np.mean((result.model(station).predict(grid) - dust(*grid.T)) ** 2)))


figure, (bars, course) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[1.3, 1])
for place, (title, result) in enumerate(runs.items()):
    found = [error(result, name) for name in sound]
    print(f"{title:22} mean {np.mean(found):.2f}, worst {max(found):.2f}")
    bars.bar(np.arange(len(sound)) + 0.27 * (place - 1), found, 0.25, label=title)
bars.set(xticks=range(len(sound)), xticklabels=sound, ylabel="error of sound stations", ylim=(0.0, 2.2))
bars.legend(ncols=3, loc="upper center", fontsize=8)
course.plot(hours, dust(hours, 3.0), color="black", linewidth=2, label="truth, wind 3 m/s")
for title, result in runs.items():
    course.plot(hours, result.model("Fair").predict(np.column_stack([hours, np.full(97, 3.0)])), label=f"Fair, {title}")
course.set(xlabel="hour", ylabel="fine dust", ylim=(0.0, 30.0))
course.legend(fontsize=8, loc="upper center")
plt.show()

# %%
# Who is broken?
# --------------
# The table of edges has a column ``trust``: 0 where the source leaves the target out. A station whom most of its
# sound neighbours leave out deserves a visit.

trusting = runs["together, with trust"]
edges = trusting.edges
last = edges["round"] == edges["round"].max()
left_out = {
    name: 1.0 - float(edges["trust"][last & (edges["target"] == place)].mean())
    for place, name in enumerate(trusting.node_names.values())
}
suspects = sorted(left_out, key=lambda name: -left_out[name])[:3]
print("left out by", ", ".join(f"{share:.0%}: {name}" for name, share in left_out.items()))
print("to be visited:", ", ".join(f"{name} ({BROKEN.get(name, 'sound')})" for name in suspects))

# %%
# The model at work
# -----------------
# The model of a sound station goes to a file without pickles, and another process predicts tomorrow's rush hour.

folder = tempfile.TemporaryDirectory()  # which goes with this process
file = Path(folder.name) / "fair.npz"
save_model(trusting.model("Fair"), file)
program = """
import sys
from kernelswarm import load_model
print(load_model(sys.argv[1]).predict([[float(word) for word in sys.argv[2:]]])[0])
"""
done = subprocess.run([sys.executable, "-c", program, file, "8", "3"], capture_output=True, text=True, check=True)
print(f"at eight, wind 3 m/s: {float(done.stdout):.1f}, in truth {dust(8.0, 3.0):.1f}")
assert load_model(file).predict([[8.0, 3.0]])[0] == trusting.model("Fair").predict([[8.0, 3.0]])[0]
