"""Rows that come one at a time find everything compiled once learning has begun."""

from __future__ import annotations

import subprocess
import sys

STREAMS = """
import numpy as np

from kernelswarm import KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.protocols.core.compiling import Dispatcher

random = np.random.default_rng(0)
x = random.uniform(-1.0, 1.0, (4000, 4))
y = np.sin(3.0 * x[:, 0]) + x[:, 1] ** 2 + 0.1 * random.normal(size=4000)
streams = [(model(random_state=0), y, {}) for model in (PolkRegressor, KernelRegressor)]
known = {"classes": [False, True]}
streams += [(model(random_state=0), y > 0.5, known) for model in (PolkClassifier, KernelClassifier)]


def learn(rows):
    for model, targets, keys in streams:
        for row in rows:
            if row:
                model.predict(x[row : row + 1])
            model.partial_fit(x[row : row + 1], targets[row : row + 1], **keys)


learn(range(150))
late = []
compiled = Dispatcher.compile
Dispatcher.compile = lambda self, signature: late.append(self.py_func.__name__) or compiled(self, signature)
learn(range(150, 4000))
print(late)
"""


def test_nothing_is_compiled_or_loaded_in_the_middle_of_a_stream() -> None:
    """The factor of a dictionary is looked at after 1,000 changes and more, which these rows make."""
    done = subprocess.run([sys.executable, "-c", STREAMS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
