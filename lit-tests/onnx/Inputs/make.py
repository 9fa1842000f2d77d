"""Writes the models of this folder: python make.py. Needs the packages onnx 1.17 or later, onnxruntime and numpy."""
import os

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh


def save(name, nodes, inputs, outputs, constants=(), opset=17, **options):
    constants = [nh.from_array(np.asarray(value), name) for name, value in constants]
    inputs = [h.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    outputs = [h.make_tensor_value_info(n, t, s) for n, t, s in outputs]
    graph = h.make_graph(nodes, name, inputs, outputs, constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], producer_name="make.py")
    model.ir_version = 8
    if "location" in options and os.path.exists(options["location"]):
        os.remove(options["location"])
    onnx.save(model, f"{name}.onnx", **options)


def numbers(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) % 7 - 3).reshape(shape) / 4


node = h.make_node

# A perceptron over batches of any size, its weights in a file beside it.
save("mlp",
     [node("Gemm", ["x", "w1", "b1"], ["h"], name="/fc1/Gemm", transB=1), node("Relu", ["h"], ["r"], name="/Relu"),
      node("Gemm", ["r", "w2", "b2"], ["y"], name="/fc2/Gemm", transB=1)],
     [("x", T.FLOAT, ["batch", 8])], [("y", T.FLOAT, ["batch", 3])],
     [("w1", numbers(64, 8)), ("b1", numbers(64)), ("w2", numbers(3, 64)), ("b2", numbers(3))],
     save_as_external_data=True, location="mlp.weights", size_threshold=1024)

# A small convolutional network.
save("cnn",
     [node("Conv", ["image", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
      node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"], name="norm"),
      node("Relu", ["n"], ["r"], name="relu"),
      node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
      node("GlobalAveragePool", ["p"], ["g"], name="mean"), node("Flatten", ["g"], ["f"], name="flat"),
      node("Softmax", ["f"], ["probabilities"], name="softmax")],
     [("image", T.FLOAT, [1, 3, 8, 8])], [("probabilities", T.FLOAT, [1, 4])],
     [("w", numbers(4, 3, 3, 3)), ("b", numbers(4)), ("s", numbers(4) + 1), ("o", numbers(4)),
      ("m", numbers(4)), ("v", np.ones(4, np.float32))])

# Shapes computed from shapes, as exporters write `x.view(x.size(0), -1, 2)`.
save("view",
     [node("Shape", ["x"], ["shape"]), node("Constant", [], ["zero"], value=nh.from_array(np.int64(0))),
      node("Gather", ["shape", "zero"], ["size"], axis=0), node("Unsqueeze", ["size", "axis"], ["sizes"]),
      node("Concat", ["sizes", "rest"], ["newshape"], axis=0), node("Reshape", ["x", "newshape"], ["y"], name="view")],
     [("x", T.FLOAT, ["n", 4, 6])], [("y", T.FLOAT, ["n", 12, 2])],
     [("axis", np.array([0], np.int64)), ("rest", np.array([12, 2], np.int64))])

# A recurrent layer in both directions.
save("lstm",
     [node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], name="lstm", hidden_size=2, direction="bidirectional")],
     [("x", T.FLOAT, [3, 1, 4])],
     [("y", T.FLOAT, [3, 2, 1, 2]), ("h", T.FLOAT, [2, 1, 2]), ("c", T.FLOAT, [2, 1, 2])],
     [("w", numbers(2, 8, 4)), ("r", numbers(2, 8, 2)), ("b", numbers(2, 16))])

# Numbers halfway between two that are quantized, and beyond the bounds.
save("quantize",
     [node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
      node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="dequantize")],
     [("x", T.FLOAT, [6])], [("q", T.INT8, [6]), ("y", T.FLOAT, [6])],
     [("scale", np.float32(0.5)), ("zero", np.int8(3))])

# A branch that depends on the input.
def branch(op, result):
    return h.make_graph([node(op, ["x", "x"], [result])], op, [], [h.make_tensor_value_info(result, T.FLOAT, [2])])


save("branch",
     [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["positive"]),
      node("If", ["positive"], ["y"], name="if", then_branch=branch("Add", "a"), else_branch=branch("Mul", "b"))],
     [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], [("zero", np.float32(0))])

# Heron's iteration, until it is near enough, and at most 50 times; then how often.
def body(name, nodes, inputs, outputs):
    values = [[h.make_tensor_value_info(n, t, s) for n, t, s in values] for values in (inputs, outputs)]
    return h.make_graph(nodes, name, *values)


save("root",
     [node("Loop", ["most", "", "one", "zero"], ["root", "count", "guesses"], name="loop", body=body(
         "heron",
         [node("Div", ["x", "r"], ["q"]), node("Add", ["q", "r"], ["s"]), node("Mul", ["s", "half"], ["next"]),
          node("Add", ["n", "step"], ["m"]), node("Sub", ["next", "r"], ["d"]), node("Abs", ["d"], ["e"]),
          node("Greater", ["e", "near"], ["far"])],
         [("i", T.INT64, []), ("go", T.BOOL, []), ("r", T.FLOAT, []), ("n", T.INT64, [])],
         [("far", T.BOOL, []), ("next", T.FLOAT, []), ("m", T.INT64, []), ("next", T.FLOAT, [])]))],
     [("x", T.FLOAT, [])], [("root", T.FLOAT, []), ("count", T.INT64, []), ("guesses", T.FLOAT, ["n"])],
     [("most", np.int64(50)), ("one", np.float32(1)), ("zero", np.int64(0)), ("half", np.float32(0.5)),
      ("step", np.int64(1)), ("near", np.float32(1e-3))])

# A filter over 1500 samples, from the last one to the first.
save("filter",
     [node("Scan", ["zero", "x"], ["last", "y"], name="scan", num_scan_inputs=1, scan_input_axes=[1],
           scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1], body=body(
         "step", [node("Mul", ["s", "decay"], ["t"]), node("Add", ["t", "u"], ["v"]), node("Neg", ["v"], ["w"])],
         [("s", T.FLOAT, [2]), ("u", T.FLOAT, [2])], [("v", T.FLOAT, [2]), ("w", T.FLOAT, [2])]))],
     [("x", T.FLOAT, [2, 1500])], [("last", T.FLOAT, [2]), ("y", T.FLOAT, [2, 1500])],
     [("zero", np.zeros(2, np.float32)), ("decay", np.float32(0.5))])

