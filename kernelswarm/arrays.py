"""Type aliases of arrays by content: floats, integers, truth values."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
