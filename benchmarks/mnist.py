"""MNIST with one learner: test error, model order and training time beside POLK's published pairs and LIBSVM.

    python benchmarks/mnist.py FOLDER [--quick] [--printed] [--seed N]

FOLDER holds the four files of MNIST (train-images-idx3-ubyte.gz, ...), compressed or not; they are not part of this
project. LIBSVM (scikit-learn's SVC) is trained in the same run on the same images, so that the ratio of the times does
not depend on the machine; times are CPU seconds of one thread. Most of the full run is LIBSVM's, some ten minutes.
--quick takes the first 10,000 images once: it shows that everything works, not what can be reached. --printed adds the
constant step of the paper with a tenth of its parsimony constants, several minutes more (see docs/mnist.md).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kernelswarm import PolkClassifier
from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.data.array_files import read_idx

BANDWIDTH, BATCH, REGULARIZATION = 4.0, 32, 1e-6
QUICK = 10_000
CHUNK = 200 * BATCH
#: POLK's table 3 averages the error over the last twentieth of the samples; it is measured at so many places there.
LAST, PLACES = 0.05, 10

HEAD = """\
| setting | passes | M | error | mean of last 5% | published | training, s | of LIBSVM's | predicting, s |
|---|---:|---:|---:|---:|---|---:|---:|---:|"""


@dataclass(frozen=True)
class Setting:
    """One way to train, and the published pair of error in percent and model order that it is held against."""

    loss: str
    step_size: Any
    budget: dict[str, Any]
    passes: int
    published: str
    name: str


def steered(initial: float, offset: float, order: int, alpha: float) -> dict[str, Any]:
    """Describe a step that falls as 1/t with a budget that holds the model order.

    The gain is the same for every order in units of the order, and alpha may not fall while the dictionary fills.
    """
    return {
        "step_size": {"name": "diminishing", "initial": initial, "offset": offset},
        "budget": {"target_order": order, "alpha": alpha, "gain": 0.3 / order, "smallest": alpha},
        "name": f"eta = {initial:g} / (1 + t / {offset:g}), target order {order}",
    }


def constant(parsimony: float) -> dict[str, Any]:
    """Describe the paper's step with the budget eps = K eta^(3/2)."""
    return {"step_size": 24.0, "budget": {"parsimony": parsimony}, "name": f"eta = 24, K = {parsimony:g}"}


SETTINGS = [
    Setting("hinge", **steered(150.0, 1000.0, 324, 0.05), passes=3, published="M = 324"),
    Setting("hinge", **steered(150.0, 1000.0, 1086, 0.05), passes=3, published="2.46%, M = 1086"),
    Setting("logistic", **steered(600.0, 1000.0, 1500, 0.01), passes=1, published="2.68%, M = 2326"),
    Setting("logistic", **steered(600.0, 1000.0, 2326, 0.002), passes=1, published="2.68%, M = 2326"),
]
PRINTED = [
    Setting("hinge", **constant(0.024), passes=3, published="M = 324"),
    Setting("hinge", **constant(0.016), passes=5, published="2.46%, M = 1086"),
    Setting("logistic", **constant(0.008), passes=3, published="2.68%, M = 2326"),
]


