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
    "floor_mod": (by_kind(lambda x, y: x % y, np.mod), INTEGERS, 2, {"divisor": True}),
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

# How far results may be from the real numbers rounded once, in units of the last place.
ULPS = {name: 4 for name in UNARY_REAL} | {"power": 4, "sum": 64}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("relay_opt", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--executor", default="interp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options, folder)
        for operators, test in ((OPERATORS, tester.elementwise), (CALLS, tester.call)):
            for operator in operators:
                if options.only in (None, operator):
                    test(operator)
    for failure in tester.failures:
        print(failure)
    print(f"{tester.tried - len(tester.failures)} passed, {len(tester.failures)} failed")
    sys.exit(1 if tester.failures or not tester.tried else 0)


if __name__ == "__main__":
    main()
