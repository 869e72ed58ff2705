#!/usr/bin/perl
# python_together.t - runs test/python/test_together.py, which says what it proves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;

DMIPython::run('test_together.py');
