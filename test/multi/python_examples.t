#!/usr/bin/perl
# python_examples.t - runs test/python/test_examples.py, which says what it proves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;

DMIPython::run('test_examples.py');
