"""Writes mlp.onnx and mlp.npz: python make.py. Needs the packages onnx 1.17 or later and numpy."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def numbers(*shape):
    """Small numbers that are no random ones, so that the file is the same each time."""
    return (np.arange(np.prod(shape), dtype=np.float32) % 11 - 5).reshape(shape) / 8


nodes = [
    helper.make_node("Gemm", ["data", "fc1.weight", "fc1.bias"], ["hidden"], name="/fc1/Gemm", transB=1),
    helper.make_node("Relu", ["hidden"], ["active"], name="/Relu"),
    helper.make_node("Gemm", ["active", "fc2.weight", "fc2.bias"], ["scores"], name="/fc2/Gemm", transB=1),
    helper.make_node("Softmax", ["scores"], ["probabilities"], name="/Softmax"),
]
weights = {
    "fc1.weight": numbers(32, 16), "fc1.bias": numbers(32),
    "fc2.weight": numbers(10, 32), "fc2.bias": numbers(10),
}
graph = helper.make_graph(
    nodes, "mlp",
    [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["batch", 16])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="make.py")
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, "mlp.onnx")
np.savez("mlp.npz", data=numbers(1, 16))