# Operators that cannot be imported.
save("unsupported",
     [node("Relu", ["x"], ["a"]), node("ImageDecoder", ["a"], ["b"], name="first"), node("ImageDecoder", ["a"], ["c"], name="second"),
      node("Swirl", ["b"], ["d"], domain="com.example"), node("Add", ["c", "d"], ["y"])],
     [("x", T.FLOAT, [2, 2])], [("y", T.FLOAT, [])])

# A sum whose axes are an input, and one of an old operator set, with an axis for broadcasting.
save("axes", [node("ReduceSum", ["x", "axes"], ["y"], name="sum", keepdims=0)],
     [("x", T.FLOAT, [2, 3]), ("axes", T.INT64, ["n"])], [("y", T.FLOAT, None)])
np.savez("axes.npz", x=numbers(2, 3), axes=np.array([1]))
save("channels", [node("Add", ["x", "bias"], ["y"], broadcast=1, axis=1)],
     [("x", T.FLOAT, [1, 2, 2])], [("y", T.FLOAT, [1, 2, 2])], [("bias", numbers(2))], opset=5)

# A node that needs a known extent, and an operator set that is too new.
save("squeeze", [node("Squeeze", ["x"], ["y"], name="squeeze")], [("x", T.FLOAT, ["n", 3])], [("y", T.FLOAT, [])])
save("new", [node("Relu", ["x"], ["y"])], [("x", T.FLOAT, [2])], [("y", T.FLOAT, [2])], opset=99)

# Inputs.
for name, parameter, values in [
        ("mlp", "x", np.arange(16).reshape(2, 8) / 8 - 1), ("cnn", "image", (np.arange(192) % 5).reshape(1, 3, 8, 8) / 4),
        ("lstm", "x", (np.arange(12) / 6 - 1).reshape(3, 1, 4)), ("branch", "x", [1, 2]), ("branch-else", "x", [-1, -2]),
        ("quantize", "x", [0.25, 0.75, 1.25, -1.25, 63, -70]), ("root", "x", 2),
        ("filter", "x", (np.arange(3000) % 4).reshape(2, 1500))]:
    np.savez(f"{name}.npz", **{parameter: np.array(values, np.float32)})

# A sequence, an optional value, floats of eight bits and integers of four, and data in ONNX's own files.
def sequence():
    xs = h.make_tensor_sequence_value_info("xs", T.FLOAT, None)
    zs = h.make_tensor_sequence_value_info("zs", T.FLOAT, None)
    maybe = h.make_value_info("maybe", h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, [2])))
    at = h.make_tensor_value_info("at", T.INT64, [])
    outputs = [zs, h.make_tensor_value_info("small", T.FLOAT8E4M3FN, [2]),
               h.make_tensor_value_info("four", T.INT4, [3]), h.make_tensor_value_info("is_there", T.BOOL, [])]
    nodes = [node("SequenceAt", ["xs", "at"], ["x"]), node("Add", ["x", "x"], ["y"]),
             node("SequenceInsert", ["xs", "y", "at"], ["zs"]), node("Cast", ["y"], ["small"], to=T.FLOAT8E4M3FN),
             node("Cast", ["three"], ["four"], to=T.INT4), node("OptionalHasElement", ["maybe"], ["is_there"])]
    constants = [nh.from_array(np.array([-8, 0, 7], np.float32), "three")]
    graph = h.make_graph(nodes, "sequence", [xs, at, maybe], outputs, constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], producer_name="make.py")
    model.ir_version = 10
    onnx.save(model, "sequence.onnx")
    os.makedirs("sequence", exist_ok=True)
    values = [np.array([1, 2], np.float32), np.array([300, -0.3], np.float32)]
    doubled = 2 * values[1]
    files = {
        "input_0": nh.from_list(values, "xs", onnx.SequenceProto.TENSOR),
        "input_1": nh.from_array(np.int64(-1), "at"),
        "input_2": nh.from_optional(None, "maybe", onnx.OptionalProto.TENSOR),
        "output_0": nh.from_list([values[0], doubled, values[1]], "zs", onnx.SequenceProto.TENSOR),
        "output_1": h.make_tensor("small", T.FLOAT8E4M3FN, [2], doubled),
        "output_2": h.make_tensor("four", T.INT4, [3], [-8, 0, 7]),
        "output_3": nh.from_array(np.bool_(False), "is_there"),
    }
    for name, value in files.items():
        with open(f"sequence/{name}.pb", "wb") as file:
            file.write(value.SerializeToString())


sequence()


def maps(name, key_type):
    """A value that is a sequence of maps from such keys to floats."""
    map_type = onnx.TypeProto.Map(key_type=key_type, value_type=h.make_tensor_type_proto(T.FLOAT, []))
    return h.make_value_info(name, h.make_sequence_type_proto(onnx.TypeProto(map_type=map_type)))


def as_proto(value, name):
    """A value as ONNX's own files have it."""
    if not isinstance(value, list):
        return nh.from_array(np.asarray(value), name)
    if value and not isinstance(value[0], dict):
        return nh.from_list(value, name, onnx.SequenceProto.TENSOR)
    found = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP)
    for entries in value:
        numbers = [nh.from_array(np.float32(number)) for number in entries.values()]
        entry = found.map_values.add(
            key_type=T.STRING if isinstance(next(iter(entries)), str) else T.INT64,
            values=onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=numbers))
        if entry.key_type == T.STRING:
            entry.string_keys.extend(key.encode() for key in entries)
        else:
            entry.keys.extend(entries)
    return found


