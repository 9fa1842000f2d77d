"""What the benchmark of operators compares with: ONNX Runtime. Arguments are a folder and a number of threads;
others choose cases by a part of their name. `--models PATH` takes all models below a folder instead, with `NAME=N` for the
extents that they leave open, which are else 1, and for the elements of inputs of integers, which are else 1, too.

For each case it writes NAME.onnx, a model, NAME.npz, what it takes, and NAME.expected.npz, what ONNX
Runtime gives, and prints the name. An empty line ends the list. Then, for each line with a name that it reads, it prints
the least seconds of a run."""
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER, THREADS, PARTS = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
MODELS = PARTS.pop(PARTS.index("--models") + 1) if "--models" in PARTS else None
GIVEN = {name: int(number) for name, number in (part.split("=") for part in PARTS if "=" in part)}
PARTS = [part for part in PARTS if part != "--models" and "=" not in part]
OPSETS = [("", 21), ("ai.onnx.ml", 3), ("com.microsoft", 1)]
RNG = np.random.default_rng(1)
CASES = []


def floats(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def positive(*shape):
    return RNG.uniform(0.1, 2, shape).astype(np.float32)


def integers(least, most, *shape, dtype=np.int64):
    return RNG.integers(least, most, shape, dtype=dtype)


class Known:
    """An operand that is part of the model."""

    def __init__(self, value, dtype=None):
        self.value = np.asarray(value, dtype)


def case(name, operator, *operands, outputs=1, domain="", **attributes):
    CASES.append((name, operator, operands, outputs, domain, attributes))


def i64(*values):
    return Known(values, np.int64)


def unary():
    for operator in ["Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "Softplus", "HardSwish", "Abs", "Floor", "Round", "Sin",
                     "Elu", "Mish", "Neg", "Sign", "HardSigmoid", "LeakyRelu", "Selu", "Celu", "Cos", "Atan"]:
        case(operator.lower(), operator, floats(64, 56, 56))
    for operator in ["Log", "Sqrt", "Reciprocal"]:
        case(operator.lower(), operator, positive(64, 56, 56))
    case("clip", "Clip", floats(64, 56, 56), Known(0, np.float32), Known(0.5, np.float32))
    case("relu, odd", "Relu", floats(13, 1009, 7))
    case("sigmoid, float16", "Sigmoid", floats(64, 56, 56, dtype=np.float16))
    case("not", "Not", integers(0, 2, 200_000).astype(bool))
    case("isnan", "IsNaN", floats(200_000))
    casts = [(np.float32, np.int64), (np.int64, np.float32), (np.float32, np.float16), (np.float16, np.float32), (np.uint8, np.float32),
             (np.float32, np.float64), (np.int32, np.int64)]
    for source, target in casts:
        to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
        value = (floats(200_000) * 100).astype(source) if source is not np.uint8 else integers(0, 256, 200_000, dtype=np.uint8)
        case(f"cast {np.dtype(source)} to {np.dtype(target)}", "Cast", value, to=to)


def binary():
    for operator in ["Add", "Mul", "Div", "Max", "Less", "Equal", "Sub"]:
        case(operator.lower(), operator, floats(64, 56, 56), floats(64, 56, 56))
    case("pow", "Pow", positive(64, 56, 56), floats(64, 56, 56))
    case("pow, square", "Pow", floats(64, 56, 56), Known(2, np.float32))
    case("mod, int64", "Mod", integers(-1000, 1000, 200_000), integers(1, 100, 200_000))
    case("fmod", "Mod", floats(200_000), positive(200_000), fmod=1)
    case("add, odd", "Add", floats(13, 1009, 7), floats(13, 1009, 7))
    case("add, of rows", "Add", floats(512, 768), floats(768))
    case("add, of columns", "Add", floats(512, 768), floats(512, 1))
    case("add, of channels", "Add", floats(1, 64, 56, 56), floats(64, 1, 1))
    case("mul, of a number", "Mul", floats(512, 768), Known(0.5, np.float32))
    case("add, outer", "Add", floats(700, 1), floats(1, 700))
    case("add, int64", "Add", integers(0, 1000, 200_000), integers(0, 1000, 200_000))
    case("div, int64", "Div", integers(0, 1000, 200_000), integers(1, 1000, 200_000))
    case("add, float64", "Add", floats(200_000, dtype=np.float64), floats(200_000, dtype=np.float64))
    case("and", "And", integers(0, 2, 200_000).astype(bool), integers(0, 2, 200_000).astype(bool))
    case("where", "Where", integers(0, 2, 512, 768).astype(bool), floats(512, 768), floats(512, 768))
    case("where, of a number", "Where", integers(0, 2, 512, 768).astype(bool), floats(512, 768), Known(0, np.float32))
    case("prelu", "PRelu", floats(1, 64, 56, 56), Known(floats(64, 1, 1)))
    case("bitwise and", "BitwiseAnd", integers(0, 1000, 200_000, dtype=np.int32), integers(0, 1000, 200_000, dtype=np.int32))
    case("bit shift", "BitShift", integers(0, 1000, 200_000, dtype=np.uint32), integers(0, 9, 200_000, dtype=np.uint32), direction="LEFT")


def reductions():
    data = floats(64, 56, 56)
    case("sum, all", "ReduceSum", data, keepdims=0)
    case("sum, last", "ReduceSum", data, i64(-1))
    case("sum, first", "ReduceSum", data, i64(0))
    case("sum, middle", "ReduceSum", data, i64(1))
    case("sum, odd", "ReduceSum", floats(13, 1009, 7), i64(1))
    case("sum, long rows", "ReduceSum", floats(3, 70_001), i64(1))
    case("mean, last two", "ReduceMean", data, i64(1, 2))
    case("max, last", "ReduceMax", data, i64(-1))
    case("max, all", "ReduceMax", data, keepdims=0)
    case("min, first", "ReduceMin", data, i64(0))
    case("l2, last", "ReduceL2", data, i64(-1))
    case("logsumexp, last", "ReduceLogSumExp", floats(512, 768), i64(-1))
    case("prod, last", "ReduceProd", data, i64(-1))
    case("sum, int64", "ReduceSum", integers(0, 100, 512, 768), i64(-1))
    case("mean, float16", "ReduceMean", floats(512, 768, dtype=np.float16), i64(-1))
    case("argmax, last", "ArgMax", floats(512, 768), axis=-1)
    case("argmax, first", "ArgMax", floats(512, 768), axis=0)
    case("argmin, all of one row", "ArgMin", floats(1, 200_001), axis=1)
    case("cumsum, last", "CumSum", floats(512, 768), i64(1))
    case("cumsum, first", "CumSum", floats(512, 768), i64(0))
    case("topk, 5 of 1000", "TopK", floats(64, 1000), i64(5), outputs=2)
    case("topk, 100 of 20000", "TopK", floats(4, 20_000), i64(100), outputs=2)
    case("topk, first axis", "TopK", floats(1000, 64), i64(5), outputs=2, axis=0)


def normalizations():
    case("softmax, last", "Softmax", floats(512, 768))
    case("softmax, short rows", "Softmax", floats(12_000, 13))
    case("softmax, channels", "Softmax", floats(1, 21, 128, 128), axis=1)
    case("logsoftmax", "LogSoftmax", floats(64, 10_000))
    case("hardmax", "Hardmax", floats(512, 768))
    case("layer norm", "LayerNormalization", floats(512, 768), Known(floats(768)), Known(floats(768)))
    case("layer norm, odd", "LayerNormalization", floats(127, 1001), Known(floats(1001)), Known(floats(1001)))
    case("batch norm", "BatchNormalization", floats(1, 64, 56, 56), *[Known(positive(64)) for _ in range(4)])
    case("instance norm", "InstanceNormalization", floats(1, 64, 56, 56), Known(floats(64)), Known(floats(64)))
    case("group norm", "GroupNormalization", floats(1, 64, 56, 56), Known(floats(64)), Known(floats(64)), num_groups=8)
    case("lrn", "LRN", floats(1, 64, 56, 56), size=5)
    case("lp normalization", "LpNormalization", floats(512, 768))
    case("mean variance normalization", "MeanVarianceNormalization", floats(4, 64, 28, 28))
    case("skip layer norm", "SkipLayerNormalization", floats(1, 512, 768), floats(1, 512, 768), Known(floats(768)), Known(floats(768)), domain="com.microsoft")
    case("bias gelu", "BiasGelu", floats(512, 768), Known(floats(768)), domain="com.microsoft")


def products():
    case("matmul, 512", "MatMul", floats(512, 512), Known(floats(512, 512)))
    case("matmul, of two inputs", "MatMul", floats(384, 384), floats(384, 384))
    case("matmul, one row", "MatMul", floats(1, 1024), Known(floats(1024, 1024)))
    case("matmul, 8 rows", "MatMul", floats(8, 1024), Known(floats(1024, 1024)))
    case("matmul, one column", "MatMul", floats(1024, 1024), floats(1024, 1))
    case("matmul, batched", "MatMul", floats(12, 128, 64), floats(12, 64, 128))
    case("matmul, odd", "MatMul", floats(127, 129), Known(floats(129, 131)))
    case("matmul, float64", "MatMul", floats(256, 256, dtype=np.float64), Known(floats(256, 256, dtype=np.float64)))
    case("matmul, float16", "MatMul", floats(256, 256, dtype=np.float16), Known(floats(256, 256, dtype=np.float16)))
    case("gemm", "Gemm", floats(128, 768), Known(floats(3072, 768)), Known(floats(3072)), transB=1)
    case("gemm, transposed", "Gemm", floats(300, 200), floats(100, 300), transA=1, transB=1)
    # Weights of 7 bits: on processors without dot products of bytes, ONNX Runtime saturates sums of larger ones.
    case("matmul integer", "MatMulInteger", integers(0, 255, 128, 768, dtype=np.uint8), Known(integers(-64, 64, 768, 768, dtype=np.int8)))
    one, zero = Known(0.05, np.float32), Known(3, np.uint8)
    case("qlinear matmul", "QLinearMatMul", integers(0, 255, 128, 768, dtype=np.uint8), one, zero, Known(integers(-64, 64, 768, 768, dtype=np.int8)), one, Known(0, np.int8), Known(9.0, np.float32), zero)
    case("einsum", "Einsum", floats(8, 64, 64), floats(8, 64, 64), equation="bij,bkj->bik")
    case("fused matmul", "FusedMatMul", floats(12, 128, 64), floats(12, 128, 64), domain="com.microsoft", transB=1, alpha=0.125)


def convolutions():
    def conv(name, data, weight, operator="Conv", bias=True, **attributes):
        out = weight[1] * attributes.get("group", 1) if operator == "ConvTranspose" else weight[0]
        case(name, operator, floats(*data), Known(floats(*weight)), *[Known(floats(out))] * bias, **attributes)

    conv("conv 3x3", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1, 1, 1, 1])
    conv("conv 3x3, small", (1, 512, 7, 7), (512, 512, 3, 3), pads=[1, 1, 1, 1])
    conv("conv 3x3, stride 2", (1, 64, 56, 56), (128, 64, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    conv("conv 1x1", (1, 256, 28, 28), (128, 256, 1, 1))
    conv("conv 1x1, stride 2", (1, 64, 56, 56), (128, 64, 1, 1), strides=[2, 2])
    conv("conv 7x7, first", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2])
    conv("conv 16x16, patches", (1, 3, 224, 224), (384, 3, 16, 16), strides=[16, 16])
    conv("conv 3x3, first", (1, 3, 224, 224), (32, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    conv("conv 3x3, one channel", (1, 1, 128, 128), (16, 1, 3, 3))
    conv("conv 3x3, odd", (1, 17, 13, 9), (19, 17, 3, 3), pads=[1, 1, 1, 1])
    conv("conv 3x3, dilated", (1, 64, 28, 28), (64, 64, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2])
    conv("conv 3x3, 8 groups", (1, 64, 56, 56), (64, 8, 3, 3), pads=[1, 1, 1, 1], group=8)
    conv("conv 1x7", (1, 128, 17, 17), (128, 128, 1, 7), pads=[0, 3, 0, 3])
    conv("conv 3x3, 8 images", (8, 32, 28, 28), (32, 32, 3, 3), pads=[1, 1, 1, 1])
    conv("depthwise 3x3", (1, 128, 56, 56), (128, 1, 3, 3), pads=[1, 1, 1, 1], group=128)
    conv("depthwise 3x3, stride 2", (1, 128, 56, 56), (128, 1, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2], group=128)
    conv("depthwise 5x5", (1, 240, 14, 14), (240, 1, 5, 5), pads=[2, 2, 2, 2], group=240)
    conv("depthwise 7x7", (1, 96, 56, 56), (96, 1, 7, 7), pads=[3, 3, 3, 3], group=96)
    conv("conv1d", (1, 80, 3000), (384, 80, 3), pads=[1, 1])
    conv("conv1d, stride 2", (1, 384, 1500), (384, 384, 3), pads=[1, 1], strides=[2])
    conv("conv1d, depthwise", (1, 256, 2000), (256, 1, 4), pads=[3, 0], group=256)
    conv("conv3d", (1, 16, 8, 28, 28), (16, 16, 3, 3, 3), pads=[1] * 6)
    conv("conv transpose 2x2", (1, 64, 28, 28), (64, 32, 2, 2), "ConvTranspose", strides=[2, 2])
    conv("conv transpose 4x4", (1, 64, 28, 28), (64, 32, 4, 4), "ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1])
    conv("conv transpose 3x3", (1, 64, 28, 28), (64, 32, 3, 3), "ConvTranspose", pads=[1, 1, 1, 1])
    conv("conv transpose 1d", (1, 64, 500), (64, 32, 8), "ConvTranspose", strides=[4])
    case("conv integer", "ConvInteger", integers(0, 255, 1, 64, 28, 28, dtype=np.uint8), Known(integers(0, 255, 64, 64, 3, 3, dtype=np.uint8)), Known(3, np.uint8))
    one, zero = Known(0.05, np.float32), Known(3, np.uint8)
    case("qlinear conv", "QLinearConv", integers(0, 255, 1, 64, 28, 28, dtype=np.uint8), one, zero, Known(integers(-64, 64, 64, 64, 3, 3, dtype=np.int8)), one, Known(0, np.int8), Known(9.0, np.float32), zero, pads=[1, 1, 1, 1])


def pools():
    def pool(name, operator, *shape, **attributes):
        case(name, operator, floats(*shape), **attributes)

    pool("max pool 3x3", "MaxPool", 1, 64, 112, 112, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    pool("max pool 2x2", "MaxPool", 1, 64, 112, 112, kernel_shape=[2, 2], strides=[2, 2])
    pool("max pool 5x5, stride 1", "MaxPool", 1, 128, 20, 20, kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    pool("max pool 3x3, odd", "MaxPool", 1, 17, 113, 91, kernel_shape=[3, 3], strides=[2, 2])
    pool("max pool 1d", "MaxPool", 1, 64, 4000, kernel_shape=[2], strides=[2])
    pool("max pool 3d", "MaxPool", 1, 16, 16, 28, 28, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    pool("max pool, indices", "MaxPool", 1, 64, 56, 56, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    pool("average pool 3x3", "AveragePool", 1, 64, 56, 56, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    pool("average pool 2x2", "AveragePool", 1, 64, 112, 112, kernel_shape=[2, 2], strides=[2, 2])
    pool("lp pool", "LpPool", 1, 64, 56, 56, kernel_shape=[3, 3])
    pool("global average pool", "GlobalAveragePool", 1, 512, 14, 14)
    pool("global max pool", "GlobalMaxPool", 1, 512, 14, 14)


def images():
    def resize(name, shape, scales, **attributes):
        case(name, "Resize", floats(*shape), Known([], np.float32), Known(scales, np.float32), **attributes)

    resize("resize, nearest", (1, 64, 28, 28), [1, 1, 2, 2], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("resize, linear", (1, 32, 28, 28), [1, 1, 2, 2], mode="linear")
    resize("resize, linear, smaller", (1, 32, 112, 112), [1, 1, 0.5, 0.5], mode="linear")
    resize("resize, linear, odd", (1, 3, 113, 91), [1, 1, 1.7, 1.3], mode="linear")
    resize("resize, cubic", (1, 8, 56, 56), [1, 1, 2, 2], mode="cubic")
    case("grid sample", "GridSample", floats(1, 32, 56, 56), floats(1, 56, 56, 2))
    boxes = np.sort(positive(32, 2, 2) * 20, 1).reshape(32, 4).astype(np.float32)
    case("roi align", "RoiAlign", floats(1, 64, 50, 50), boxes, np.zeros(32, np.int64), output_height=7, output_width=7, sampling_ratio=2)
    at = positive(1, 1000, 2) * 100
    case("non max suppression", "NonMaxSuppression", np.concatenate([at, at + positive(1, 1000, 2) * 30], -1), positive(1, 1, 1000), i64(100), Known([0.5], np.float32), Known([0.1], np.float32))
    case("depth to space", "DepthToSpace", floats(1, 128, 56, 56), blocksize=2)
    case("space to depth", "SpaceToDepth", floats(1, 32, 112, 112), blocksize=2)


def movement():
    data = floats(64, 56, 56)
    case("transpose, matrix", "Transpose", floats(700, 500))
    case("transpose, channels last", "Transpose", floats(1, 64, 56, 56), perm=[0, 2, 3, 1])
    case("transpose, heads", "Transpose", floats(1, 128, 12, 64), perm=[0, 2, 1, 3])
    case("transpose, int8", "Transpose", integers(-128, 128, 700, 500, dtype=np.int8))
    case("transpose, reversed", "Transpose", floats(31, 57, 113))
    case("concat, channels", "Concat", floats(1, 64, 56, 56), floats(1, 32, 56, 56), axis=1)
    case("concat, last", "Concat", floats(1000, 64), floats(1000, 33), axis=1)
    case("split", "Split", floats(1, 96, 56, 56), outputs=3, axis=1, num_outputs=3)
    case("split, last", "Split", floats(512, 768), outputs=3, axis=1, num_outputs=3)
    case("slice", "Slice", floats(1, 64, 112, 112), i64(8, 8), i64(104, 104), i64(2, 3))
    case("slice, steps", "Slice", floats(1, 64, 112, 112), i64(0, 0), i64(112, 112), i64(2, 3), i64(2, 2))
    case("slice, backwards", "Slice", floats(512, 768), i64(-1), i64(-1000), i64(1), i64(-1))
    case("pad", "Pad", floats(1, 64, 56, 56), i64(0, 0, 1, 1, 0, 0, 1, 1))
    case("pad, reflect", "Pad", floats(1, 64, 56, 56), i64(0, 0, 3, 3, 0, 0, 3, 3), mode="reflect")
    case("pad, edge", "Pad", floats(1, 64, 56, 56), i64(0, 0, 3, 3, 0, 0, 3, 3), mode="edge")
    case("tile", "Tile", floats(64, 100), i64(10, 4))
    case("expand", "Expand", floats(1, 64, 1, 64), i64(8, 64, 12, 64))
    case("flatten, and more", "Flatten", data)
    case("gather, rows", "Gather", floats(30_000, 128), integers(0, 30_000, 512))
    case("gather, columns", "Gather", floats(512, 768), integers(0, 768, 300), axis=1)
    case("gather elements", "GatherElements", floats(512, 768), integers(0, 512, 512, 300), axis=0)
    case("gather nd", "GatherND", floats(64, 56, 56), integers(0, 56, 4000, 2))
    case("scatter elements", "ScatterElements", floats(512, 768), integers(0, 512, 200, 768), floats(200, 768), axis=0)
    case("scatter elements, sums", "ScatterElements", floats(512, 768), integers(0, 512, 200, 768), floats(200, 768), axis=0, reduction="add")
    case("scatter nd", "ScatterND", floats(64, 56, 56), RNG.permutation(64 * 56)[:2000, None] // [56, 1] % [64, 56], floats(2000, 56))
    case("one hot", "OneHot", integers(0, 1000, 512), Known(1000, np.int64), Known([0, 1], np.float32))
    case("compress", "Compress", floats(512, 768), integers(0, 2, 512).astype(bool), axis=0)
    case("nonzero", "NonZero", integers(0, 2, 512, 768, dtype=np.int64))
    case("unique", "Unique", integers(0, 500, 20_000).astype(np.float32), outputs=4)
    case("trilu", "Trilu", floats(8, 256, 256))
    case("reverse sequence", "ReverseSequence", floats(64, 8, 256), integers(1, 65, 8))


def networks():
    def recurrent(name, operator, gates, steps, batch, inputs, hidden, directions=1, **attributes):
        w, r, b = (Known(floats(*shape) / 8) for shape in [(directions, gates * hidden, inputs), (directions, gates * hidden, hidden), (directions, 2 * gates * hidden)])
        direction = "bidirectional" if directions == 2 else "forward"
        case(name, operator, floats(steps, batch, inputs), w, r, b, hidden_size=hidden, direction=direction, **attributes)

    recurrent("lstm", "LSTM", 4, 32, 1, 256, 256)
    recurrent("lstm, 8 sequences", "LSTM", 4, 16, 8, 128, 256)
    recurrent("lstm, both directions", "LSTM", 4, 20, 1, 128, 128, 2)
    recurrent("gru", "GRU", 3, 32, 1, 256, 256, linear_before_reset=1)
    recurrent("rnn", "RNN", 1, 32, 1, 256, 256)
    heads = dict(domain="com.microsoft", num_heads=12)
    case("attention, 128", "MultiHeadAttention", *[floats(1, 128, 768) for _ in range(3)], **heads)
    case("attention, 512", "MultiHeadAttention", *[floats(1, 512, 768) for _ in range(3)], **heads)
    case("attention, decoding", "MultiHeadAttention", floats(1, 1, 768), *[floats(1, 512, 768) for _ in range(2)], **heads)


def quantization():
    scale, zero = Known(0.05, np.float32), Known(128, np.uint8)
    case("quantize", "QuantizeLinear", floats(512, 768), scale, zero)
    case("dequantize", "DequantizeLinear", integers(0, 256, 512, 768, dtype=np.uint8), scale, zero)
    case("dequantize, channels", "DequantizeLinear", integers(-128, 128, 512, 768, dtype=np.int8), Known(positive(512)), Known(np.zeros(512), np.int8), axis=0)
    case("dynamic quantize", "DynamicQuantizeLinear", floats(512, 768), outputs=3)


def learned():
    nodes, trees, depth = {key: [] for key in ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "hitrates", "missing_value_tracks_true"]}, 50, 6
    leaves = {key: [] for key in ["treeids", "nodeids", "ids", "weights"]}
    for tree in range(trees):
        for node in range(2 ** (depth + 1) - 1):
            leaf = node >= 2 ** depth - 1
            row = [tree, node, 0 if leaf else int(RNG.integers(20)), "LEAF" if leaf else "BRANCH_LEQ", 0.0 if leaf else float(RNG.uniform(-1, 1)),
                   0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2, 1.0, 0]
            for key, value in zip(nodes, row):
                nodes[key].append(value)
            if leaf:
                for key, value in zip(leaves, [tree, node, 0, float(RNG.uniform(-1, 1))]):
                    leaves[key].append(value)
    attributes = {f"nodes_{key}": value for key, value in nodes.items()} | {f"target_{key}": value for key, value in leaves.items()}
    case("trees", "TreeEnsembleRegressor", floats(1000, 20), domain="ai.onnx.ml", n_targets=1, **attributes)
    case("scaler", "Scaler", floats(10_000, 20), domain="ai.onnx.ml", offset=[0.5] * 20, scale=[2.0] * 20)
    case("linear regressor", "LinearRegressor", floats(10_000, 20), domain="ai.onnx.ml", coefficients=[0.5] * 20, intercepts=[1.0])
    case("normalizer", "Normalizer", floats(10_000, 20), domain="ai.onnx.ml", norm="L2")


def model(name, operator, operands, outputs, domain, attributes):
    inputs, constants, taken, names = [], [], {}, []
    for number, operand in enumerate(operands):
        names.append(f"x{number}")
        if isinstance(operand, Known):
            constants.append(numpy_helper.from_array(operand.value, names[-1]))
        else:
            taken[names[-1]] = operand
            inputs.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape))
    given = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(operator, names, given, domain=domain, **attributes)
    results = [helper.make_value_info(each, onnx.TypeProto()) for each in given]
    opsets = [helper.make_opsetid(*opset) for opset in OPSETS]
    made = helper.make_model(helper.make_graph([node], "operator", inputs, results, constants), opset_imports=opsets, ir_version=10)
    return made, taken, given


def of_others(path):
    """The model at `path` with known extents, and inputs for it."""
    made = onnx.load(path)
    constants = {constant.name for constant in made.graph.initializer}
    taken = {}
    for value in made.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        for axis, extent in enumerate(tensor.shape.dim):
            if extent.dim_value <= 0:
                extent.dim_value = GIVEN.get(extent.dim_param, GIVEN.get(f"{value.name}.{axis}", 1))
        shape = [extent.dim_value for extent in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        number = GIVEN.get(value.name, 1)
        taken[value.name] = floats(*shape, dtype=dtype) if dtype.kind == "f" else np.full(shape, number, dtype)
    return made, taken, [value.name for value in made.graph.output]


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def typed(made, path, session):
    """The model with the types of its results, which ONNX Runtime knows."""
    for value, known in zip(made.graph.output, session.get_outputs()):
        name = known.type.removeprefix("tensor(").removesuffix(")")
        of = {"float": "FLOAT", "double": "DOUBLE"}.get(name, name.upper())
        shape = [extent if isinstance(extent, int) else None for extent in known.shape]
        value.CopyFrom(helper.make_tensor_value_info(known.name, getattr(TensorProto, of), shape))
    onnx.save(made, path)


def main():
    if MODELS:
        for path in sorted(Path(MODELS).rglob("*.onnx")):
            # Several folders may have a model of one name.
            CASES.append((".".join(path.relative_to(MODELS).with_suffix("").parts), path))
    for group in [] if MODELS else [unary, binary, reductions, normalizations, products, convolutions, pools, images, movement, networks, quantization, learned]:
        group()
    bindings = {}
    for name, *rest in CASES:
        if PARTS and not any(part in name for part in PARTS):
            continue
        made, taken, given = of_others(*rest) if MODELS else model(name, *rest)
        path = FOLDER / f"{name}.onnx"
        onnx.save(made, path)
        # Other models as they are: with known extents, what is not computed may not fit.
        run = session(rest[0] if MODELS else path)
        if not MODELS:
            typed(made, path, run)
        np.savez(FOLDER / f"{name}.npz", **taken)
        np.savez(FOLDER / f"{name}.expected.npz", **dict(zip(given, run.run(given, taken))))
        binding = run.io_binding()
        for operand, value in taken.items():
            binding.bind_cpu_input(operand, value)
        for result in given:
            binding.bind_output(result)
        bindings[name] = (run, binding)
        print(name, flush=True)
    print(flush=True)
    for line in sys.stdin:
        run, binding = bindings[line.strip()]
        least, end = float("inf"), time.perf_counter() + 0.03
        while True:
            start = time.perf_counter()
            run.run_with_iobinding(binding)
            least = min(least, time.perf_counter() - start)
            if time.perf_counter() > end:
                break
        print(least, flush=True)


main()
