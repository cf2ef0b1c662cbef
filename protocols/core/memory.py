"""Memory at an address as an array, for compiled code that gets an address from Python."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from kernelswarm.inside_numba import COMPILES

Array = npt.NDArray[np.float64]

if not COMPILES:

    def numbers_at(address: int, size: int) -> Array:
        """Return the (size,) numbers at an address, which must stay there as long as the array is used."""
        return np.ctypeslib.as_array((ctypes.c_double * int(size)).from_address(int(address)))

else:

    @intrinsic
    def numbers_at(typing_context: Any, address: Any, size: Any) -> Any:
        """Return the (size,) numbers at an address, which must stay there as long as the array is used."""
        kind = types.Array(types.float64, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            part, eight = context.make_array(kind)(context, builder), context.get_constant(types.intp, 8)
            data = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
            context.populate_array(part, data=data, shape=[arguments[1]], strides=[eight], itemsize=eight, meminfo=None)
            return part._getvalue()

        return kind(types.intp, types.intp), generate
