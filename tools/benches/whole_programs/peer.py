"""What the benchmark of whole programs compares with: TreeLSTMs in numpy, and in JAX, where it is installed, as
one program for each shape of a tree. The first argument is `constituency` or `child-sum`, the others are shapes
of trees, such as ((..).). For each line that it reads, it runs each way once, and prints their names and seconds."""
import os
import sys
import time

import numpy as np

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["JAX_PLATFORMS"] = "cpu"
rng = np.random.default_rng(1)


def random(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32) / 12


def shape_of(text):
    """A leaf is its number among all nodes, from the leaves up; another node has its parts before it."""
    pending, count = [], 0
    for part in text:
        if part == ".":
            pending.append((count,))
            count += 1
        elif part == ")":
            right, left = pending.pop(), pending.pop()
            pending.append((count, left, right))
            count += 1
    return pending.pop(), count


# Matrices with a row for each input, as both keep them.
weights = {
    "constituency": [random(300, 300), random(300), random(300, 750), random(750)],
    "child-sum": [random(300, 600), random(600), random(150, 450), random(150, 150)],
}[sys.argv[1]]


def constituency(np, sigmoid, words, node, weights):
    leaf_weight, leaf_bias, weight, bias = weights
    if len(node) == 1:
        c, o = np.split(words[node[0]] @ leaf_weight + leaf_bias, 2, 1)
        return sigmoid(o) * np.tanh(c), c
    (left, left_c), (right, right_c) = (constituency(np, sigmoid, words, part, weights) for part in node[1:])
    i, f, g, o, u = np.split(np.concatenate((left, right), 1) @ weight + bias, 5, 1)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f) * left_c + sigmoid(g) * right_c
    return sigmoid(o) * np.tanh(c), c


def child_sum(np, sigmoid, words, node, weights):
    word_weight, bias, weight, forget_weight = weights
    parts = [child_sum(np, sigmoid, words, part, weights) for part in node[1:]]
    i, o, u, f = np.split(words[node[0]] @ word_weight + bias, 4, 1)
    if parts:
        more = np.split(sum(h for h, _ in parts) @ weight, 3, 1)
        i, o, u = (x + y for x, y in zip((i, o, u), more))
    c = sigmoid(i) * np.tanh(u) + sum(sigmoid(f + h @ forget_weight) * c for h, c in parts)
    return sigmoid(o) * np.tanh(c), c


state = {"constituency": constituency, "child-sum": child_sum}[sys.argv[1]]
shapes = [shape_of(text) for text in sys.argv[2:]]
words = [random(count, 1, 300) * 12 for _, count in shapes]
ways = {}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ways["numpy"] = lambda: [state(np, sigmoid, own, node, weights) for own, (node, _) in zip(words, shapes)]
try:
    import jax

    def program(node):
        return jax.jit(lambda words, weights: state(jax.numpy, jax.nn.sigmoid, words, node, weights))

    programs = [program(node) for node, _ in shapes]
    on_device = jax.device_put((words, weights))
    ways["JAX"] = lambda: [jax.block_until_ready(f(own, on_device[1])) for f, own in zip(programs, on_device[0])]
except ImportError:
    pass

expected = ways["numpy"]()
for way in ways.values():
    for (h, _), (right, _) in zip(way(), expected):
        np.testing.assert_allclose(np.asarray(h), right, rtol=1e-4, atol=1e-5)
for _ in sys.stdin:
    took = []
    for name, way in ways.items():
        way()
        start = time.perf_counter()
        way()
        took.append(f"{name} {time.perf_counter() - start}")
    print(*took, flush=True)
