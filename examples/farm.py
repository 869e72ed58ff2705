#!/usr/bin/env python3
"""A farm of tasks: any function, called for many numbers, by machines that come and go.

dmirun -n 4 python3 farm.py 500               four processes here: one for each core
dmirun -i HOST python3 farm.py                one more, from anywhere, at any time

It looks for Mersenne primes, 2^p - 1 for p below the argument.  A second argument is the number of processes with
which it begins (1).
"""
import sys

import dmi


@dmi.task
def is_mersenne_prime(p):
    """The test of Lucas and Lehmer."""
    if p < 2 or any(p % d == 0 for d in range(2, int(p ** 0.5) + 1)):
        return False
    number, s = (1 << p) - 1, 4
    for _ in range(p - 2):
        s = (s * s - 2) % number
    return p == 2 or s == 0


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    results = is_mersenne_prime.farm(limit, processes=processes, event=dmi.print_event)
    print("2^p - 1 is prime for p =", *(p for p, prime in enumerate(results) if prime))
    print(f"{limit} tasks, {results.failed} have failed, {results.seconds:.3f} s")


dmi.run(main)
