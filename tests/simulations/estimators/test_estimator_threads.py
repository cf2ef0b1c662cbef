"""The estimators multiply matrices in as many threads as they are asked to, one unless asked."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from kernelswarm import PolkRegressor
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.parallel import cores
from tests.simulations.running.test_threads import Watching


@pytest.mark.parametrize(("jobs", "threads"), [(None, 1), (1, 1), (2, 2), (-1, cores())])
def test_threads_are_those_asked_for(jobs, threads):
    x = np.linspace(0.0, 1.0, 20)[:, None]
    Watching.libraries = ThreadpoolController()
    before = [library["num_threads"] for library in Watching.libraries.info()]
    Watching.seen.clear()
    model = PolkRegressor(kernel=Watching(0.3), epochs=1, n_jobs=jobs).fit(x, x[:, 0])
    model.predict(x)
    model.partial_fit(x, x[:, 0])
    assert Watching.seen == {threads}
    assert [library["num_threads"] for library in ThreadpoolController().info()] == before


@pytest.mark.parametrize("jobs", [0, 1.5, True, "all"])
def test_other_numbers_of_threads_are_refused(jobs):
    x = np.linspace(0.0, 1.0, 20)[:, None]
    with pytest.raises(InputError, match="n_jobs"):
        PolkRegressor(n_jobs=jobs).fit(x, x[:, 0])
