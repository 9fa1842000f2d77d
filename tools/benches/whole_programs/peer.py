"""What the benchmark of whole programs compares with: a TreeLSTM in numpy, on trees of the shapes that it is
told, such as ((..).). Prints the seconds of all of them."""
import sys
import time

import numpy as np

rng = np.random.default_rng(1)


def random(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32) / 12


leaf_weight, leaf_bias, weight, bias = random(300, 300), random(300), random(750, 300), random(750)


def tree(shape):
    pending = []
    for part in shape:
        if part == ".":
            pending.append(random(1, 300) * 12)
        elif part == ")":
            right, left = pending.pop(), pending.pop()
            pending.append((left, right))
    return pending.pop()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def state(node):
    if not isinstance(node, tuple):
        c, o = np.split(node @ leaf_weight.T + leaf_bias, 2, 1)
        return sigmoid(o) * np.tanh(c), c
    (left, left_c), (right, right_c) = state(node[0]), state(node[1])
    i, f, g, o, u = np.split(np.concatenate((left, right), 1) @ weight.T + bias, 5, 1)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f) * left_c + sigmoid(g) * right_c
    return sigmoid(o) * np.tanh(c), c


trees = [tree(shape) for shape in sys.argv[1:]]
best = float("inf")
for _ in range(5):
    start = time.perf_counter()
    for one in trees:
        state(one)
    best = min(best, time.perf_counter() - start)
print(best)