def with_data(name, nodes, inputs, outputs, constants=(), functions=(), opset=17):
    """Saves a model, inputs for it, and what onnxruntime gives for them, in ONNX's own files."""
    import onnxruntime

    types = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs]
    results = [h.make_empty_tensor_value_info(n) if isinstance(n, str) else n for n in outputs]
    outputs = [result.name for result in results]
    constants = [nh.from_array(np.asarray(value), n) for n, value in constants]
    graph = h.make_graph(nodes, name, types, results, constants)
    sets = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1), h.make_opsetid("ai.onnx.ml", 3)]
    sets += [h.make_opsetid("local", 1)] if functions else []
    model = h.make_model(graph, opset_imports=sets, producer_name="make.py", functions=functions)
    model.ir_version = 8
    onnx.save(model, f"{name}.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    found = session.run(None, dict(inputs))
    os.makedirs(name, exist_ok=True)
    for kind, arrays in [("input", inputs), ("output", zip(outputs, found))]:
        for index, (label, array) in enumerate(arrays):
            with open(f"{name}/{kind}_{index}.pb", "wb") as file:
                file.write(as_proto(array, label).SerializeToString())


def extension(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="com.microsoft", **attributes)


# What the optimizers and quantizers of onnxruntime write.
with_data("extensions",
          [extension("SkipLayerNormalization", ["x", "x2", "g", "b"], ["n", "", "", "s"], epsilon=1e-5),
           extension("FastGelu", ["n", "b"], ["f"]), extension("BiasGelu", ["s", "b"], ["bg"]),
           extension("QuickGelu", ["f"], ["qg"]),
           extension("SkipSimplifiedLayerNormalization", ["qg", "bg", "g"], ["r", "", "", ""]),
           extension("FusedMatMul", ["r", "r"], ["m"], alpha=0.5, transB=1),
           extension("MatMulNBits", ["m", "packed", "scales"], ["p"], K=16, N=3, bits=4, block_size=16),
           extension("QLinearAdd", ["q", "qs", "qz", "q", "qs", "qz", "rs", "qz"], ["qa"]),
           extension("QLinearMul", ["q", "qs", "qz", "qa", "rs", "qz", "rs", "qz"], ["qm"]),
           extension("QLinearSigmoid", ["q", "qs", "qz", "rs", "qz"], ["sigmoid"])],
          [("x", numbers(16, 4)), ("x2", numbers(16, 4) + 1), ("q", np.arange(12, dtype=np.uint8).reshape(3, 4) * 20)],
          ["p", "qa", "qm", "sigmoid"],
          [("g", numbers(4) + 1), ("b", numbers(4)), ("packed", np.arange(24, dtype=np.uint8).reshape(3, 1, 8) * 10),
           ("scales", numbers(3)), ("qs", np.float32(0.1)), ("qz", np.uint8(110)), ("rs", np.float32(0.25))])


# Attention as optimizers write it: with a mask and a cache, of two sequences, with packed operands, caches that
# are used in parts, and rotated features.
angles = numbers(12, 8)
with_data("attention",
          [extension("Attention", ["x", "w", "wb", "mask", "past"], ["a", "present"], num_heads=2, unidirectional=1),
           extension("MultiHeadAttention", ["a", "x2", "x2", "mb", "ends"], ["m"], num_heads=2),
           extension("MultiHeadAttention", ["m", "kept", "kept"], ["of_kept"], num_heads=2, scale=0.5),
           extension("RotaryEmbedding", ["of_kept", "first", "cos", "sin"], ["turned"], interleaved=1),
           extension("GroupQueryAttention", ["packed", "", "", "keys", "values", "lengths", "total", "cos", "sin"],
                     ["g", "keys_after", "values_after"], num_heads=2, kv_num_heads=1, do_rotary=1, local_window_size=4),
           extension("GroupQueryAttention", ["new", "", "", "", "", "lengths_of_new", "two"], ["of_new", "k", "v"],
                     num_heads=2, kv_num_heads=1, smooth_softmax=1, softcap=2.0)],
          [("x", numbers(2, 2, 32)), ("mask", np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)),
           ("past", numbers(2, 2, 2, 3, 16)), ("x2", numbers(2, 3, 32) + 0.5), ("ends", np.array([2, 3], np.int32)),
           ("kept", numbers(2, 2, 5, 16)), ("first", np.array([3], np.int64)), ("packed", numbers(2, 1, 64)),
           ("keys", numbers(2, 1, 6, 16)), ("values", numbers(2, 1, 6, 16) - 0.5),
           ("lengths", np.array([6, 3], np.int32)), ("new", numbers(2, 2, 64)),
           ("lengths_of_new", np.array([1, 1], np.int32))],
          ["a", "present", "m", "of_kept", "turned", "g", "keys_after", "values_after", "of_new", "k", "v"],
          [("w", numbers(32, 96)), ("wb", numbers(96)), ("mb", numbers(96)), ("total", np.int32(7)),
           ("two", np.int32(2)), ("cos", np.cos(angles)), ("sin", np.sin(angles))])

