#!/usr/bin/env python3
"""The Mandelbrot set, computed by machines that come and go; the picture is that of mandel_dmi.c.

dmirun python3 mandel.py 480 480 480 1000 0      starts the program
dmirun -i HOST python3 mandel.py                 joins it, at any time, from anywhere
Ctrl+C                                           leaves it, at any time

Arguments: width height tasks max_iterations wait.  wait 1 waits for Enter before the first task.  The first
process writes mandelbrot.png.  Python runs one thread of a process at a time: dmirun -n 4 uses four cores.
"""
import math
import struct
import sys
import zlib

import dmi
import numpy as np


def begin(job, task):
    """First pixel of a task; for task == tasks, the number of pixels."""
    width, height, tasks, _ = job
    return width * height * task // tasks


@dmi.task(result_bytes=30000)
def iterations(task, job):
    """For each pixel of a task the steps until the orbit of 0 leaves the circle of radius 2."""
    width, height, _, most = job
    pixel = np.arange(begin(job, task), begin(job, task + 1))
    step = 3.0 / min(width, height)
    cx = (pixel % width - 0.5 * (width - 1)) * step - 0.75
    cy = -(pixel // width - 0.5 * (height - 1)) * step
    counts = np.full(len(pixel), most, np.int32)
    x, y, left = np.zeros_like(cx), np.zeros_like(cx), np.arange(len(pixel))
    for n in range(most):
        inside = x * x + y * y <= 4
        if not inside.all():  # go on with those that have not left
            counts[left[~inside]] = n
            x, y, cx, cy, left = x[inside], y[inside], cx[inside], cy[inside], left[inside]
        x, y = x * x - y * y + cx, 2 * x * y + cy
    print(task, end=" ", flush=True)
    return counts


def palette():
    """Entry 0 is the set itself; the others are a ring of colours without a seam."""
    stops = [(0, 7, 100), (32, 107, 203), (237, 255, 255), (255, 170, 0), (96, 16, 32), (0, 7, 100)]
    colours = [(0, 0, 0)]
    for i in range(255):
        leg, part = divmod(i * 5, 255)
        colours.append([a + int((b - a) * part / 255) for a, b in zip(stops[leg], stops[leg + 1])])
    return np.array(colours, np.uint8)


def write_png(name, width, height, pixels):
    """A picture of bytes that are numbers of colours."""
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = np.insert(pixels.reshape(height, width), 0, 0, axis=1)
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
                   + part(b"PLTE", palette().tobytes()) + part(b"IDAT", zlib.compress(rows.tobytes()))
                   + part(b"IEND", b""))


def main():
    if len(sys.argv) != 6:
        sys.exit(f"usage: {sys.argv[0]} width height tasks max_iterations wait")
    width, height, tasks, most, wait = map(int, sys.argv[1:])
    job = (width, height, tasks, most)
    if wait:
        input("press Enter to continue ...\n")
    counts = np.concatenate(list(iterations.farm(tasks, job, event=dmi.print_event)))
    pixels = 1 + (40 * np.sqrt(counts)).astype(np.int64) % 255
    pixels[counts == most] = 0
    write_png("mandelbrot.png", width, height, pixels.astype(np.uint8))
    print("\nwrote mandelbrot.png")


dmi.run(main)
