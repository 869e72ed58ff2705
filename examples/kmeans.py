#!/usr/bin/env python3
"""k-means: divides many points among a few clusters, with machines that come and go.

dmirun python3 kmeans.py 1000000 8 16         a million points of 8 coordinates, 16 clusters
dmirun -i HOST python3 kmeans.py              joins it, at any time, from anywhere
Ctrl+C                                        leaves it, at any time
dmirun --survive python3 kmeans.py ...        any but the first may also be killed

Arguments: points, coordinates, clusters, iterations at most (100), pieces (64), processes with which it begins (1).
It computes what kmeans_dmi.c does, in the same way: points stay in the process that has made them, and calls go
there.  All numbers are whole, so the results are the same to the last bit.
"""
import sys
import time

import dmi
import numpy as np


def mix(x):
    """The finalizer of SplitMix64; of 64 bits, as uint64 wraps around."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
    return x ^ x >> np.uint64(31)


def points_from(first, end, dims, clusters):
    """Points, each around a random place of one of the clusters."""
    i, j = np.arange(first, end, dtype=np.uint64)[:, None], np.arange(dims, dtype=np.uint64)
    cluster = mix(i + np.uint64(1)) % np.uint64(clusters)
    place = mix((np.uint64(1) + cluster * np.uint64(dims) + j) << np.uint64(40)) % np.uint64(49152)
    r = mix((i * np.uint64(dims) + j) << np.uint64(8) | np.uint64(1))
    near = sum(r >> np.uint64(shift) & np.uint64(0xfff) for shift in (0, 12, 24, 36))
    return (place + near).astype(np.int32)


@dmi.remote(result_bytes=lambda first, end, dims, clusters: (end - first) * dims * 4 + 500)
def make_points(first, end, dims, clusters):
    return points_from(first, end, dims, clusters)


@dmi.remote(result_bytes=10000)
def add_up(points, centres):
    """For each cluster the sums of its points and their number; and the sum of the squares of the distances."""
    squares = np.stack([((points - centre).astype(np.int64) ** 2).sum(axis=1) for centre in centres])
    best = squares.argmin(axis=0)
    sums = np.array([points[best == c].sum(axis=0, dtype=np.int64) for c in range(len(centres))])
    return sums, np.bincount(best, minlength=len(centres)), int(squares.min(axis=0).sum())


def main():
    if not 4 <= len(sys.argv) <= 7:
        sys.exit(f"usage: {sys.argv[0]} points coordinates clusters [iterations [pieces [processes]]]")
    num, dims, clusters, most, pieces, processes = map(int, sys.argv[1:] + "100 64 1".split()[len(sys.argv) - 4:])
    dmi.client(processes)
    start = time.monotonic()
    points = [make_points(num * p // pieces, num * (p + 1) // pieces, dims, clusters) for p in range(pieces)]
    centres = points_from(0, clusters, dims, clusters)  # the first points
    for done in range(1, most + 1):
        parts = dmi.gather([add_up(piece, centres) for piece in points])
        sums, counts, squares = (sum(part[k] for part in parts) for k in range(3))
        if done == 1:
            print("begins with sum of squares", squares)
        before = centres
        centres = np.where(counts[:, None] > 0, sums // np.maximum(counts, 1)[:, None], centres).astype(np.int32)
        if (centres == before).all():
            break
    print(f"{done} iterations: {time.monotonic() - start:.3f} s, sum of squares {squares}")
    hashed = np.array([squares], np.uint64)
    for count, centre in zip(counts, centres):
        print(count, "points at", *centre)
        for number in (count, *centre):
            hashed = mix(hashed ^ np.uint64(number))
    print(f"checksum {int(hashed[0]):016x}")


dmi.run(main)
