#!/usr/bin/env python3
"""The reference interpreter against numpy, operator by operator and element type by element type.

    against_numpy.py RELAY_OPT [--seed N] [--only OPERATOR] [--executor interp]

What an operator means here was written from its page in the reference, not from its code. Operands are of
every element type, of odd, unit and zero extents, and hold the ends of the range of their type, signed zeros,
subnormals, infinities and NaN. Ends with status 1, and a line for each operator and element type that differs.
"""

import argparse
import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = INTEGERS + FLOATS
ALL = NUMBERS + ["bool"]
SAFETENSORS = {
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "bool": "BOOL",
}
SHAPES = [(), (1,), (7,), (13, 9), (3, 1, 5), (0,), (2, 0, 3)]


def dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def bits(name):
    return 8 * dtype(name).itemsize


# ----- files of arrays

def write(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        kind = SAFETENSORS[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    data, names = raw[8 + size:], {short: name for name, short in SAFETENSORS.items()}
    arrays = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[begin:end], dtype(names[entry["dtype"]])).reshape(entry["shape"])
    return [arrays[f"out_{index}"] for index in range(len(arrays))]


# ----- operands

def specials(name):
    if name == "bool":
        return [False, True]
    if name in INTEGERS:
        info = np.iinfo(name)
        return [info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, 2, 3] + ([-1] if info.min else [])
    info = ml_dtypes.finfo(dtype(name))
    return [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, math.inf, -math.inf, math.nan,
            float(info.max), -float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)]


def operand(random, name, shape, tame=False):
    """Random elements; half of them special ones, unless they are to be tame: finite, of ordinary size."""
    if name == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if name in INTEGERS:
        info = np.iinfo(name)
        low, high = (max(info.min, -9), 9) if tame else (info.min, info.max)
        values = random.integers(low, high, shape, dtype=name, endpoint=True)
    else:
        values = (random.standard_normal(shape) * 4).astype(dtype(name))
    values = np.asarray(values)
    if tame or not values.size:
        return values
    chosen = np.array([specials(name)[index] for index in random.integers(0, len(specials(name)), values.size)])
    chosen = chosen.astype(dtype(name)).reshape(shape)
    return np.where(random.integers(0, 2, shape) == 1, chosen, values).astype(dtype(name))


# ----- what operators mean

def wide(array):
    """As Python integers, or float64: nothing wraps."""
    return array.astype(object) if array.dtype.kind in "iub" else array.astype(np.float64)


def narrow(values, name):
    """Integers wrap; floats are rounded once."""
    values = np.asarray(values)
    if name in INTEGERS:
        modulus, info = 1 << bits(name), np.iinfo(name)
        wrap = np.frompyfunc(lambda value: (int(value) - info.min) % modulus + info.min, 1, 1)
        return np.asarray(wrap(values), dtype=object).astype(name).reshape(values.shape)
    return values.astype(np.float64).astype(dtype(name))


def truncated(left, right):
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def integers(function, arity):
    return np.frompyfunc(function, arity, 1)


def by_kind(on_integers, on_floats):
    def meaning(name, *arrays):
        operands = [wide(array) for array in arrays]
        if name in INTEGERS:
            return narrow(integers(on_integers, len(arrays))(*operands), name)
        return narrow(on_floats(*operands), name)
    return meaning


def same(function):
    def meaning(name, *arrays):
        return narrow(function(*[wide(array) for array in arrays]), name)
    return meaning


def compare(function):
    return lambda name, *arrays: np.asarray(function(*[wide(array) for array in arrays]), dtype=bool)


def real(function):
    return lambda name, array: narrow(function(array.astype(np.float64)), name)


def away(values):
    """Rounds ties away from zero."""
    return np.copysign(np.floor(np.abs(values) + np.where(np.abs(values) < 2.0**52, 0.5, 0.0)), values)


def picked(greatest):
    def meaning(left, right):
        chosen = np.where((left > right) if greatest else (left < right), left, right)
        chosen = np.where(np.isnan(left) | np.isnan(right), np.nan, chosen)
        return chosen
    return meaning


def shifted(left):
    def meaning(name, values, amounts):
        def shift(value, amount):
            if left:
                return 0 if amount >= bits(name) else value << amount
            return value >> min(amount, 200)
        return narrow(integers(shift, 2)(wide(values), wide(amounts)), name)
    return meaning


def converted(target):
    def meaning(name, array):
        if target == "bool":
            return np.asarray(wide(array) != 0, dtype=bool)
        if target in INTEGERS:
            # What 64 bits do not hold becomes the nearest that they do, before it wraps.
            least, greatest = -(2**63), 2**64 - 1 if target == "uint64" else 2**63 - 1

            def to_integer(value):
                if not isinstance(value, float):
                    return int(value)
                if math.isnan(value):
                    return 0
                return int(min(max(value, least), greatest)) if math.isfinite(value) else (least if value < 0 else greatest)
            return narrow(integers(to_integer, 1)(wide(array)), target)
        if name == "float64" and target in ("float16", "bfloat16"):
            return array.astype(dtype(target))
        values = array.astype(np.float64) if name in FLOATS + ["bool"] else array
        return values.astype(dtype(target))
    return meaning


