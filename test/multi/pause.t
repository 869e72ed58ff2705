#!/usr/bin/perl
# pause.t - while a process hands over 256 MiB of pages and leaves, another goes on reading them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 40);
my $program = $t->compile('test/multi/pause_dmi.c');

my $first = $t->start($program, args => [$t->scale eq 'small' ? 32 : 256]);
my $second = $t->start($program, join => $first);
$second->expect_event('opened');    # so that it is the one that leaves
my $third = $t->start($program, join => $first);
$first->expect_out(qr/^leave now$/m);
$second->signal('INT');
my ($pages, $took, $reads) =
  $first->expect_out(qr/^leave: (\d+) MiB in (\d+) us, (\d+) reads meanwhile$/m);
cmp_ok($reads, '>', 0, "reads were completed while the pages moved ($reads)");
my ($before, $during) =
  $first->expect_out(qr/^longest read: (\d+) us before, (\d+) us during the leave$/m);
# Times depend on the machine and its other work: shown, not judged.
note(sprintf '%d MiB left in %.0f ms; longest read %.1f ms, before %.1f ms', $pages, $took / 1000,
  $during / 1000, $before / 1000);
is(scalar $first->expect_out(qr/^verdict pause: \d+ checks, (\d+) failed$/m), 0,
  'all bytes right, wherever they were');
$_->wait_exit(0) for $first, $second, $third;
unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for $first, $second, $third;
$t->done;
