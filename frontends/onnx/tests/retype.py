"""Writes cases of the suite of the package onnx in the other element types of the standard.

    retype.py DATA OUT

Of each operator, up to three cases of one node in DATA/node; for each letter of the operator's types, each element
type that the standard allows for it. OUT/NUMBER/ has `model.onnx` and a set of data: inputs converted to the type, and
what onnx.reference says of them where it says something, and rounding is no matter. OUT/list.txt has a line for each: number,
operator, letter, element type. OUT/standard.txt has a line for each operator of the suite: its name, since when it is
there, and for each letter a word `letter=type,type,...` of the types that are tried.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

TYPES = {
    "float": "float32",
    "double": "float64",
    **{name: name for name in ("float16", "bfloat16", "bool", "string")},
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    **{name: name for name in ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1")},
    **{name: name for name in ("complex64", "complex128")},
}
"""Names of the standard, and what they are here."""

ROUNDED = ("float16", "bfloat16", "float8", "float4", "complex")
"""Types in which what comes out depends on the order of roundings, or that nothing here has."""
TRUNCATED = ("GridSample", "Resize")
"""Where onnx.reference truncates what it adds up to integers, or a hair below them."""
TYPED = ("ai.onnx.ml.TreeEnsemble",)
"""Operators with attributes that have the type of their operands."""
MOST = 3
"""So many cases of an operator are converted."""


def code(name):
    return getattr(TensorProto, name.upper())


def allowed(constraint):
    names = [name.removeprefix("tensor(").removesuffix(")") for name in constraint.allowed_type_strs]
    return [name for name in names if name in TYPES]


def letters(schema, names, formals):
    """The letter of each of the names of a node, by the formal parameters of its operator."""
    found = {}
    for index, name in enumerate(names):
        formal = formals[min(index, len(formals) - 1)]
        found[name] = formal.type_str
    return found


def converted(array, name):
    if array.dtype.kind in "OUST":
        if name == "string":
            return array.astype(object)
        array = np.arange(array.size).reshape(array.shape)
    if array.dtype.kind not in "iubc":
        array = array.astype(np.float64)
    if name == "string":
        return array.astype(str).astype(object)
    if name.startswith("uint") or name == "float8e8m0":
        array = np.abs(array)
    dtype = helper.tensor_dtype_to_np_dtype(code(name))
    if name.startswith(("int", "uint")) and array.dtype.kind == "f":
        array = np.nan_to_num(np.trunc(array), posinf=1, neginf=0)
        most = 2 ** (int(name.strip("uint")) - (0 if name[0] == "u" else 1)) - 1
        array = np.clip(array, 0 if name[0] == "u" else -most, most)
    return array.astype(dtype)


def retyped(model, inputs, letter, name, by_input, by_output):
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for values, by in ((changed.graph.input, by_input), (changed.graph.output, by_output)):
        for value in values:
            if by.get(value.name) == letter:
                value.type.tensor_type.elem_type = code(name)
    arrays = [
        converted(array, name) if by_input.get(value.name) == letter else array
        for value, array in zip(changed.graph.input, inputs)
    ]
    return changed, arrays


def read(folder, count):
    for index in range(count):
        tensor = TensorProto()
        tensor.ParseFromString((folder / f"input_{index}.pb").read_bytes())
        yield numpy_helper.to_array(tensor)


def write(folder, model, arrays, name):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for index, (value, array) in enumerate(zip(model.graph.input, arrays)):
        tensor = numpy_helper.from_array(array, value.name)
        (data / f"input_{index}.pb").write_bytes(tensor.SerializeToString())
    if name.startswith(ROUNDED):
        return
    kinds = [helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.output]
    of_integers = any(np.dtype(kind).kind in "iuV" for kind in kinds)
    numbers = [array for array in arrays if array.dtype.kind not in "OUSTc"]
    is_finite = all(np.isfinite(array.astype(np.float64)).all() for array in numbers)
    if of_integers and (not is_finite or model.graph.node[0].op_type in TRUNCATED):
        return
    try:
        feeds = {value.name: array for value, array in zip(model.graph.input, arrays)}
        results = [np.asarray(result) for result in ReferenceEvaluator(model).run(None, feeds)]
        if [result.dtype for result in results] != kinds:
            return
        named = zip(model.graph.output, results)
        tensors = [numpy_helper.from_array(result, value.name) for value, result in named]
    except Exception:  # It does not know this type.
        return
    for index, tensor in enumerate(tensors):
        (data / f"output_{index}.pb").write_bytes(tensor.SerializeToString())


def main(data, out):
    warnings.simplefilter("ignore")
    out.mkdir(parents=True, exist_ok=True)
    since, tried, listed, standard = {}, {}, [], {}
    for schema in defs.get_all_schemas_with_history():
        key = f"{schema.domain}.{schema.name}".lstrip(".")
        since[key] = min(since.get(key, schema.since_version), schema.since_version)
    for folder in sorted((data / "node").iterdir()):
        path = folder / "model.onnx"
        if not path.exists():
            continue
        model = onnx.load(path)
        if len(model.graph.node) != 1 or model.functions:
            continue
        (node,) = model.graph.node
        version = next((o.version for o in model.opset_import if o.domain in (node.domain, "ai.onnx")), 1)
        try:
            schema = defs.get_schema(node.op_type, version, node.domain)
        except defs.SchemaError:
            continue
        key = f"{node.domain}.{node.op_type}".lstrip(".")
        standard.setdefault(key, {})
        if tried.get(key, 0) == MOST or key in TYPED:
            continue
        tensors = [value.type.WhichOneof("value") == "tensor_type" for value in (*model.graph.input, *model.graph.output)]
        if not all(tensors) or not schema.inputs:
            continue
        tried[key] = tried.get(key, 0) + 1
        by_input = letters(schema, node.input, schema.inputs)
        by_output = letters(schema, node.output, schema.outputs)
        inputs = list(read(folder / "test_data_set_0", len(model.graph.input)))
        for constraint in schema.type_constraints:
            letter = constraint.type_param_str
            if letter not in by_input.values():
                continue
            for name in allowed(constraint):
                number = len(listed)
                changed, arrays = retyped(model, inputs, letter, name, by_input, by_output)
                write(out / str(number), changed, arrays, name)
                listed.append(f"{number} {key} {letter} {TYPES[name]}")
                types = standard[key].setdefault(letter, [])
                if TYPES[name] not in types:
                    types.append(TYPES[name])
    (out / "list.txt").write_text("".join(f"{line}\n" for line in listed))
    lines = []
    for key, by_letter in sorted(standard.items()):
        words = [f"{letter}={','.join(types)}" for letter, types in by_letter.items()]
        lines.append(" ".join([key, str(since[key]), *words]))
    (out / "standard.txt").write_text("".join(f"{line}\n" for line in lines))


main(Path(sys.argv[1]), Path(sys.argv[2]))
