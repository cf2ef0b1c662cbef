"""MNIST with kernels of pixels and of images: test error and processor time of newton and POLK after every pass.

    python benchmarks/mnist_images.py FOLDER [--orders 3] [--passes 3] [--held-out]

FOLDER holds the four files of MNIST (train-images-idx3-ubyte.gz, ...). All learn from the 60,000 images in the same
orders, one setting after the other for each order, so that times compare; times are those of one thread. --held-out
learns from the first 50,000 and measures on the other 10,000: settings are chosen so, and never by the test images.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm import KernelClassifier, PolkClassifier
from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.data.array_files import read_idx

ORDER, KEPT = 1000, 50_000
IMAGES = {"name": "images", "shape": [28, 28]}


class Part(NamedTuple):
    """Images as rows of pixels in [0, 1], with their labels."""

    images: Array  # (n, 784)
    labels: Integers  # (n,)


def polk(alpha: float, **keys: Any) -> PolkClassifier:
    """Make POLK with the hinge loss as in docs/mnist.md: a falling step, and a budget that holds the model order."""
    return PolkClassifier(
        loss="hinge",
        step_size={"name": "diminishing", "initial": 150.0, "offset": 1000.0},
        regularization=1e-6,
        batch_size=32,
        budget={"target_order": ORDER, "alpha": alpha, "gain": 0.3 / ORDER, "smallest": alpha},
        **keys,
    )


def settings() -> dict[str, Any]:
    """Make a fresh estimator for each row."""
    return {
        "POLK, gaussian, bandwidth 4": polk(0.05, bandwidth=4.0),
        "newton, gaussian, bandwidth 4": KernelClassifier(ORDER, loss="squared_hinge", bandwidth=4.0),
        "POLK, images, bandwidth 0.4": polk(0.02, kernel=IMAGES, bandwidth=0.4),
        "newton, images": KernelClassifier(ORDER, loss="squared_hinge", kernel=IMAGES),
    }


def read(folder: Path, part: str) -> Part:
    """Read the images and labels whose file names begin with ``part``."""
    files = [folder / f"{part}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx("FOLDER", file if file.exists() else Path(f"{file}.gz")) for file in files)
    return Part(images.reshape(len(images), -1) / 255.0, labels.astype(np.int64))


def main() -> None:
    """Print a line for every pass, and the table of means."""
    parser = argparse.ArgumentParser(description="MNIST with kernels of pixels and of images.")
    parser.add_argument("folder", nargs="?", type=Path, help="the folder with MNIST's four files")
    parser.add_argument("--orders", type=int, default=3, help="orders of the images")
    parser.add_argument("--passes", type=int, default=3, help="passes over the images")
    parser.add_argument("--held-out", action="store_true", help="measure on training images that are held out")
    arguments = parser.parse_args()
    if arguments.folder is None:
        print("skipped: needs the folder with MNIST's four files: python benchmarks/mnist_images.py FOLDER")
        return
    train, test = read(arguments.folder, "train"), read(arguments.folder, "t10k")
    if arguments.held_out:
        train, test = Part(*(entry[:KEPT] for entry in train)), Part(*(entry[KEPT:] for entry in train))
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    with threadpool_limits(1):
        for model in settings().values():  # compile what is not on disk yet
            model.partial_fit(train.images[:640], train.labels[:640], classes=np.arange(10))
        for seed in range(arguments.orders):
            for name, model in settings().items():
                generator = np.random.default_rng(seed)
                for number in range(1, arguments.passes + 1):
                    order = generator.permutation(len(train.images))
                    images, labels = train.images[order], train.labels[order]
                    before = time.process_time()
                    model.partial_fit(images, labels, classes=np.arange(10))
                    taken = time.process_time() - before
                    error = 100.0 * float(np.mean(model.predict(test.images) != test.labels))
                    row = error, float(model.model_order_), taken
                    found.setdefault((name, number), []).append(row)
                    said = f"{error:.2f}%, M = {row[1]:.0f}, {taken:.1f} s, load {os.getloadavg()[0]:.0f}"
                    print(f"order {seed}, {name}, pass {number}: {said}", flush=True)
    print("| setting | passes | M | error | seconds of the pass |", "|---|---:|---:|---:|---:|", sep="\n")
    for (name, number), rows in found.items():
        errors, orders, seconds = np.array(rows).T
        spread = f" ± {errors.std(ddof=1):.2f}" if len(errors) > 1 else ""
        print(f"| {name} | {number} | {orders.mean():.0f} | {errors.mean():.2f}{spread}% | {seconds.mean():.1f} |")


if __name__ == "__main__":
    main()
