"""What the benchmark of training compares with: the same networks in PyTorch, eager, and compiled where that can be.
The arguments are the name of a network, a file of arrays, how many threads, and more that the network takes. It prints
the losses of the first three steps of each way, after its name; then, for each line that it reads, it runs each way
once, and prints their names and seconds."""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

threads = int(sys.argv[3])
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
torch.set_num_threads(threads)
arrays = np.load(sys.argv[2])
data = {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def lenet(w):
    def loss():
        h = F.max_pool2d(torch.tanh(F.conv2d(data["x"], w["conv1"], w["bias1"])), 2)
        h = F.max_pool2d(torch.tanh(F.conv2d(h, w["conv2"], w["bias2"])), 2)
        h = torch.tanh(F.linear(h.flatten(1), w["dense3"], w["bias3"]))
        return F.cross_entropy(F.linear(h, w["dense4"], w["bias4"]), data["y"].long())

    return loss


def resnet(w):
    def convolution(x, name, stride):
        kernel = w[name + "_weight"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[2] // 2)
        return F.batch_norm(x, None, None, w[name + "_gamma"], w[name + "_beta"], training=True)

    def loss():
        x = F.relu(convolution(data["x"], "stem", 1))
        for stage in range(4):
            for unit in range(2):
                name, stride = f"stage{stage}_unit{unit}", 2 if stage and not unit else 1
                h = F.relu(convolution(x, name + "_a", stride))
                h = convolution(h, name + "_b", 1)
                x = F.relu(h + (convolution(x, name + "_c", 2) if stride == 2 else x))
        return F.cross_entropy(F.linear(x.mean((2, 3)), w["dense"], w["bias"]), data["y"].long())

    return loss


def lstm(w):
    layers = torch.nn.LSTM(650, 650, 2)
    for layer in range(2):
        for theirs, ours in (("weight_ih", "w"), ("weight_hh", "u"), ("bias_ih", "b")):
            parameter = getattr(layers, f"{theirs}_l{layer}")
            parameter.data.copy_(w[f"{ours}{layer + 1}"].data)
            w[f"{ours}{layer + 1}"] = parameter
        getattr(layers, f"bias_hh_l{layer}").data.zero_()
        getattr(layers, f"bias_hh_l{layer}").requires_grad_(False)

    def loss():
        return F.mse_loss(layers(data["x"])[0], data["y"])

    return loss


def treelstm(w):
    def state(shape, words):
        if next(shape) == ".":
            gates = F.linear(next(words), w["leaf_weight"], w["leaf_bias"])
            c, o = gates.chunk(2, dim=1)
            return torch.sigmoid(o) * torch.tanh(c), c
        (h1, c1), (h2, c2) = state(shape, words), state(shape, words)
        next(shape)
        i, f1, f2, o, g = F.linear(torch.cat((h1, h2), 1), w["weight"], w["bias"]).chunk(5, dim=1)
        c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f1) * c1 + torch.sigmoid(f2) * c2
        return torch.sigmoid(o) * torch.tanh(c), c

    def loss():
        words = iter(data["words"].split(1))
        hs = [state(iter(shape), words)[0] for shape in sys.argv[4:]]
        return sum((h * h).mean() for h in hs)

    return loss


def way(network, compiled):
    fed = ("x", "y", "words")
    w = {name: data[name].clone().requires_grad_() for name in data if name not in fed}
    loss = network(w)
    sgd = torch.optim.SGD(w.values(), lr=0.01, fused=compiled)
    loss = torch.compile(loss, dynamic=False) if compiled else loss

    def step():
        sgd.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        sgd.step()
        return value.item()

    return step


network = {"lenet": lenet, "resnet-18": resnet, "lstm": lstm, "treelstm": treelstm}[sys.argv[1]]
ways = {"eager": way(network, False)}
# A program for the shape of each tree takes minutes.
if network is not treelstm:
    ways["compiled"] = way(network, True)
for name, step in ways.items():
    start = time.perf_counter()
    losses = [step() for _ in range(3)]
    print(name, time.perf_counter() - start, *losses, flush=True)
print(flush=True)
for _ in sys.stdin:
    took = []
    for name, step in ways.items():
        step()
        start = time.perf_counter()
        step()
        took += [name, str(time.perf_counter() - start)]
    print(*took, flush=True)
