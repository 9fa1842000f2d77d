"""Writes digits.npz and digits-test.npz: python make_digits.py. Needs the packages scikit-learn and numpy."""
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
is_test = np.arange(len(digits.target)) % 5 == 4
for name, rows in [("digits.npz", ~is_test), ("digits-test.npz", is_test)]:
    pixels, digit = digits.images[rows].astype(np.uint8), digits.target[rows].astype(np.int32)
    np.savez_compressed(name, pixels=pixels, digit=digit)
