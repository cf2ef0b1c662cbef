"""
Ten clinics that share no rows
==============================

*Ten clinics each have some dozen patients with a tumour, malignant or benign, and each sees its own mix of the two.
No row may leave a clinic. What do they gain by learning together, and should they end with one model or with one
each?*

The data are the Wisconsin breast cancer set, 569 patients with thirty measurements, which comes with scikit-learn.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer

from kernelswarm import save_model, simulate

CLINICS = np.array([f"clinic {number}" for number in range(10)])


def dealt(labels, concentration, random):
    """Return the clinic of each patient: each label in Dirichlet proportions, at least five patients a clinic."""
    clinic = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        patients = random.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(random.dirichlet(np.full(10, concentration)))[:-1] * len(patients)
        for number, some in enumerate(np.split(patients, ends.astype(int))):
            clinic[some] = number
    clinic[random.permutation(len(labels))[:50]] = np.repeat(np.arange(10), 5)
    return clinic


# %%
# The patients
# ------------
# Measurements are in units of their deviation. Bandwidth and step size are numbers: words such as ``"median"`` would
# look at rows of all clinics.

found = load_breast_cancer()
inputs = (found.data - found.data.mean(axis=0)) / found.data.std(axis=0)
labels = np.where(found.target == 0, "malignant", "benign")
clinic = dealt(labels, 0.3, np.random.default_rng(0))
for number, name in enumerate(CLINICS):
    own = labels[clinic == number]
    print(f"{name}: {len(own)} patients, {np.mean(own == 'malignant'):.0%} malignant")

# %%
# Five ways to learn
# ------------------
# Consensus and proximity would send sample points to be answered, which are rows. Here the weights of shared random
# features travel instead. Diffusion ends with one model for all. Ditto gives each clinic a model near the common one:
# the smaller the penalty, the more its own.

protocols = {"alone": {"name": "isolated"}}
for penalty in (0.001, 0.003, 0.03):
    protocols[f"own model, penalty {penalty:g}"] = {"name": "ditto", "penalty": penalty}
protocols["one model"] = {"name": "diffusion"}
runs = {
    title: simulate(
        topology={"name": "small_world", "nodes": 10},
        data=(inputs, labels, CLINICS[clinic]),
        stream={"epochs": 20, "test_fraction": 0.4, "standardize": False},  # it was done above
        learner={
            "name": "random_features",
            "features": 200,
            "loss": "logistic",
            "kernel": {"name": "gaussian", "bandwidth": 4.0},
            "step_size": 2.0,
        },
        protocol=protocol,
        rounds=300,
        evaluate_every=300,
    )
    for title, protocol in protocols.items()
}

# %%
# The answer
# ----------
# Errors on a clinic's own patients, who have its mix, and on those of all clinics. Over three divisions of the
# patients, alone, with own models at penalty .003, and with one model, the mean risk on own patients is .19, .13 and
# .16, and the error on all patients .20, .10 and .07: learning together is worth most, an own model adds the
# clinic's own mix, and pays for it on patients from elsewhere.

for title, result in runs.items():
    last = result.final
    print(f"{title:26} risk {last['risk']:.3f}, error {last['error']:.3f}; on all patients {last['global_error']:.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
places = np.arange(len(runs))
names = [title.replace("own model, ", "own model,\n") for title in runs]
left.bar(places - 0.2, [result.final["error"] for result in runs.values()], 0.38, label="own patients")
left.bar(places + 0.2, [result.final["global_error"] for result in runs.values()], 0.38, label="all patients")
left.set(ylabel="share misclassified", title="errors, mean of ten clinics")
left.legend()
right.bar(places, [result.final["risk"] for result in runs.values()], 0.6)
right.set(ylabel="logistic loss", title="risk on own patients")
for panel in (left, right):
    panel.set_xticks(places, names, fontsize=7)
plt.show()

# %%
# The model at work
# -----------------
# A clinic's own model goes to a file and is asked in another process. The file holds weights and no row: random
# features have no points.

folder = tempfile.TemporaryDirectory()  # which goes with this process
file = Path(folder.name) / "clinic.npz"
model = runs["own model, penalty 0.003"].model("clinic 3")
save_model(model, file)
assert not set(np.load(file).files) & {"points", "x", "y"}
program = """
import sys
from kernelswarm import load_model
model = load_model(sys.argv[1])
patient = [[float(word) for word in sys.argv[2:]]]
chances = dict(zip(model.classes, model.predict_proba(patient)[0]))
print(model.predict(patient)[0], *(f"{name} {chance:.2f}" for name, chance in chances.items()))
"""
words = [str(float(value)) for value in inputs[0]]
done = subprocess.run([sys.executable, "-c", program, file, *words], capture_output=True, text=True, check=True)
print(f"the first patient is {labels[0]}; the model says", done.stdout)
assert done.stdout.split()[0] == model.predict(inputs[:1])[0]