# Layers that become one with their neighbours, and integers.
bytes_ = (np.arange(96) * 37 % 256).astype(np.uint8)
scales = [("qs", np.float32(0.1)), ("qz", np.uint8(110)), ("rs", np.float32(0.07)), ("rz", np.uint8(120))]
with_data("integers",
          [extension("EmbedLayerNormalization", ["ids", "segments", "words", "places", "parts", "g", "b", "mask"],
                     ["e", "counts"], epsilon=1e-5),
           extension("FusedGemm", ["e2", "w", "b2"], ["f"], activation="LeakyRelu", activation_alpha=0.25),
           extension("FusedConv", ["image", "filter", "", "added"], ["c"], activation="Clip",
                     activation_params=[-0.5, 0.5], pads=[1, 1, 1, 1]),
           extension("QAttention", ["bytes", "qw", "qb", "qs", "ws", "lengths", "qz", "wz"], ["qa"], num_heads=1),
           extension("MatMulIntegerToFloat", ["bytes", "qw", "qs", "ws", "qz", "wz", "qb"], ["mi"]),
           extension("DynamicQuantizeMatMul", ["e", "qw", "ws", "wz", "qb"], ["dq"]),
           extension("QGemm", ["rows", "qs", "qz", "qw", "ws", "wz", "qc", "rs", "rz"], ["qg"], alpha=0.5),
           extension("QLinearAveragePool", ["qi", "qs", "qz", "rs", "rz"], ["pool"], kernel_shape=[2, 2],
                     channels_last=1),
           extension("QLinearGlobalAveragePool", ["qi", "qs", "qz", "rs", "rz"], ["mean"], channels_last=0),
           extension("QLinearConcat", ["rs", "rz", "rows", "qs", "qz", "rows", "rs", "qz"], ["both"], axis=0),
           extension("QLinearLeakyRelu", ["rows", "qs", "qz", "rs", "rz"], ["leaky"], alpha=0.125),
           extension("QLinearSoftmax", ["rows", "qs", "qz", "rs", "rz"], ["soft"], axis=1, opset=13),
           extension("QLinearWhere", ["choice", "rows", "qs", "qz", "rows", "rs", "qz", "rs", "rz"], ["chosen"]),
           extension("GatherBlockQuantized", ["table", "ids", "scales_of_blocks", "zeros_of_blocks"], ["gathered"],
                     gather_axis=0, quantize_axis=1, block_size=16, bits=4)],
          [("ids", np.array([[3, 1], [0, 2]], np.int32)), ("segments", np.array([[0, 1], [1, 1]], np.int32)),
           ("mask", np.array([[1, 0], [1, 1]], np.int32)), ("e2", numbers(3, 4)), ("image", numbers(1, 2, 3, 3)),
           ("added", numbers(1, 2, 3, 3) + 0.25), ("bytes", bytes_[:16].reshape(2, 2, 4)),
           ("lengths", np.array([1, 2], np.int32)), ("rows", bytes_[:12].reshape(3, 4)),
           ("qi", bytes_[:24].reshape(1, 3, 4, 2)), ("choice", np.array([[True], [False], [True]]))],
          ["e", "counts", "f", "c", "qa", "mi", "dq", "qg", "pool", "mean", "both", "leaky", "soft", "chosen",
           "gathered"],
          scales + [("words", numbers(4, 4)), ("places", numbers(2, 4)), ("parts", numbers(2, 4)), ("g", numbers(4) + 1),
                    ("b", numbers(4)), ("w", numbers(4, 3)), ("b2", numbers(3)), ("filter", numbers(2, 2, 3, 3)),
                    ("qw", (np.arange(48).reshape(4, 12) * 11 % 127 - 60).astype(np.int8)), ("qb", numbers(12)),
                    ("ws", np.float32(0.05)), ("wz", np.int8(3)), ("qc", np.arange(12, dtype=np.int32) * 40 - 200),
                    ("table", bytes_.reshape(4, 24)[:, :16]), ("scales_of_blocks", numbers(4, 2) + 1.5),
                    ("zeros_of_blocks", bytes_[:4].reshape(4, 1))])


def learned(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


# Rows of features, and what scikit-learn's converter writes about them.
leaf = "LEAF"
trees = dict(
    nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
    nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0], nodes_values=[0.0, 0.3, 0.0, 0.0, 0.0, -0.1, 0.0, 0.0],
    nodes_modes=["BRANCH_LEQ", "BRANCH_LT", leaf, leaf, leaf, "BRANCH_GT", leaf, leaf],
    nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0],
    nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 0, 0])
classes = dict(class_treeids=[0, 0, 0, 1, 1], class_nodeids=[2, 3, 4, 1, 2], classlabels_int64s=[3, 4, 5])
targets = dict(target_treeids=[0, 0, 0, 1, 1], target_nodeids=[2, 3, 4, 1, 2], target_ids=[0, 0, 0, 0, 0])
weights = [0.1, 0.2, 0.3, 0.4, 0.5]
features = numbers(6, 3)
features[4, 0] = np.nan
with_data("learned",
          [learned("Imputer", ["x"], ["filled"], imputed_value_floats=[0.5, 1.5, 2.5], replaced_value_float=np.nan),
           learned("Scaler", ["filled"], ["scaled"], offset=[0.1, 0.2, 0.3], scale=[2.0, 1.0, 0.5]),
           learned("Normalizer", ["scaled"], ["normal"], norm="L2"),
           learned("LinearRegressor", ["normal"], ["line"], coefficients=[1.0, -2.0, 3.0], intercepts=[0.5]),
           learned("LinearClassifier", ["scaled"], ["label", "scores"], coefficients=numbers(9).tolist(),
                   intercepts=[0.1, 0.2, 0.3], classlabels_ints=[7, 8, 9], post_transform="SOFTMAX"),
           learned("TreeEnsembleRegressor", ["x"], ["tree"], n_targets=1, target_weights=weights, base_values=[0.25],
                   aggregate_function="AVERAGE", **trees, **targets),
           learned("TreeEnsembleClassifier", ["x"], ["class", "votes"], class_ids=[0, 1, 2, 0, 1],
                   class_weights=weights, post_transform="NONE", **trees, **classes),
           learned("LabelEncoder", ["class"], ["encoded"], keys_int64s=[3, 5], values_floats=[0.5, 0.25],
                   default_float=-1.0),
           learned("OneHotEncoder", ["label"], ["hot"], cats_int64s=[9, 7])],
          [("x", features)],
          ["line", "label", "scores", "tree", "class", "votes", "encoded", "hot"])

# Support vector machines: three classes with probabilities, two without, and numbers; and maps.
three = dict(
    classlabels_ints=[4, 6, 9], vectors_per_class=[2, 2, 1], kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0],
    support_vectors=numbers(15).tolist(), coefficients=[0.75, 0.5, -0.75, -0.5, -0.25, 1.0, 0.25, 0.5, 0.75, -1.25],
    rho=[0.1, -0.2, 0.05], prob_a=[-1.5, -2.0, -1.0], prob_b=[0.1, 0.0, -0.2])
two = dict(
    classlabels_ints=[0, 1], vectors_per_class=[1, 2], kernel_type="SIGMOID", kernel_params=[0.5, 0.25, 3.0],
    support_vectors=numbers(9).tolist(), coefficients=[1.0, -0.5, -0.5], rho=[0.1])
