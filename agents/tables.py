"""Matrices that lie in a vector, without a copy."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import config, types
from numba.extending import intrinsic
from numba.np import arrayobj

Array = npt.NDArray[np.float64]

_arrays: Any = arrayobj


def _type_and_code(typing_context: Any, vector: Any, start: Any, rows: Any, columns: Any) -> Any:
    kind = types.Array(types.float64, 2, "C")
    signature = kind(vector, types.intp, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = _arrays.make_array(signature.args[0])(context, builder, arguments[0])
        part = _arrays.make_array(kind)(context, builder)
        size = context.get_constant(types.intp, 8)
        shape = [arguments[2], arguments[3]]
        _arrays.populate_array(
            part,
            data=builder.gep(whole.data, [arguments[1]]),
            shape=shape,
            strides=[builder.mul(size, shape[1]), size],
            itemsize=size,
            meminfo=whole.meminfo,
            parent=whole.parent,
        )
        found = part._getvalue()
        context.nrt.incref(builder, kind, found)
        return found

    return signature, generate


if vars(config)["DISABLE_JIT"]:

    def table(vector: Array, start: int, rows: int, columns: int) -> Array:
        """Return the matrix (rows, columns) that begins at a place of a contiguous vector."""
        return vector[start : start + rows * columns].reshape(rows, columns)

else:
    # `reshape` asks whether the vector is contiguous and its size right, at every call.
    table: Any = intrinsic(_type_and_code)  # type: ignore[no-redef]
