"""What the benchmark of training compares with: the same network in PyTorch, compiled and not. The arguments are a
file of arrays, weights with `x` and `y`, and how many threads. It prints the losses of the first three steps of each
way, after its name; then, for each line that it reads, it runs each way once, and prints their names and seconds."""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

threads = int(sys.argv[2])
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
torch.set_num_threads(threads)
arrays = np.load(sys.argv[1])
x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"].astype(np.int64))


def way(compiled):
    names = [name for name in arrays.files if name not in ("x", "y")]
    w = {name: torch.from_numpy(arrays[name].copy()).requires_grad_() for name in names}
    sgd = torch.optim.SGD(w.values(), lr=0.01, fused=compiled)

    def loss(x, y):
        h = F.max_pool2d(torch.tanh(F.conv2d(x, w["conv1"], w["bias1"])), 2)
        h = F.max_pool2d(torch.tanh(F.conv2d(h, w["conv2"], w["bias2"])), 2)
        h = torch.tanh(F.linear(h.flatten(1), w["dense3"], w["bias3"]))
        return F.cross_entropy(F.linear(h, w["dense4"], w["bias4"]), y)

    of = torch.compile(loss, dynamic=False) if compiled else loss

    def step():
        sgd.zero_grad(set_to_none=True)
        value = of(x, y)
        value.backward()
        sgd.step()
        return value.item()

    return step


ways = {"eager": way(False), "compiled": way(True)}
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
        for _ in range(5):
            step()
        took += [name, str((time.perf_counter() - start) / 5)]
    print(*took, flush=True)