line = dict(kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
with_data("support-vectors",
          [learned("SVMClassifier", ["x"], ["label", "probabilities"], **three),
           learned("ZipMap", ["probabilities"], ["by_label"], classlabels_int64s=[4, 6, 9]),
           learned("ZipMap", ["probabilities"], ["by_name"], classlabels_strings=["rose", "iris", "lily"]),
           learned("SVMClassifier", ["x"], ["side", "margin"], post_transform="LOGISTIC", **two),
           learned("SVMClassifier", ["x"], ["flat", "flats"], classlabels_ints=[5, 6, 7], rho=[0.25],
                   coefficients=numbers(9).tolist(), **line),
           learned("SVMRegressor", ["x"], ["number"], kernel_type="POLY", kernel_params=[0.5, 1.0, 2.0], n_supports=3,
                   support_vectors=numbers(9).tolist(), coefficients=[1.0, -2.0, 0.5], rho=[0.25]),
           learned("SVMRegressor", ["x"], ["inside"], one_class=1, coefficients=[1.0, -2.0, 0.5], rho=[0.25],
                   **line)],
          [("x", numbers(6, 3) * 2 + 0.1)],
          ["label", "probabilities", maps("by_label", T.INT64), maps("by_name", T.STRING), "side", "margin", "flat",
           "flats", "number", "inside"])

# A recurrent layer in both directions whose weights are integers.
integers = np.arange(2 * 4 * 8).reshape(2, 4, 8) * 7 % 256
with_data("quantized-lstm",
          [extension("DynamicQuantizeLSTM",
                     ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["y", "h", "c"],
                     hidden_size=2, direction="bidirectional")],
          [("x", numbers(3, 1, 4))], ["y", "h", "c"],
          [("w", integers.astype(np.uint8)), ("r", integers[:, :2].astype(np.uint8)), ("b", numbers(2, 16)),
           ("ws", np.array([0.01, 0.02], np.float32)), ("wz", np.array([128, 100], np.uint8)),
           ("rs", np.array([0.02, 0.01], np.float32)), ("rz", np.array([90, 128], np.uint8))])


def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
    sets = [h.make_opsetid("", 17), h.make_opsetid("local", 1)]
    return h.make_function("local", name, inputs, outputs, nodes, sets, attributes=attributes,
                           attribute_protos=defaults)


def referring(op, inputs, outputs, **references):
    made = node(op, inputs, outputs)
    for name, (kind, of) in references.items():
        made.attribute.add(name=name, type=kind, ref_attr_name=of)
    return made


# Functions of the model: with attributes, left out or not, names that occur outside as well, functions in
# functions, and in branches.
A = onnx.AttributeProto
leaky = function("Leaky", ["x"], ["y"], [referring("LeakyRelu", ["x"], ["y"], alpha=(A.FLOAT, "slope"))],
                 defaults=[h.make_attribute("slope", 0.5)])
last = function("Last", ["x"], ["y"], [referring("LogSoftmax", ["x"], ["t"], axis=(A.INT, "along")),
                                       node("Leaky", ["t"], ["y"], domain="local", slope=0.125)], ["along"])
bounded = function("Bounded", ["x", "most"], ["y"], [node("Clip", ["x", "", "most"], ["y"])])
then = h.make_graph([node("Leaky", ["x"], ["f"], domain="local")], "then", [], [h.make_empty_tensor_value_info("f")])
other = h.make_graph([node("Neg", ["x"], ["e"])], "else", [], [h.make_empty_tensor_value_info("e")])
with_data("functions",
          [node("Leaky", ["x"], ["t"], domain="local"), node("Leaky", ["x"], ["y"], domain="local", slope=2.0),
           node("Last", ["t"], ["first"], domain="local", along=0), node("Last", ["t"], ["last"], domain="local"),
           node("Bounded", ["x", "one"], ["low"], domain="local"), node("Bounded", ["x"], ["same"], domain="local"),
           node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Less", ["sum", "zero"], ["is_low"]),
           node("If", ["is_low"], ["branch"], then_branch=then, else_branch=other)],
          [("x", numbers(2, 3))], ["t", "y", "first", "last", "low", "same", "branch"],
          [("one", np.float32(0.25)), ("zero", np.float32(0))], [leaky, last, bounded])


# Recurrent networks of more steps than are written one after the other, of sequences of several lengths, in both
# directions, with all that a cell can have.
STEPS, BATCH, SIZE, HIDDEN = 37, 3, 4, 5
lengths = np.array([37, 1, 20], np.int32)
recurrent = {"direction": "bidirectional", "hidden_size": HIDDEN}
with_data("recurrent",
          [node("LSTM", ["x", "lw", "lr", "lb", "lengths", "h", "c", "p"], ["ly", "lh", "lc"], clip=0.9, input_forget=0, **recurrent),
           node("GRU", ["x", "gw", "gr", "gb", "lengths", "h"], ["gy", "gh"], linear_before_reset=1, **recurrent),
           node("GRU", ["x", "gw0", "gr0"], ["ry"], hidden_size=HIDDEN, direction="reverse"),
           node("RNN", ["x", "rw", "rr", "rb"], ["ny", "nh"], activations=["Relu", "Tanh"], **recurrent)],
          [("x", numbers(STEPS, BATCH, SIZE)), ("lengths", lengths)],
          ["ly", "lh", "lc", "gy", "gh", "ry", "ny", "nh"],
          [("lw", numbers(2, 4 * HIDDEN, SIZE)), ("lr", numbers(2, 4 * HIDDEN, HIDDEN) / 2), ("lb", numbers(2, 8 * HIDDEN)),
           ("gw", numbers(2, 3 * HIDDEN, SIZE)), ("gr", numbers(2, 3 * HIDDEN, HIDDEN) / 2), ("gb", numbers(2, 6 * HIDDEN)),
           ("gw0", numbers(1, 3 * HIDDEN, SIZE)), ("gr0", numbers(1, 3 * HIDDEN, HIDDEN)),
           ("rw", numbers(2, HIDDEN, SIZE)), ("rr", numbers(2, HIDDEN, HIDDEN) / 4), ("rb", numbers(2, 2 * HIDDEN)),
           ("h", numbers(2, BATCH, HIDDEN)), ("c", numbers(2, BATCH, HIDDEN) / 2), ("p", numbers(2, 3 * HIDDEN))])
model = onnx.load("recurrent.onnx")
model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "steps"
onnx.save(model, "recurrent-open.onnx")


# Random numbers: by a seed, by the place among those without one, and chances of which the outcome is sure.
save("random",
     [node("RandomNormal", [], ["a"], shape=[2], mean=1.0, seed=3.0), node("RandomNormal", [], ["b"], shape=[2], mean=1.0, seed=3.0),
      node("RandomUniformLike", ["chances"], ["c"], low=2.0, high=2.5), node("RandomUniformLike", ["chances"], ["d"]),
      node("Bernoulli", ["chances"], ["hits"], dtype=T.INT64), node("Multinomial", ["row"], ["places"], sample_size=3),
      node("Dropout", ["chances", "half", "yes"], ["dropped", "kept"])],
     [("chances", T.FLOAT, [4])], [("a", T.FLOAT, [2]), ("b", T.FLOAT, [2]), ("c", T.FLOAT, [4]), ("d", T.FLOAT, [4]),
                                   ("hits", T.INT64, [4]), ("places", T.INT32, [1, 3]), ("dropped", T.FLOAT, [4]),
                                   ("kept", T.BOOL, [4])],
     [("half", np.float32(0.5)), ("yes", np.array(True)), ("row", np.array([[-1000, 0, -1000]], np.float32))], opset=15)
np.savez("random.npz", chances=np.array([0, 1, 0, 1], np.float32))


# Gradients of what is between two values, somewhere else than where these are; onnxruntime has none.
def gradient(inputs, outputs, **attributes):
    return node("Gradient", inputs, outputs, domain="ai.onnx.preview.training", **attributes)


pairs = [(name, T.FLOAT, [2]) for name in ("a", "b", "at")]
save("gradient", [node("Mul", ["a", "b"], ["c"]), node("Mul", ["c", "c"], ["d"]),
                  gradient(["at", "b"], ["by_a"], xs=["a"], zs=["b"], y="d"),
                  gradient(["at", "a"], ["by_b", "by_a_of_c"], xs=["b", "a"], y="c"),
                  gradient(["at"], ["by_c"], xs=["c"], y="d")],
     pairs, [(name, T.FLOAT, [2]) for name in ("by_a", "by_b", "by_a_of_c", "by_c")])
np.savez("gradient.npz", **{name: np.array(values, np.float32) for name, values in
                            [("a", [1, 2]), ("b", [2, 0.5]), ("at", [3, 4])]})

# Texts, of letters of several lengths in UTF-8: moved, compared, joined, split, matched, looked up and labels.
def lookup(inputs, outputs, **attributes):
    return learned("LabelEncoder", inputs, outputs, **attributes)


names = np.array([["Ä-b", "aba", "rose "], ["a--b-c", "中 rose", "b"]], dtype=object)
texts = [node("Transpose", ["names"], ["turned"]), node("Concat", ["turned", "more"], ["all"], axis=1),
         node("Gather", ["all", "last"], ["column"], axis=1), node("Equal", ["names", "b"], ["is_b"]),
         node("Where", ["is_b", "fallback", "names"], ["chosen"]), node("Shape", ["all"], ["shape"]),
         node("StringConcat", ["names", "more_of_it"], ["joined"]),
         node("StringSplit", ["names"], ["parts", "count"], delimiter="-", maxsplit=2),
         node("StringSplit", ["joined"], ["pairs", "count_of_pairs"], delimiter="aba"),
         node("StringSplit", ["names"], ["words", "count_of_words"]),
         node("RegexFullMatch", ["names"], ["matches"], pattern=r"\w?.\W.*|rose\s"),
         node("Reshape", ["names", "row"], ["flat"]),
         node("StringNormalizer", ["flat"], ["kept"], case_change_action="UPPER", is_case_sensitive=1, stopwords=["b", ""]),
         extension("Tokenizer", ["flat"], ["tokens"], mark=0, mincharnum=2, pad_value="#", tokenexp=r"[\w-]+"),
         extension("Tokenizer", ["flat"], ["letters"], mark=0, mincharnum=1, pad_value="", tokenexp="[a-c中]"),
         node("TfIdfVectorizer", ["tokens"], ["counts"], mode="TF", min_gram_length=1, max_gram_length=2,
              max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[0, 1, 2], pool_strings=["rose", "#", "rose", "#"]),
         lookup(["names"], ["number"], keys_strings=["b", "rose ", ""], values_int64s=[7, 8, 9]),
         lookup(["names"], ["name"], keys_strings=["b", "rose "], values_strings=["a bee", "ﬂower"], default_string="?"),
         lookup(["number"], ["back"], keys_int64s=[7, 8, 9], values_strings=["seven", "eight", "nine"]),
         learned("OneHotEncoder", ["names"], ["one_hot"], cats_strings=["b", "rose "]),
         learned("LinearClassifier", ["x"], ["label", "scores"], coefficients=numbers(9).tolist(),
                 intercepts=[0.0, 0.1, 0.2], classlabels_strings=["rose", "iris", "lily"])]
of_texts = ["column", "chosen", "joined", "parts", "pairs", "words", "kept", "tokens", "letters", "name", "back", "label"]
of_numbers = ["shape", "is_b", "count", "count_of_pairs", "count_of_words", "matches", "counts", "number", "one_hot", "scores"]
with_data("texts", texts, [("names", names), ("x", numbers(4, 3) * 2)],
          [h.make_tensor_value_info(result, T.STRING, None) for result in of_texts] + of_numbers,
          [("more", np.array([["aé", "x"], ["", "y"], ["longer than others", "z"]], dtype=object)),
           ("last", np.array(-1)), ("b", np.array("b", dtype=object)),
           ("fallback", np.array(["nothing", "", "none"], dtype=object)),
           ("more_of_it", np.array([["ababa"], ["中"]], dtype=object)), ("row", np.array([6]))], opset=20)

# Contractions that are products of matrices in some order of axes, and ones that are not; and attention of one
# position to others, whose heads lie side by side or in a cache, with a mask and a bias.
left, right = numbers(2, 5, 3), numbers(2, 4, 3) + 0.1
equations = {"rows": "bij,bkj->bik", "turned": "b i j , b k j -> k b i", "two_batches": "abij,abjk->abik",
             "several": "bij,bkj->ik", "outer": "bij,bkl->bijkl", "sums": "bij,bkj->b", "implicit": "bij,bkj"}
given = {"two_batches": ("four", "other_four")}
contractions = [node("Einsum", list(given.get(name, ("left", "right"))), [name], equation=equation)
                for name, equation in equations.items() if name != "outer"]
contractions += [node("Einsum", ["left", "left"], ["outer"], equation="bij,bkl->bijkl"),
                 node("Einsum", ["flat", "other_flat"], ["over_two"], equation="abc,cbd->ad")]
decoding = [extension("MultiHeadAttention", ["query", "keys", "values", "", "", "bias"], ["attended"], num_heads=2),
            extension("MultiHeadAttention", ["query", "cache", "cache", "", "", ""], ["of_cache"], num_heads=2)]
with_data("contractions", contractions + decoding,
          [("left", left), ("right", right), ("four", numbers(2, 3, 5, 4)), ("other_four", numbers(2, 3, 4, 7)),
           ("flat", numbers(4, 3, 2)), ("other_flat", numbers(2, 3, 5)), ("query", numbers(2, 1, 8)),
           ("keys", numbers(2, 9, 8)), ("values", numbers(2, 9, 8) + 0.5), ("bias", numbers(1, 2, 1, 9)),
           ("cache", numbers(2, 2, 7, 4) - 0.3)],
          [*equations, "over_two", "attended", "of_cache"])

# Products of integers of 8 bits, with zero points that are known, given, and absent.
drawn = np.random.default_rng(4)


def bytes_of(dtype, *shape):
    least, most = (0, 256) if dtype == np.uint8 else (-128, 128)
    values = drawn.integers(least, most, shape).astype(dtype)
    values.reshape(-1)[:2] = least, most - 1
    return values


products, given, known, results = [], [], [], []
for name, a, b, rows, inner, columns, zeros in [
        ("unsigned", np.uint8, np.int8, 11, 20, 17, (3, 0)), ("ragged", np.uint8, np.int8, 9, 21, 16, (255, -7)),
        ("signed", np.int8, np.int8, 10, 12, 5, (-128, 0)), ("centred", np.int8, np.uint8, 16, 31, 40, (0, 128)),
        ("bare", np.uint8, np.uint8, 8, 64, 33, None), ("few", np.int8, np.uint8, 2, 30, 19, (5, 250)),
        ("row", np.uint8, np.int8, 1, 7, 48, (9, None))]:
    given.append((f"{name}_a", bytes_of(a, rows, inner)))
    known.append((f"{name}_b", bytes_of(b, inner, columns)))
    operands = [f"{name}_a", f"{name}_b"]
    if zeros:
        known.append((f"{name}_za", np.array(zeros[0], a)))
        by_column = bytes_of(b, columns) if zeros[1] is None else np.array(zeros[1], b)
        (given if zeros[1] is None else known).append((f"{name}_zb", by_column))
        operands += [f"{name}_za", f"{name}_zb"]
    products.append(node("MatMulInteger", operands, [name]))
    results.append(name)
given.append(("batch_a", bytes_of(np.uint8, 3, 9, 10)))
given.append(("batch_b", bytes_of(np.uint8, 3, 10, 4)))
given.append(("batch_zb", np.array(77, np.uint8)))
known.append(("batch_za", np.array(200, np.uint8)))
products.append(node("MatMulInteger", ["batch_a", "batch_b", "batch_za", "batch_zb"], ["batch"]))
results.append("batch")
for name, x, w, shape, kernel, zeros, attributes in [
        ("margins", np.uint8, np.int8, (1, 8, 9, 7), (16, 8, 3, 3), (131, 0), dict(pads=[1, 0, 2, 1])),
        ("steps", np.int8, np.int8, (2, 4, 11, 10), (5, 4, 3, 2), (-3, 0), dict(strides=[2, 1], dilations=[1, 2])),
        ("halves", np.uint8, np.int8, (1, 16, 6, 6), (32, 8, 3, 3), (7, 0), dict(group=2, pads=[1, 1, 1, 1])),
        ("centre", np.uint8, np.uint8, (1, 12, 5, 5), (8, 12, 1, 1), (9, 128), {}),
        ("moved", np.uint8, np.int8, (1, 8, 5, 5), (8, 8, 3, 3), (7, 2), dict(pads=[1, 1, 1, 1])),
        ("thin", np.uint8, np.int8, (1, 3, 8, 8), (8, 3, 3, 3), (7, 0), dict(auto_pad="SAME_UPPER")),
        ("line", np.uint8, np.int8, (1, 8, 30), (16, 8, 5), (250, 0), dict(pads=[2, 2]))]:
    given.append((f"{name}_x", bytes_of(x, *shape)))
    known += [(f"{name}_w", bytes_of(w, *kernel)), (f"{name}_zx", np.array(zeros[0], x)),
              (f"{name}_zw", np.array(zeros[1], w)), (f"{name}_s", np.float32(0.01)),
              (f"{name}_bias", drawn.integers(-999, 999, kernel[0]).astype(np.int32))]
    operands = [f"{name}_x", f"{name}_s", f"{name}_zx", f"{name}_w", f"{name}_s", f"{name}_zw", f"{name}_s", f"{name}_zx",
                f"{name}_bias"]
    products.append(node("QLinearConv", operands, [name], **attributes))
    results.append(name)
with_data("bytes", products, given, results, known)

# Sequences that loops and branches make, whose lengths are not known before, and places in them that are computed.
def floats(*names):
    return [h.make_tensor_sequence_value_info(name, T.FLOAT, None) for name in names]


def of_sequences(name, nodes, tensors, sequences):
    """The body of a loop that carries sequences."""
    (inputs, outputs), (taken, given) = tensors, sequences
    inputs, outputs = ([h.make_tensor_value_info(n, t, s) for n, t, s in of] for of in (inputs, outputs))
    return h.make_graph(nodes, name, inputs + floats(*taken), outputs + floats(*given))


counted = [("i", T.INT64, []), ("go", T.BOOL, [])], [("goes", T.BOOL, [])]
goes = node("Identity", ["go"], ["goes"])
grow = of_sequences("grow", [
    goes, node("Add", ["i", "one"], ["j"]), node("Reshape", ["j", "row"], ["end"]),
    node("Slice", ["x", "begin", "end", "begin"], ["part"]), node("SequenceInsert", ["parts", "part"], ["more_parts"]),
    node("Gather", ["x", "i"], ["line"]), node("Gather", ["places", "i"], ["place"]),
    node("SequenceInsert", ["lines", "line", "place"], ["more_lines"])],
    counted, (["parts", "lines"], ["more_parts", "more_lines"]))
search = of_sequences("search", [
    node("SequenceAt", ["found", "where"], ["best"], name="best"), node("Mul", ["best", "half"], ["next"]),
    node("SequenceInsert", ["found", "next"], ["more"]), node("SequenceLength", ["more"], ["length"]),
    node("Mod", ["steps", "length"], ["next_where"]), node("Less", ["length", "six"], ["goes"])],
    (counted[0] + [("where", T.INT64, [])], [("goes", T.BOOL, []), ("next_where", T.INT64, [])]), (["found"], ["more"]))
shrink = of_sequences("shrink", [goes, node("SequenceErase", ["left", "second"], ["fewer"])], counted, (["left"], ["fewer"]))
nothing = h.make_graph([node("SequenceEmpty", [], ["none"])], "nothing", [], floats("none"))
two = h.make_graph([node("SequenceConstruct", ["x", "whole"], ["both"])], "two", [], floats("both"))
each = body("each", [node("ReduceSum", ["part", "begin"], ["sum"], keepdims=0), node("Add", ["sum", "line"], ["total"])],
            [("part", T.FLOAT, None), ("line", T.FLOAT, None)], [("sum", T.FLOAT, None), ("total", T.FLOAT, None)])
with_data("lists", [
    node("SequenceEmpty", [], ["none_yet"]), node("Loop", ["steps", "", "none_yet", "none_yet"], ["parts", "lines"], body=grow, name="grow"),
    node("ConcatFromSequence", ["parts"], ["whole"], axis=0), node("ConcatFromSequence", ["lines"], ["stacked"], axis=-1, new_axis=1),
    node("SequenceMap", ["parts", "lines"], ["sums", "totals"], body=each, name="each"),
    node("ConcatFromSequence", ["sums"], ["of_sums"], axis=0, new_axis=1),
    node("SequenceConstruct", ["x"], ["start"]),
    node("Loop", ["", "yes", "zero", "start"], ["at", "found"], body=search, name="search"),
    node("SequenceAt", ["found", "last"], ["latest"]), node("SequenceLength", ["found"], ["count"]),
    node("Loop", ["two_steps", "", "lines"], ["left"], body=shrink, name="shrink"),
    node("If", ["is_two"], ["chosen"], then_branch=two, else_branch=nothing, name="choose"),
    node("SequenceInsert", ["chosen", "x", "zero"], ["with_x"])],
    [("x", numbers(5, 2)), ("places", np.array([0, 0, 1, -1, -4])), ("steps", np.array(5)), ("last", np.array(-2)),
     ("second", np.array(1)), ("two_steps", np.array(2)), ("is_two", np.array(True)), ("yes", np.array(True))],
    ["whole", "stacked", "of_sums", "at", "latest", "count", *floats("parts", "totals", "left", "with_x")],
    [("one", np.int64(1)), ("row", np.array([1])), ("begin", np.array([0])), ("half", np.float32(0.5)), ("six", np.int64(6)),
     ("zero", np.int64(0))])
np.savez("lists.npz", x=numbers(5, 2), places=np.array([0, 0, 1, -1, -4]), steps=5, last=6, second=1, two_steps=2, is_two=False,
         yes=True)

# Sequences that have no list, since their elements differ or there are none.
one = h.make_graph([node("SequenceConstruct", ["v"], ["single"])], "one", [], floats("single"))
other = h.make_graph([node("SequenceConstruct", ["x", "x"], ["pair"])], "other", [], floats("pair"))
save("kinds",
     [node("If", ["c"], ["chosen"], then_branch=one, else_branch=other, name="choose"),
      node("SequenceConstruct", ["x", "v"], ["both"]), node("SequenceAt", ["both", "p"], ["y"], name="at"),
      node("SequenceEmpty", [], ["none"]), node("SequenceErase", ["none", "p"], ["nothing"], name="erase")],
     [("x", T.FLOAT, [2, 3]), ("v", T.FLOAT, [3]), ("c", T.BOOL, []), ("p", T.INT64, [])], [("y", T.FLOAT, None)])

# What goes on until it is long enough, and at most 20 times.
save("growing",
     [node("Loop", ["most", "yes", "x"], ["y"], name="loop", body=body(
         "grow", [node("Concat", ["s", "x"], ["longer"], axis=0), node("Size", ["longer"], ["size"]),
                  node("Less", ["size", "enough"], ["again"])],
         [("i", T.INT64, []), ("go", T.BOOL, []), ("s", T.FLOAT, None)], [("again", T.BOOL, []), ("longer", T.FLOAT, None)]))],
     [("x", T.FLOAT, [3]), ("most", T.INT64, [])], [("y", T.FLOAT, None)], [("enough", np.int64(11)), ("yes", np.bool_(True))])
np.savez("growing.npz", x=numbers(3), most=20)
