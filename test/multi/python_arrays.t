#!/usr/bin/perl
# python_arrays.t - runs test/python/test_arrays.py, which says what it proves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;

DMIPython::run('test_arrays.py');
