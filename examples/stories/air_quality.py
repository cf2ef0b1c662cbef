"""
A new station among five that know the air
==========================================

*Six stations along a road measure the air with cheap sensors, which age. Five have a reference instrument beside them
for good; the new one, Park, had it for two days. Can Park lean on the others for the rest of the time, over a radio
that loses a third of the messages?*

The readings are made by a stated formula. The last section says which line to change for the readings of a real device.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from kernelswarm import load_model, save_model, simulate

STATIONS = np.array(["Harbour", "Bridge", "Market", "Square", "Park", "Hill"])


def made_up_readings(hours=360, seed=0):
    """Return columns with a row for each station and hour, in the order of time.

    Carbon monoxide follows the rush hours and falls from station to station. One sensor answers to its root, one to its
    logarithm; both feel the temperature, and the first loses 40% of its answer over the time.
    """
    random = np.random.default_rng(seed)
    time = np.arange(hours)[:, None]
    day = time / 24
    rush = 1.2 + np.sin(2 * np.pi * (day - 0.25)) + 0.6 * np.sin(4 * np.pi * (day - 0.1))
    shape = hours, len(STATIONS)
    gas = np.clip((1.4 - 0.15 * np.arange(6)) * (rush + 0.4 * random.normal(size=shape)), 0.05, None)
    warmth = 15 + 8 * np.sin(2 * np.pi * day / 7) + 5 * np.sin(2 * np.pi * (day - 0.3)) + random.normal(size=shape)
    ageing = 1 - 0.4 * time / hours
    return {
        "hour": np.broadcast_to(time % 24, shape).ravel(),
        "sensor_1": (ageing * np.sqrt(gas) * (1 + 0.02 * (warmth - 15)) + 0.05 * random.normal(size=shape)).ravel(),
        "sensor_2": (np.log1p(gas) - 0.01 * (warmth - 15) + 0.1 * random.normal(size=shape)).ravel(),
        "temperature": warmth.ravel(),
        "station": np.tile(STATIONS, hours),
        "reference": gas.ravel(),
    }


def real_readings(path):
    """Return the UCI Air Quality readings (De Vito et al.) as the same kind of columns, from a file with X and Y.

    One device measured there. Its days are dealt to the six stations in turn, and the reference is its ozone sensor.
    """
    from scipy.io import loadmat

    found = loadmat(path)
    inputs, reference = found["X"], found["Y"][:, 0]
    places = {"sensor_1": 2, "sensor_2": 5, "sensor_3": 7, "sensor_4": 9, "temperature": 10, "humidity": 11}
    whole = (reference > -200) & (inputs[:, list(places.values())] > -200).all(axis=1)  # -200 stands for missing
    columns = {name: inputs[whole, place] for name, place in places.items()}
    station = STATIONS[np.arange(whole.sum()) // 24 % 6]
    return columns | {"hour": 24 * inputs[whole, 0], "station": station, "reference": reference[whole]}


# %%
# The question as data
# --------------------
# A third of the last quarter's rows is set aside for the test. Of Park's rows, only the first 48 are learned from.

readings = made_up_readings()
rows = np.arange(len(readings["hour"]))
tested = (rows > 0.75 * len(rows)) & (rows // 6 % 3 == 0)
of_park = readings["station"] == "Park"
learned = ~tested & ~of_park
learned[np.flatnonzero(of_park)[:48]] = True


def chosen(which):
    """Return the columns with some rows only."""
    return {name: column[which] for name, column in readings.items()}


# %%
# Three networks
# --------------
# ``newton`` forgets, so that it follows the sensors as they age. Rows keep the order of time.

keys = {
    "topology": {"name": "ring", "nodes": 6},
    "data": chosen(learned),
    "test": chosen(tested),
    "target": "reference",
    "node": "station",
    "stream": {"order": "file"},
    "learner": {"name": "newton", "forgetting": 0.995},
    "rounds": int(sum(learned) / 5),
    "evaluate_every": int(sum(learned) / 40),
}
runs = {
    "alone": simulate(protocol="isolated", **keys),
    "together": simulate(protocol={"name": "consensus", "penalty": 1.0}, **keys),
    "together, radio": simulate(
        protocol={"name": "consensus", "penalty": 1.0}, links={"loss": 0.33, "delay": 2}, **keys
    ),
}

# %%
# The answer
# ----------
# Errors are mean squares over the variance of the reference.


def errors(result):
    """Return each station's last error by its name."""
    last = result.nodes["round"] == result.nodes["round"].max()
    names = [result.node_names[node] for node in result.nodes["node"][last]]
    return dict(zip(names, result.nodes["error"][last], strict=True))


looks = {"alone": ("C1", "--"), "together": ("C4", ":"), "together, radio": ("C0", "-")}
figure, (bars, course) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=[1, 1.3])
for place, (title, result) in enumerate(runs.items()):
    found = errors(result)
    print(f"{title:16}", ", ".join(f"{name} {found[name]:.3f}" for name in STATIONS))
    heights = [found[name] for name in STATIONS]
    bars.bar(np.arange(6) + 0.27 * (place - 1), heights, 0.25, color=looks[title][0], label=title)
bars.set(title="error at each station", xticks=range(6), xticklabels=STATIONS, ylabel="error")
bars.legend()

late = chosen(tested & of_park)
inputs = np.column_stack([column for name, column in late.items() if name not in ("station", "reference")])
course.plot(late["reference"], color="black", linewidth=2, label="reference")
for title in ("alone", "together, radio"):
    color, dash = looks[title]
    course.plot(runs[title].model("Park").predict(inputs), color=color, linestyle=dash, label=f"Park, {title}")
course.set(title="Park, alone and together", xlabel="hours set aside, in order", ylabel="reference at Park")
course.legend()
plt.show()

# %%
# The model at work
# -----------------
# Park's model goes to a file without pickles. Another process loads it and takes readings as they come from the
# sensors.

folder = tempfile.TemporaryDirectory()  # which goes with this process
file = Path(folder.name) / "park.npz"
model = runs["together, radio"].model("Park")
save_model(model, file)
program = """
import sys
from kernelswarm import load_model
model = load_model(sys.argv[1])
readings = [float(word) for word in sys.argv[2:]]
print(model, model.predict([readings])[0])
"""
words = [str(float(value)) for value in inputs[-1]]
done = subprocess.run([sys.executable, "-c", program, file, *words], capture_output=True, text=True, check=True)
print(done.stdout, f"the reference said {late['reference'][-1]:.2f}")
assert load_model(file).predict(inputs[-1:])[0] == model.predict(inputs[-1:])[0]

# %%
# With real readings
# ------------------
# ``readings = real_readings("air_quality.mat")`` in place of ``made_up_readings()`` is all there is to change: a year
# of hours from the UCI Air Quality set. There Park alone has an error of .68, with its neighbours .067, and over the
# radio .065; the other five have .119 alone, .096 together and .106 over the radio, on average.
