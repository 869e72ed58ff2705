#!/usr/bin/perl
# python_program.t - runs test/python/test_program.py, which says what it proves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;

DMIPython::run('test_program.py');
