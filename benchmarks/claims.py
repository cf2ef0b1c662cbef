"""How often a comparison claims what is not so, and what is: the sign-flip test beside Student's t with Holm's rule.

Level: rows that do not differ, of several kinds of noise; the share of groups in which any pair is called different,
which must be at most 1 in 20 for any number of rows and seeds. The largest share over 2 to 16 rows is printed, and for
how many rows it is.

Power: normal noise, one half of the rows worse than the other by some deviations of a difference; the share of the
pairs across that is found.

    python benchmarks/claims.py [--groups 500]
"""

import argparse

import numpy as np
from scipy.special import stdtr

from kernelswarm.arrays import Array
from kernelswarm.simulations.records.outcome import LEVEL, step_down

ROWS, SEEDS = (2, 3, 5, 16), (3, 4, 5, 6, 7, 8, 10)
EFFECTS = (1.0, 2.0, 3.0)
KINDS = {
    "normal": lambda random, shape: random.normal(size=shape),
    "many sizes": lambda random, shape: random.normal(size=shape) * 10.0 ** -(np.arange(shape[0]) % 5)[:, None],
    "t, 2 degrees": lambda random, shape: random.standard_t(2, size=shape),
    "Cauchy": lambda random, shape: random.standard_cauchy(size=shape),
    "log-normal": lambda random, shape: np.exp(1.5 * random.normal(size=shape)),
    "10 of 50 rows wrong": lambda random, shape: random.binomial(50, 0.2, size=shape) / 50.0,
    "1 of 37 rows wrong": lambda random, shape: random.binomial(37, 0.03, size=shape) / 37.0,
    "1 run in 2 fails": lambda random, shape: random.binomial(1, 0.5, shape) + 0.01 * random.normal(size=shape),
    "1 run in 5 fails": lambda random, shape: random.binomial(1, 0.2, shape) + 0.01 * random.normal(size=shape),
}


def student(differences: Array) -> Array:
    """Return the p-values of Student's paired t test after Holm's correction; 0 where all differences are equal."""
    seeds, tests = differences.shape
    means, deviations = np.abs(differences.mean(axis=0)), differences.std(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = np.where(means > 0.0, 2.0 * stdtr(seeds - 1, -means * np.sqrt(seeds) / deviations), 1.0)
    chances[(means > 0.0) & (deviations <= 1e-12 * means)] = 0.0
    order, result = np.argsort(chances), np.empty(tests)
    result[order] = np.minimum(1.0, np.maximum.accumulate(chances[order] * np.arange(tests, 0, -1)))
    return result


TESTS = {"sign flips": step_down, "t and Holm": student}


def level(groups: int) -> None:
    print("largest share of groups with a false claim, and its rows")
    print(f"{'':22}{'':12}" + "".join(f"{seeds:>3} seeds " for seeds in SEEDS))
    for kind, noise in KINDS.items():
        for test, chances in TESTS.items():
            line = ""
            for seeds in SEEDS:
                shares = []
                for rows in ROWS:
                    random, (low, high) = np.random.default_rng([rows, seeds]), np.triu_indices(rows, 1)
                    found = (noise(random, (rows, seeds)) for _ in range(groups))
                    false = sum(bool((chances((one[high] - one[low]).T) <= LEVEL).any()) for one in found)
                    shares.append((false / groups, rows))
                line += f"  {max(shares)[0]:.3f}/{max(shares)[1]:<2}"[:10].rjust(10)
            print(f"{kind:22}{test:12}{line}", flush=True)


def power(groups: int) -> None:
    print("\nshare of true differences that is found")
    print(f"{'deviations, rows':22}{'':12}" + "".join(f"{seeds:>3} seeds " for seeds in SEEDS))
    for effect in EFFECTS:
        for rows in ROWS:
            low, high = np.triu_indices(rows, 1)
            worse = effect * np.sqrt(2.0) * (np.arange(rows) >= rows // 2)[:, None]
            across = worse[low, 0] != worse[high, 0]
            for test, chances in TESTS.items():
                line = ""
                for seeds in SEEDS:
                    random = np.random.default_rng([rows, seeds])
                    found = (random.normal(size=(rows, seeds)) + worse for _ in range(groups))
                    shares = [np.mean(chances((one[high] - one[low]).T)[across] <= LEVEL) for one in found]
                    line += f"{np.mean(shares):>10.2f}"
                print(f"{f'{effect:g}, {rows}':22}{test:12}{line}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=500)
    asked = parser.parse_args()
    level(asked.groups)
    power(asked.groups // 5)