ERF = np.vectorize(math.erf, otypes=[np.float64])
UNARY_REAL = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "exp": np.exp, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "erf": ERF,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}
# Name: what it means, element types, operands, what is asked of operands.
OPERATORS = {name: (real(function), FLOATS, 1, {}) for name, function in UNARY_REAL.items()}
OPERATORS |= {
    "negative": (same(lambda x: -x), NUMBERS, 1, {}),
    "abs": (same(abs), NUMBERS, 1, {}),
    "sign": (same(lambda x: (x > 0).astype(int) - (x < 0).astype(int)), NUMBERS, 1, {}),
    "floor": (real(np.floor), FLOATS, 1, {}),
    "ceil": (real(np.ceil), FLOATS, 1, {}),
    "trunc": (real(np.trunc), FLOATS, 1, {}),
    "round": (real(away), FLOATS, 1, {}),
    "round_even": (real(np.rint), FLOATS, 1, {}),
    "isnan": (compare(np.isnan), FLOATS, 1, {}),
    "isfinite": (compare(np.isfinite), FLOATS, 1, {}),
    "isinf": (compare(np.isinf), FLOATS, 1, {}),
    "logical_not": (lambda name, x: ~x, ["bool"], 1, {}),
    "bitwise_not": (lambda name, x: ~x, INTEGERS, 1, {}),
    "add": (same(lambda x, y: x + y), NUMBERS, 2, {}),
    "subtract": (same(lambda x, y: x - y), NUMBERS, 2, {}),
    "multiply": (same(lambda x, y: x * y), NUMBERS, 2, {}),
    "divide": (by_kind(truncated, np.divide), NUMBERS, 2, {"divisor": True}),
    "trunc_divide": (by_kind(truncated, lambda x, y: np.trunc(x / y)), NUMBERS, 2, {"divisor": True, "tame": True}),
    "floor_divide": (by_kind(lambda x, y: x // y, lambda x, y: np.floor(x / y)), NUMBERS, 2,
                     {"divisor": True, "tame": True}),
    "mod": (by_kind(lambda x, y: x - truncated(x, y) * y, np.fmod), NUMBERS, 2, {"divisor": True, "tame": True}),
    "trunc_mod": (by_kind(lambda x, y: x - truncated(x, y) * y, np.fmod), NUMBERS, 2, {"divisor": True, "tame": True}),
    "floor_mod": (by_kind(lambda x, y: x % y, np.mod), NUMBERS, 2, {"divisor": True, "tame": True}),
    "power": (by_kind(lambda x, y: x**y, np.power), NUMBERS, 2, {"exponent": True, "tame": True}),
    "maximum": (by_kind(max, picked(True)), NUMBERS, 2, {}),
    "minimum": (by_kind(min, picked(False)), NUMBERS, 2, {}),
    "logical_and": (lambda name, x, y: x & y, ["bool"], 2, {}),
    "logical_or": (lambda name, x, y: x | y, ["bool"], 2, {}),
    "logical_xor": (lambda name, x, y: x ^ y, ["bool"], 2, {}),
    "bitwise_and": (lambda name, x, y: x & y, INTEGERS, 2, {}),
    "bitwise_or": (lambda name, x, y: x | y, INTEGERS, 2, {}),
    "bitwise_xor": (lambda name, x, y: x ^ y, INTEGERS, 2, {}),
    "left_shift": (shifted(True), INTEGERS, 2, {"amount": True}),
    "right_shift": (shifted(False), INTEGERS, 2, {"amount": True}),
    "equal": (compare(lambda x, y: x == y), ALL, 2, {}),
    "not_equal": (compare(lambda x, y: x != y), ALL, 2, {}),
    "less": (compare(lambda x, y: x < y), NUMBERS, 2, {}),
    "less_equal": (compare(lambda x, y: x <= y), NUMBERS, 2, {}),
    "greater": (compare(lambda x, y: x > y), NUMBERS, 2, {}),
    "greater_equal": (compare(lambda x, y: x >= y), NUMBERS, 2, {}),
    "nn.relu": (by_kind(lambda x: max(x, 0), lambda x: np.where(np.isnan(x), x, np.maximum(x, 0))), NUMBERS, 1, {}),
}


def reduced(function, on_empty):
    """A reduction along the last axis, or none where an error is what extents of 0 give."""
    def meaning(name, array):
        if array.ndim == 0 or (not on_empty and 0 in array.shape):
            return None
        return function(name, array)
    return meaning


def argument(function):
    def meaning(name, array):
        values = wide(array)
        if name in FLOATS:
            return function(values, axis=-1).astype(np.int32)
        return np.apply_along_axis(lambda row: function(np.array([int(v) for v in row], dtype=object)), -1, values).astype(np.int32)
    return meaning


def stable(name, array):
    """Positions in ascending order, NaN last, equal ones as they stood."""
    return np.argsort(wide(array) if name in FLOATS else array, axis=-1, kind="stable").astype(np.int32)


def folded(function):
    return lambda name, array: narrow(np.asarray(function(wide(array), axis=-1)), name)


# Name: text of the call on %x, what it means, element types, tame.
CALLS = {
    "sum": ("sum(%x, axis=[-1])", reduced(folded(np.sum), True), NUMBERS, True),
    "prod": ("prod(%x, axis=[-1])", reduced(folded(np.prod), True), INTEGERS, True),
    "max": ("max(%x, axis=[-1])", reduced(folded(np.max), False), NUMBERS, False),
    "min": ("min(%x, axis=[-1])", reduced(folded(np.min), False), NUMBERS, False),
    "all": ("all(%x, axis=[-1])", reduced(lambda name, x: np.all(x, axis=-1), True), ["bool"], True),
    "any": ("any(%x, axis=[-1])", reduced(lambda name, x: np.any(x, axis=-1), True), ["bool"], True),
    "argmax": ("argmax(%x, axis=[-1])", reduced(argument(np.argmax), False), NUMBERS, False),
    "argmin": ("argmin(%x, axis=[-1])", reduced(argument(np.argmin), False), NUMBERS, False),
    "cumsum": ("cumsum(%x, axis=-1)", reduced(folded(np.cumsum), True), INTEGERS, False),
    "cumprod": ("cumprod(%x, axis=-1)", reduced(folded(np.cumprod), True), INTEGERS, False),
    "argsort": ('argsort(%x, axis=-1, dtype="int32")', reduced(stable, True), NUMBERS, True),
    "sort": ("sort(%x, axis=-1)", reduced(lambda name, x: np.sort(wide(x), axis=-1, kind="stable").astype(x.dtype), True), NUMBERS, True),
    "reverse": ("reverse(%x, axis=-1)", reduced(lambda name, x: np.flip(x, -1), True), ALL, False),
    "transpose": ("transpose(%x, axes=None)", lambda name, x: x.T, ALL, False),
    "repeat": ("repeat(%x, repeats=3, axis=-1)", reduced(lambda name, x: np.repeat(x, 3, -1), True), ALL, False),
    "tile": ("tile(%x, reps=[2, 3])", lambda name, x: np.tile(x, (2, 3)), ALL, False),
    "concatenate": ("concatenate((%x, %x), axis=-1)", reduced(lambda name, x: np.concatenate([x, x], -1), True), ALL, False),
    "stack": ("stack((%x, %x, %x), axis=0)", lambda name, x: np.stack([x, x, x]), ALL, False),
    "expand_dims": ("expand_dims(%x, axis=0, num_newaxis=2)", lambda name, x: x[None, None], ALL, False),
    "where": ("where(equal(%x, %x), %x, zeros_like(%x))", lambda name, x: np.where(x == x, x, np.zeros_like(x)), ALL, False),
    "clip": ("clip(%x, a_min=-2f, a_max=3f)", by_kind(lambda x: min(max(x, -2), 3), lambda x: np.clip(x, -2, 3)), SIGNED + FLOATS, False),
}
for target in ALL:
    CALLS[f"cast to {target}"] = (f'cast(%x, dtype="{target}")', converted(target), ALL, False)

# ----- what operators over several axes mean

# Name: what gives calls with their operands and results, element types.
PROGRAMS = {}


def program(operator, names):
    """Adds what a generator yields for an element type: text, operands by name, and what numpy gives."""
    def add(cases):
        PROGRAMS[operator] = (cases, names)
        return cases
    return add


def small(random, name, shape):
    """Numbers whose sums of products every type holds, so that results are exact."""
    if name == "bool":
        return np.asarray(random.integers(0, 2, shape).astype(bool))
    low = 0 if name in UNSIGNED else -2
    return np.asarray(random.integers(low, 3, shape)).astype(dtype(name))


def exact(values, name):
    """Numbers that were computed without rounding."""
    return narrow(np.asarray(values, dtype=object).astype(np.float64) if name in FLOATS else values, name)


def contraction(equation, name, *arrays):
    return exact(np.einsum(equation, *[array.astype(np.float64) for array in arrays]).astype(object), name)


def moved(values, name):
    return np.asarray(values).astype(dtype(name))


@program("nn.dense", NUMBERS)
def dense(random, name):
    for rows, inner, columns in ((3, 5, 7), (1, 1, 1), (0, 3, 2), (2, 0, 3), (4, 17, 9)):
        x, y = small(random, name, (rows, inner)), small(random, name, (columns, inner))
        yield "nn.dense(%x, %y, units=None)", {"x": x, "y": y}, contraction("ik,jk->ij", name, x, y)


@program("nn.dense wraps", INTEGERS)
def dense_wraps(random, name):
    x, y = operand(random, name, (3, 5)), operand(random, name, (2, 5))
    yield "nn.dense(%x, %y, units=None)", {"x": x, "y": y}, narrow(wide(x) @ wide(y).T, name)


@program("nn.dense to int32", ["int8", "uint8", "int16"])
def dense_wide(random, name):
    x, y = operand(random, name, (3, 5)), operand(random, name, (2, 5))
    expected = narrow(wide(x) @ wide(y).T, "int32")
    yield 'nn.dense(%x, %y, units=None, out_dtype="int32")', {"x": x, "y": y}, expected


@program("nn.matmul", NUMBERS)
def matmul(random, name):
    for a, b, equation in ((False, False, "ik,kj->ij"), (True, False, "ki,kj->ij"), (False, True, "ik,jk->ij")):
        x = small(random, name, (5, 3) if a else (3, 5))
        y = small(random, name, (4, 5) if b else (5, 4))
        text = f"nn.matmul(%x, %y, transpose_a={a}, transpose_b={b})"
        yield text, {"x": x, "y": y}, contraction(equation, name, x, y)


@program("nn.batch_matmul", NUMBERS)
def batch_matmul(random, name):
    for left, right in ((2, 2), (1, 3), (3, 1), (0, 0)):
        x, y = small(random, name, (left, 3, 5)), small(random, name, (right, 5, 4))
        spread = [np.broadcast_to(array, (max(left, right) if left else 0, *array.shape[1:])) for array in (x, y)]
        text = "nn.batch_matmul(%x, %y, transpose_a=False, transpose_b=False)"
        yield text, {"x": x, "y": y}, contraction("bik,bkj->bij", name, *spread)


@program("einsum", NUMBERS)
def einsum(random, name):
    for equation, *shapes in (("ij,jk->ik", (3, 5), (5, 2)), ("ii->i", (4, 4)), ("ij->", (3, 7)), ("i,j->ij", (3,), (5,)),
                              ("bij,bkj->bik", (2, 3, 5), (2, 4, 5)), ("ij,ij,j->i", (3, 2), (3, 2), (2,)), ("ij->i", (3, 0))):
        arrays = dict(zip("xyz", [small(random, name, shape) for shape in shapes]))
        text = f'einsum(({", ".join("%" + key for key in arrays)},), equation="{equation}")'
        yield text, arrays, contraction(equation, name, *arrays.values())


def windows(data, weight, strides, padding, dilation, groups, wrap):
    """A convolution by loops, over any number of spatial axes."""
    rank = data.ndim - 2
    spatial = [(0, 0), (0, 0)] + [(before, after) for before, after in zip(padding[:rank], padding[rank:])]
    data, weight = np.pad(wide(data), spatial), wide(weight)
    outputs, group = weight.shape[0], weight.shape[1]
    extents = [(data.shape[2 + axis] - (weight.shape[2 + axis] - 1) * dilation[axis] - 1) // strides[axis] + 1 for axis in range(rank)]
    result = np.zeros((data.shape[0], outputs, *extents), dtype=object)
    for out in range(outputs):
        first = out // (outputs // groups) * group
        for place in np.ndindex(*extents):
            window = tuple(slice(place[axis] * strides[axis], place[axis] * strides[axis] + (weight.shape[2 + axis] - 1) * dilation[axis] + 1,
                                 dilation[axis]) for axis in range(rank))
            part = data[(slice(None), slice(first, first + group), *window)]
            result[(slice(None), out, *place)] = (part * weight[out]).sum(axis=tuple(range(1, rank + 2)))
    return wrap(result)


def convolution(rank):
    def cases(random, name):
        extents, kernel = (7, 5, 6)[:rank], (3, 2, 3)[:rank]
        for strides, padding, dilation, groups, batch in (
                ([1] * rank, [0] * 2 * rank, [1] * rank, 1, 2), ([2] * rank, [1] * rank + [0] * rank, [1] * rank, 2, 1),
                ([1] * rank, [2] * 2 * rank, [2] * rank, 4, 1), ([3] * rank, [1] * 2 * rank, [1] * rank, 1, 0)):
            x = small(random, name, (batch, 4, *extents))
            y = small(random, name, (4, 4 // groups, *kernel))
            text = f"nn.conv{rank}d(%x, %y, strides={strides}, padding={padding}, dilation={dilation}, groups={groups})"
            yield text, {"x": x, "y": y}, windows(x, y, strides, padding, dilation, groups, lambda values: exact(values, name))
    return cases


for rank in (1, 2, 3):
    program(f"nn.conv{rank}d", NUMBERS)(convolution(rank))


@program("nn.conv2d wraps", INTEGERS)
def convolution_wraps(random, name):
    x, y = operand(random, name, (1, 2, 4, 5)), operand(random, name, (3, 2, 2, 3))
    yield "nn.conv2d(%x, %y)", {"x": x, "y": y}, windows(x, y, [1, 1], [0] * 4, [1, 1], 1, lambda values: narrow(values, name))


def pool_extent(extent, size, stride, before, after, dilation, ceil):
    span = extent + before + after - (size - 1) * dilation - 1
    return (-(-span // stride) if ceil else span // stride) + 1


def pooling(greatest):
    def cases(random, name):
        for size, stride, before, after, ceil, include in ((2, 2, 0, 0, False, False), (3, 2, 1, 1, False, True), (3, 2, 1, 0, True, True),
                                                           (2, 2, 0, 0, True, False), (2, 3, 0, 1, True, True)):
            x = operand(random, name, (2, 3, 7)) if greatest else small(random, name, (2, 3, 7))
            count = pool_extent(7, size, stride, before, after, 1, ceil)
            columns = []
            for place in range(count):
                start = place * stride - before
                inside = range(max(start, 0), min(start + size, 7))
                padded = range(max(start, -before), min(start + size, 7 + after))
                if not inside:
                    columns = None
                    break
                part = wide(x)[:, :, list(inside)]
                if greatest:
                    columns.append(part.max(axis=-1))
                elif name in INTEGERS:
                    divisor = len(padded) if include else len(inside)
                    columns.append(integers(lambda value: truncated(int(value), divisor), 1)(part.sum(axis=-1)))
                else:
                    columns.append(part.sum(axis=-1) / (len(padded) if include else len(inside)))
            if columns is None:
                continue
            attributes = f"pool_size=[{size}], strides=[{stride}], padding=[{before}, {after}], ceil_mode={ceil}"
            text = f"nn.max_pool1d(%x, {attributes})" if greatest else f"nn.avg_pool1d(%x, {attributes}, count_include_pad={include})"
            yield text, {"x": x}, narrow(np.stack(columns, axis=-1), name)
    return cases


program("nn.max_pool1d", NUMBERS)(pooling(True))
program("nn.avg_pool1d", NUMBERS)(pooling(False))


@program("nn.max_pool2d", NUMBERS)
def max_pool2d(random, name):
    x = operand(random, name, (1, 2, 5, 7))
    views = np.lib.stride_tricks.sliding_window_view(wide(x), (2, 3), (2, 3))[:, :, ::2, ::1]
    yield "nn.max_pool2d(%x, pool_size=[2, 3], strides=[2, 1])", {"x": x}, narrow(views.max(axis=(4, 5)), name)


@program("nn.adaptive_avg_pool1d", FLOATS)
def adaptive_average(random, name):
    for width, parts in ((7, 3), (5, 5), (4, 1)):
        x = small(random, name, (2, 3, width))
        cuts = [wide(x)[..., i * width // parts:-(-(i + 1) * width // parts)].mean(axis=-1) for i in range(parts)]
        yield f"nn.adaptive_avg_pool1d(%x, output_size=[{parts}])", {"x": x}, narrow(np.stack(cuts, -1), name)


@program("nn.global_avg_pool2d", FLOATS)
def global_average(random, name):
    x = small(random, name, (2, 3, 5, 7))
    yield "nn.global_avg_pool2d(%x)", {"x": x}, narrow(wide(x).mean(axis=(2, 3), keepdims=True), name)


def softmax(values, axis):
    exponentials = np.exp(values - values.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


@program("nn.softmax", FLOATS)
def softmaxes(random, name):
    for axis in (0, 1, -1):
        x = operand(random, name, (3, 5, 7), tame=True)
        yield f"nn.softmax(%x, axis={axis})", {"x": x}, narrow(softmax(wide(x), axis), name)


@program("nn.log_softmax", FLOATS)
def log_softmaxes(random, name):
    x = operand(random, name, (5, 7), tame=True)
    shifted = wide(x) - wide(x).max(axis=-1, keepdims=True)
    yield "nn.log_softmax(%x)", {"x": x}, narrow(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), name)


def normalized(values, axes):
    mean = values.mean(axis=axes, keepdims=True)
    return (values - mean) / np.sqrt(((values - mean) ** 2).mean(axis=axes, keepdims=True) + 0.125)


def scaled(random, name, values, channels, axis):
    gamma, beta = small(random, name, (channels,)), small(random, name, (channels,))
    shape = [1] * values.ndim
    shape[axis] = channels
    result = values * wide(gamma).reshape(shape) + wide(beta).reshape(shape)
    return {"y": gamma, "z": beta}, narrow(result, name)


@program("nn.layer_norm", FLOATS)
def layer_norm(random, name):
    x = operand(random, name, (3, 4, 6), tame=True)
    more, result = scaled(random, name, normalized(wide(x), (2,)), 6, 2)
    yield "nn.layer_norm(%x, %y, %z, epsilon=0.125)", {"x": x, **more}, result


@program("nn.instance_norm", FLOATS)
def instance_norm(random, name):
    x = operand(random, name, (2, 3, 4, 5), tame=True)
    more, result = scaled(random, name, normalized(wide(x), (2, 3)), 3, 1)
    yield "nn.instance_norm(%x, %y, %z, epsilon=0.125)", {"x": x, **more}, result


@program("nn.group_norm", FLOATS)
def group_norm(random, name):
    x = operand(random, name, (2, 6, 5), tame=True)
    groups = normalized(wide(x).reshape(2, 3, 2, 5), (2, 3)).reshape(2, 6, 5)
    more, result = scaled(random, name, groups, 6, 1)
    yield "nn.group_norm(%x, %y, %z, num_groups=3, epsilon=0.125)", {"x": x, **more}, result


@program("nn.batch_norm", FLOATS)
def batch_norm(random, name):
    x = operand(random, name, (2, 3, 5), tame=True)
    mean, variance = small(random, name, (3,)), abs(small(random, name, (3,)))
    values = (wide(x) - wide(mean).reshape(1, 3, 1)) / np.sqrt(wide(variance).reshape(1, 3, 1) + 0.125)
    more, result = scaled(random, name, values, 3, 1)
    text = "nn.batch_norm(%x, %y, %z, %v, %w, epsilon=0.125).0"
    yield text, {"x": x, **more, "v": mean, "w": variance}, result


@program("nn.batch_norm_train", FLOATS)
def batch_norm_train(random, name):
    x = operand(random, name, (2, 3, 5), tame=True)
    more, result = scaled(random, name, normalized(wide(x), (0, 2)), 3, 1)
    yield "nn.batch_norm_train(%x, %y, %z, epsilon=0.125).0", {"x": x, **more}, result


@program("nn.l2_normalize", FLOATS)
def l2_normalize(random, name):
    x = operand(random, name, (3, 5), tame=True)
    length = np.sqrt(np.maximum((wide(x) ** 2).sum(axis=1, keepdims=True), 0.25))
    yield "nn.l2_normalize(%x, eps=0.25, axis=[1])", {"x": x}, narrow(wide(x) / length, name)


@program("nn.lrn", FLOATS)
def lrn(random, name):
    x = operand(random, name, (1, 5, 2, 3), tame=True)
    squares = np.pad(wide(x) ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    yield "nn.lrn(%x, size=3, bias=2, alpha=0.5, beta=0.5)", {"x": x}, narrow(wide(x) / (2 + 0.5 / 3 * total) ** 0.5, name)


@program("mean", NUMBERS)
def mean(random, name):
    x = operand(random, name, (3, 5), tame=True)
    if name in INTEGERS:
        value = integers(lambda total: truncated(int(total), 5), 1)(wide(x).sum(axis=1))
    else:
        value = wide(x).mean(axis=1)
    yield "mean(%x, axis=[1])", {"x": x}, narrow(value, name)


@program("exclusive scans", INTEGERS)
def exclusive(random, name):
    x = operand(random, name, (3, 5))
    shifted = wide(x)[:, :-1]
    ahead = lambda first, values: np.concatenate([np.full((3, 1), first, dtype=object), values], axis=1)
    yield "cumsum(%x, axis=1, exclusive=True)", {"x": x}, narrow(ahead(0, np.cumsum(shifted, axis=1)), name)
    yield "cumprod(%x, axis=1, exclusive=True)", {"x": x}, narrow(ahead(1, np.cumprod(shifted, axis=1)), name)
    yield "cumsum(%x)", {"x": x}, narrow(np.cumsum(wide(x)), name)


@program("take", ALL)
def take(random, name):
    for index in ("int32", "int64", "int8"):
        x, y = operand(random, name, (5, 7)), np.asarray(random.integers(-9, 9, (2, 3))).astype(index)
        yield 'take(%x, %y, axis=1, mode="clip")', {"x": x, "y": y}, np.take(x, y, axis=1, mode="clip")
        yield 'take(%x, %y, axis=0, mode="wrap")', {"x": x, "y": y}, np.take(x, y, axis=0, mode="wrap")
        yield 'take(%x, %y, mode="clip")', {"x": x, "y": y}, np.take(x, y, mode="clip")
    x, y = operand(random, name, (5, 0)), np.zeros((0,), "int32")
    yield "take(%x, %y, axis=0)", {"x": x, "y": y}, np.take(x, y, axis=0)


@program("gather", ALL)
def gather(random, name):
    for index in ("int32", "int64"):
        x, y = operand(random, name, (3, 5, 2)), random.integers(-5, 5, (3, 4, 2)).astype(index)
        yield "gather(%x, %y, axis=1)", {"x": x, "y": y}, np.take_along_axis(x, y.astype("int64") % 5, axis=1)


@program("gather_nd", ALL)
def gather_nd(random, name):
    x, y = operand(random, name, (3, 5, 2)), np.stack([random.integers(-3, 3, 7), random.integers(-5, 5, 7)]).astype("int32")
    yield "gather_nd(%x, %y)", {"x": x, "y": y}, x[tuple(y)]


@program("scatter_elements", NUMBERS)
def scatter(random, name):
    for mode, apply in (("update", None), ("add", np.add), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum)):
        x = small(random, name, (3, 5)) if name in FLOATS else operand(random, name, (3, 5))
        places = np.stack([random.permutation(5)[:3] for _ in range(3)]) if apply is None else random.integers(-5, 5, (3, 3))
        y, z = places.astype("int64"), small(random, name, (3, 3))
        result, rows = wide(x), np.arange(3)[:, None]
        if apply is None:
            result[rows, places] = wide(z)
        else:
            apply.at(result, (rows, places), wide(z))
        yield f'scatter_elements(%x, %y, %z, axis=1, reduction="{mode}")', {"x": x, "y": y, "z": z}, narrow(result, name)


@program("scatter_nd", NUMBERS)
def scatter_nd(random, name):
    x, y, z = small(random, name, (4, 5)), random.integers(-4, 4, (1, 3)).astype("int32"), small(random, name, (3, 5))
    result = wide(x)
    np.add.at(result, (y[0].astype("int64"),), wide(z))
    yield 'scatter_nd(%x, %y, %z, mode="add")', {"x": x, "y": y, "z": z}, narrow(result, name)


@program("one_hot", ["int8", "uint8", "int32", "int64"])
def one_hot(random, name):
    x = np.asarray(random.integers(0 if name in UNSIGNED else -2, 7, (3, 2))).astype(name)
    value = np.where(x[..., None] == np.arange(5).astype(name), 2.5, -1).astype("float32")
    yield 'one_hot(%x, 2.5f, -1f, depth=5, dtype="float32")', {"x": x}, value


@program("slices", ALL)
def slices(random, name):
    for shape, begin, end, strides, cut in (
            ((7, 5), [1, 0], [6, 9], [2, 3], np.s_[1:6:2, 0:9:3]), ((7, 5), [-1, 4], [-8, 1], [-2, -1], np.s_[-1:-8:-2, 4:1:-1]),
            ((7, 0), [3, 0], [3, 5], [1, 1], np.s_[3:3, 0:5]), ((3, 4), [-9, -2], [9, 9], [1, 1], np.s_[-9:9, -2:9])):
        x = operand(random, name, shape)
        yield f"strided_slice(%x, begin={begin}, end={end}, strides={strides})", {"x": x}, x[cut]


@program("padding", ALL)
def padding(random, name):
    x = operand(random, name, (3, 5))
    zero = {"bool": "False"}.get(name, f'cast(0, dtype="{name}")')
    width = "pad_width=[[1, 2], [0, 3]]"
    yield f"nn.pad(%x, {zero}, {width})", {"x": x}, np.pad(x, [(1, 2), (0, 3)])
    for mode in ("edge", "reflect"):
        yield f'nn.pad(%x, {zero}, {width}, pad_mode="{mode}")', {"x": x}, np.pad(x, [(1, 2), (0, 3)], mode=mode)
    yield f'nn.mirror_pad(%x, mode="SYMMETRIC", {width})', {"x": x}, np.pad(x, [(1, 2), (0, 3)], mode="symmetric")


@program("blocks", ALL)
def blocks(random, name):
    x = operand(random, name, (2, 12, 2, 3))
    expected = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 4, 6)
    yield "nn.depth_to_space(%x, block_size=2)", {"x": x}, expected
    expected = x.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 4, 6)
    yield 'nn.depth_to_space(%x, block_size=2, mode="CRD")', {"x": x}, expected
    x = operand(random, name, (1, 3, 4, 6))
    expected = x.reshape(1, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 12, 2, 3)
    yield "nn.space_to_depth(%x, block_size=2)", {"x": x}, expected


@program("resizing to the nearest", NUMBERS)
def resize(random, name):
    attributes = 'method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor"'
    for width, size in ((5, 10), (7, 3), (3, 3)):
        x = operand(random, name, (1, 2, width))
        places = [min(int(place * (width / size)), width - 1) for place in range(size)]
        yield f"image.resize1d(%x, size=[{size}], {attributes})", {"x": x}, x[:, :, places]


@program("nn.upsampling to the nearest", NUMBERS)
def upsampling(random, name):
    x = operand(random, name, (1, 2, 3, 2))
    yield "nn.upsampling(%x, scale_h=2, scale_w=3)", {"x": x}, x.repeat(2, axis=2).repeat(3, axis=3)


@program("sequences", ALL)
def sequences(random, name):
    x, y = operand(random, name, (5, 3)), np.array([0, 4, 9], "int32")
    masked = np.where(np.arange(5)[:, None] < y, x, np.zeros_like(x))
    yield "sequence_mask(%x, %y)", {"x": x, "y": y}, masked
    x, y = operand(random, name, (3, 5)), np.array([-1, 4, 9], "int64")
    rows = [np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, np.clip(y, 0, 5))]
    yield "reverse_sequence(%x, %y)", {"x": x, "y": y}, np.stack(rows)


@program("ordered", NUMBERS)
def ordered(random, name):
    x = operand(random, name, (3, 7), tame=True)
    order = np.argsort(-wide(x) if name in FLOATS else -x.astype(object), axis=-1, kind="stable")[:, :3]
    yield "topk(%x, k=3).0", {"x": x}, np.take_along_axis(x, order, -1)
    yield "topk(%x, k=3).1", {"x": x}, order.astype("int32")
    row, y = np.sort(operand(random, name, (9,), tame=True)), operand(random, name, (2, 3), tame=True)
    yield "searchsorted(%x, %y)", {"x": row, "y": y}, np.searchsorted(wide(row).astype(float), wide(y).astype(float)).astype("int32")


@program("matrices", ALL)
def matrices(random, name):
    x = operand(random, name, (2, 4, 5))
    kept = np.arange(5)[None, :] - np.arange(4)[:, None]
    if name != "bool":
        yield "trilu(%x, 1, upper=True)", {"x": x}, np.where(kept >= 1, x, np.zeros_like(x))
        yield "trilu(%x, -1, upper=False)", {"x": x}, np.where(kept <= -1, x, np.zeros_like(x))
    y = operand(random, name, (2, 4))
    expected = x.copy()
    expected[:, np.arange(4), np.arange(4)] = y
    yield "matrix_set_diag(%x, %y)", {"x": x, "y": y}, expected


@program("parts", ALL)
def parts(random, name):
    x, y = operand(random, name, (6, 5)), operand(random, name, (1, 5))
    yield "split(%x, indices_or_sections=3, axis=0).1", {"x": x}, x[2:4]
    yield "split(%x, indices_or_sections=[1, 4], axis=1).2", {"x": x}, x[:, 4:]
    yield "broadcast_to(%y, shape=[6, 5])", {"y": y}, np.broadcast_to(y, (6, 5))
    yield "squeeze(%y, axis=[0])", {"y": y}, y[0]
    yield "reshape(%x, newshape=[3, -1])", {"x": x}, x.reshape(3, -1)
    yield "slice_like(%x, %y, axes=None)", {"x": x, "y": y}, x[:1, :5]
    yield "where(equal(%x, %x), %x, %y)", {"x": x, "y": y}, np.where(x == x, x, y)
    yield "nn.batch_flatten(%x)", {"x": x}, x


@program("activations", FLOATS)
def activations(random, name):
    x, y = operand(random, name, (3, 5)), small(random, name, (5,))
    values = wide(x)
    yield "nn.leaky_relu(%x, alpha=0.5)", {"x": x}, narrow(np.where(values > 0, values, values * 0.5), name)
    yield "nn.prelu(%x, %y, axis=1)", {"x": x, "y": y}, narrow(np.where(values > 0, values, values * wide(y)), name)


@program("nn.bias_add", NUMBERS)
def bias_add(random, name):
    x, y = operand(random, name, (2, 3, 5)), operand(random, name, (3,))
    yield "nn.bias_add(%x, %y, axis=1)", {"x": x, "y": y}, narrow(wide(x) + wide(y)[None, :, None], name)


@program("reinterpret", ["int32", "uint32", "float32"])
def reinterpret(random, name):
    x = operand(random, name, (3, 5))
    for target in ("int32", "uint32"):
        yield f'reinterpret(%x, dtype="{target}")', {"x": x}, x.view(target)


# How far results may be from the real numbers rounded once, in units of the last place.
ULPS = {name: 4 for name in UNARY_REAL} | {"power": 4, "sum": 64}
ULPS |= {name: 1 for name in ("nn.avg_pool1d", "nn.adaptive_avg_pool1d", "nn.global_avg_pool2d", "mean", "activations")}
# Differences cancel: a unit is one of the greatest number of a result.
CANCELLING = {f"nn.{name}": 4 for name in (
    "softmax", "log_softmax", "layer_norm", "instance_norm", "group_norm", "batch_norm", "batch_norm_train",
    "l2_normalize", "lrn")}
CANCELLING["sum"] = 8  # Loops add numbers of float32 in float32.


def agree(name, found, expected):
    """Whether `found` is `expected`; floats within a few units of the last place."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if found.dtype.kind in "iub":
        return bool(np.array_equal(found, expected))
    info = ml_dtypes.finfo(found.dtype)
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        unit = np.maximum(np.abs(expected), float(info.smallest_normal)) * float(info.eps)
        near = np.abs(found - expected) <= ULPS.get(name, 0) * unit
        if name in CANCELLING and expected.size:
            near |= np.abs(found - expected) <= CANCELLING[name] * float(info.eps) * np.max(np.abs(expected))
        top = float(info.max) * (1 - 8 * float(info.eps))
        edge = (ULPS.get(name, 0) > 0) & (np.abs(found) >= top) & (np.abs(expected) >= top)
    return bool(np.all((found == expected) | near | edge | (np.isnan(found) & np.isnan(expected))))


class Tester:
    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.random = np.random.default_rng(options.seed)
        self.tried, self.failures = 0, []

    def run(self, program, arrays):
        (self.folder / "program.relay").write_text(program)
        write(self.folder / "inputs.safetensors", arrays)
        command = [self.options.relay_opt, "run", "program.relay", "--executor", self.options.executor,
                   "--inputs", "inputs.safetensors", "-o", "outputs.safetensors"]
        ran = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if ran.returncode:
            return None, ran.stderr
        return read(self.folder / "outputs.safetensors"), ""

    def check(self, operator, name, calls):
        """`calls` are texts of calls, with their operands by name, and what they should give."""
        params, results, arrays, expected = [], [], {}, []
        for index, (text, operands, value) in enumerate(calls):
            for key, array in operands.items():
                arrays[f"{key}{index}"] = array
                extents = ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "")
                params.append(f"%{key}{index}: Tensor[({extents}), {array.dtype.name}]")
                text = text.replace(f"%{key}", f"%{key}{index}")
            results.append(text)
            expected.append(value)
        program = f"def @main({', '.join(params)}) {{ ({', '.join(results)},) }}\n"
        found, error = self.run(program, arrays)
        self.tried += 1
        if found is None:
            self.failures.append(f"{operator} {name}: {error.strip()}")
            return
        for index, (got, want) in enumerate(zip(found, expected)):
            if not agree(operator, got, want):
                operands = {key: arrays[key].tolist() for key in arrays if key.endswith(str(index)) and key[:-len(str(index))].isalpha()}
                self.failures.append(f"{operator} {name}: {results[index]}\n  {operands}\n  found    {got.tolist()}\n  expected {want.tolist()}")
                return

    def elementwise(self, operator):
        meaning, names, arity, asked = OPERATORS[operator]
        for name in names:
            calls = []
            for shape in SHAPES:
                arrays = [operand(self.random, name, shape, asked.get("tame", False)) for _ in range(arity)]
                if asked.get("divisor") and name in INTEGERS:
                    arrays[1] = np.where(arrays[1] == 0, 1, arrays[1]).astype(name)
                if asked.get("amount"):
                    arrays[1] = self.random.integers(0, min(2 * bits(name), np.iinfo(name).max), shape).astype(name)
                    arrays[1] = np.asarray(arrays[1])
                if asked.get("exponent") and name in INTEGERS:
                    arrays[1] = np.asarray(self.random.integers(0, 9, shape)).astype(name)
                operands = dict(zip("xy", arrays))
                text = f"{operator}({', '.join('%' + key for key in operands)})"
                with np.errstate(all="ignore"):
                    calls.append((text, operands, np.asarray(meaning(name, *arrays))))
            self.check(operator, name, calls)

    def call(self, operator):
        text, meaning, names, tame = CALLS[operator]
        for name in names:
            calls = []
            for shape in SHAPES:
                array = operand(self.random, name, shape, tame)
                with np.errstate(all="ignore"):
                    value = meaning(name, array)
                if value is not None:
                    calls.append((text, {"x": array}, np.asarray(value)))
            self.check(operator, name, calls)

    def program(self, operator):
        cases, names = PROGRAMS[operator]
        for name in names:
            with np.errstate(all="ignore"):
                self.check(operator, name, list(cases(self.random, name)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("relay_opt", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--executor", default="interp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options, folder)
        tests = ((OPERATORS, tester.elementwise), (CALLS, tester.call), (PROGRAMS, tester.program))
        for operators, test in tests:
            for operator in operators:
                if options.only in (None, operator):
                    test(operator)
    for failure in tester.failures:
        print(failure)
    print(f"{tester.tried - len(tester.failures)} passed, {len(tester.failures)} failed")
    sys.exit(1 if tester.failures or not tester.tried else 0)


if __name__ == "__main__":
    main()