@dataclass(frozen=True)
class Digits:
    """Images as rows of pixels in [0, 1], with their labels."""

    images: Array  # (n, 784)
    labels: Integers  # (n,)

    @classmethod
    def read(cls, folder: Path, part: str) -> "Digits":
        """Read the images and labels whose file names begin with ``part``."""
        files = [folder / f"{part}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
        images, labels = (read_idx("FOLDER", file if file.exists() else Path(f"{file}.gz")) for file in files)
        return cls(images.reshape(len(images), -1) / 255.0, labels.astype(np.int64))


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    setting: str
    passes: str
    order: int
    error: float
    averaged: float
    published: str
    training: float
    prediction: float


def portions(count: int, passes: int) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the pass and the range of each portion of the samples, and whether to measure the error after it."""
    averaged_from = max(int(count * (1.0 - LAST * passes)), 0) // BATCH * BATCH
    for number in range(passes):
        last = number == passes - 1
        start = 0
        while start < count:
            measured = last and start >= averaged_from
            width = max((count - averaged_from) // PLACES // BATCH, 1) * BATCH if measured else CHUNK
            end = min(start + width, count)
            if last and start < averaged_from < end:
                end = averaged_from
            yield number, start, end, measured
            start = end


def learn(setting: Setting, train: Digits, test: Digits, passes: int, seed: int) -> Row:
    """Train one classifier and measure it."""
    model = PolkClassifier(
        loss=setting.loss,
        bandwidth=BANDWIDTH,
        step_size=setting.step_size,
        regularization=REGULARIZATION,
        batch_size=BATCH,
        budget=setting.budget,
    )
    generator = np.random.default_rng(seed)
    order = np.arange(0)
    training = 0.0
    errors = []
    for number, start, end, measured in portions(len(train.images), passes):
        if start == 0:
            order = generator.permutation(len(train.images))
            progress(f"{setting.loss}, {setting.name}: pass {number + 1} of {passes}")
        rows = order[start:end]
        images, labels = train.images[rows], train.labels[rows]
        before = time.process_time()
        model.partial_fit(images, labels, classes=np.arange(10))
        training += time.process_time() - before
        if measured:
            errors.append(percent_wrong(model, test)[0])
        elif end == len(order):
            progress(f"    M = {model.model_order_}, error {percent_wrong(model, test)[0]:.2f}%, {training:.0f} s")
    error, prediction = percent_wrong(model, test)
    label = f"{setting.loss}, {setting.name}"
    averaged = float(np.mean(errors))
    return Row(label, str(passes), model.model_order_, error, averaged, setting.published, training, prediction)


def support_vectors(train: Digits, test: Digits) -> Row:
    """Train LIBSVM with the same kernel, gamma = 1 / (2 s^2); 2 GB of cache, with which it is faster than with less."""
    progress("LIBSVM")
    machine = SVC(C=10.0, gamma=1.0 / (2.0 * BANDWIDTH**2), cache_size=2000)
    before = time.process_time()
    machine.fit(train.images, train.labels)
    training = time.process_time() - before
    error, prediction = percent_wrong(machine, test)
    order = len(machine.support_)
    return Row("LIBSVM, C = 10, gamma = 1/32", "batch", order, error, error, "1.50%, M = 16118", training, prediction)


def percent_wrong(model: Any, test: Digits) -> tuple[float, float]:
    """Return the percentage of test images that get the wrong label, with the CPU seconds that predicting took."""
    before = time.process_time()
    predicted = model.predict(test.images)
    taken = time.process_time() - before
    return 100.0 * float(np.mean(predicted != test.labels)), taken


def progress(line: str) -> None:
    """Say what is going on, apart from the table."""
    print(line, file=sys.stderr, flush=True)


def line(row: Row, yardstick: Row) -> str:
    """Format a row of the Markdown table."""
    share = row.training / yardstick.training
    measured = f"{row.passes} | {row.order} | {row.error:.2f}% | {row.averaged:.2f}%"
    times = f"{row.training:.0f} | {share:.0%} | {row.prediction:.1f}"
    return f"| {row.setting} | {measured} | {row.published} | {times} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Train on MNIST; beside POLK's published pairs and LIBSVM.")
    parser.add_argument("folder", nargs="?", type=Path, help="the folder with MNIST's four files")
    parser.add_argument("--quick", action="store_true", help="only 10,000 images, once: does it work?")
    parser.add_argument("--printed", action="store_true", help="add the paper's constant step")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of the images")
    arguments = parser.parse_args()
    if arguments.folder is None:
        print("skipped: needs the folder with MNIST's four files: python benchmarks/mnist.py FOLDER [--quick]")
        return
    train, test = Digits.read(arguments.folder, "train"), Digits.read(arguments.folder, "t10k")
    if arguments.quick:
        train = Digits(train.images[:QUICK], train.labels[:QUICK])
    with threadpool_limits(1):
        first = Digits(train.images[:640], train.labels[:640])
        for setting in SETTINGS:  # compile what is not on disk yet
            learn(setting, first, Digits(test.images[:64], test.labels[:64]), 1, arguments.seed)
        yardstick = support_vectors(train, test)
        print(HEAD, line(yardstick, yardstick), sep="\n", flush=True)
        for setting in SETTINGS + (PRINTED if arguments.printed else []):
            passes = 1 if arguments.quick else setting.passes
            print(line(learn(setting, train, test, passes, arguments.seed), yardstick), flush=True)


if __name__ == "__main__":
    main()
