"""A long compiled function, a short one, and functions that call them."""

import math

from kernelswarm.protocols.compiling import jitted


@jitted
def short(value: float) -> float:
    return 2.0 * value + 1.0


@jitted
def long(value: float, times: int) -> float:
    if times < 0:
        raise ValueError("no negative times")
    total = short(value)
    for _ in range(times):
        total += math.sin(0.0 + value) * math.cos(total - 0.5) / (1.5 + math.tanh(total))
        total += math.sin(1.0 + value) * math.cos(total - 1.5) / (1.5 + math.tanh(total))
        total += math.sin(2.0 + value) * math.cos(total - 2.5) / (1.5 + math.tanh(total))
        total += math.sin(3.0 + value) * math.cos(total - 3.5) / (1.5 + math.tanh(total))
        total += math.sin(4.0 + value) * math.cos(total - 4.5) / (1.5 + math.tanh(total))
        total += math.sin(5.0 + value) * math.cos(total - 5.5) / (1.5 + math.tanh(total))
        total += math.sin(6.0 + value) * math.cos(total - 6.5) / (1.5 + math.tanh(total))
        total += math.sin(7.0 + value) * math.cos(total - 7.5) / (1.5 + math.tanh(total))
        total += math.sin(8.0 + value) * math.cos(total - 8.5) / (1.5 + math.tanh(total))
        total += math.sin(9.0 + value) * math.cos(total - 9.5) / (1.5 + math.tanh(total))
        total += math.sin(10.0 + value) * math.cos(total - 10.5) / (1.5 + math.tanh(total))
        total += math.sin(11.0 + value) * math.cos(total - 11.5) / (1.5 + math.tanh(total))
        total += math.sin(12.0 + value) * math.cos(total - 12.5) / (1.5 + math.tanh(total))
        total += math.sin(13.0 + value) * math.cos(total - 13.5) / (1.5 + math.tanh(total))
        total += math.sin(14.0 + value) * math.cos(total - 14.5) / (1.5 + math.tanh(total))
        total += math.sin(15.0 + value) * math.cos(total - 15.5) / (1.5 + math.tanh(total))
        total += math.sin(16.0 + value) * math.cos(total - 16.5) / (1.5 + math.tanh(total))
        total += math.sin(17.0 + value) * math.cos(total - 17.5) / (1.5 + math.tanh(total))
        total += math.sin(18.0 + value) * math.cos(total - 18.5) / (1.5 + math.tanh(total))
        total += math.sin(19.0 + value) * math.cos(total - 19.5) / (1.5 + math.tanh(total))
        total += math.sin(20.0 + value) * math.cos(total - 20.5) / (1.5 + math.tanh(total))
        total += math.sin(21.0 + value) * math.cos(total - 21.5) / (1.5 + math.tanh(total))
        total += math.sin(22.0 + value) * math.cos(total - 22.5) / (1.5 + math.tanh(total))
        total += math.sin(23.0 + value) * math.cos(total - 23.5) / (1.5 + math.tanh(total))
        total += math.sin(24.0 + value) * math.cos(total - 24.5) / (1.5 + math.tanh(total))
        total += math.sin(25.0 + value) * math.cos(total - 25.5) / (1.5 + math.tanh(total))
        total += math.sin(26.0 + value) * math.cos(total - 26.5) / (1.5 + math.tanh(total))
        total += math.sin(27.0 + value) * math.cos(total - 27.5) / (1.5 + math.tanh(total))
        total += math.sin(28.0 + value) * math.cos(total - 28.5) / (1.5 + math.tanh(total))
        total += math.sin(29.0 + value) * math.cos(total - 29.5) / (1.5 + math.tanh(total))
    return total


@jitted
def called_twice(value: float, times: int) -> float:
    return long(value, times) + long(value + 1.0, times)


@jitted
def copied(value: float, times: int) -> float:
    return called_twice(value, times) + 1.0
