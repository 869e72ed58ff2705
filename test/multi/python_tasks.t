#!/usr/bin/perl
# python_tasks.t - runs test/python/test_tasks.py, which says what it proves.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMIPython;

DMIPython::run('test_tasks.py');
