#!/usr/bin/perl
# pressure.t - mappings larger than what one process lends (docs/replacement.md).
#
# pressure_dmi says what each case does; here are the processes that it needs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $scale = $ENV{DMI_TEST_SCALE} // '';
my $small = $scale eq 'small';
my $t = DMITest->new(timeout => $scale eq 'soak' ? 1800 : 120, wait => $scale eq 'soak' ? 300 : 60);
my $program = $t->compile('test/multi/pressure_dmi.c');

# `number` processes for a case, each of which lends `pool`; the second has been welcomed before
# the third comes.
sub start {
  my ($case, $number, $pool, @args) = @_;
  my @all;
  for my $i (1 .. $number) {
    push @all, $t->start($program, name => "$case $i", opts => [-s => ref $pool ? @$pool : $pool],
      $i > 1 ? (join => $all[0]) : (args => [$case, $number, @args]));
    $all[-1]->expect_event('opened') if $i > 1;
  }
  return @all;
}

sub finish {
  my ($case, @all) = @_;
  is(scalar $all[0]->expect_out(qr/^verdict pressure: \d+ checks, (\d+) failed$/m), 0,
    "$case: all checks hold");
  $_->wait_exit(0) for @all;
  unlike($_->out, qr/^FAIL/m, $_->name . ' complains of nothing') for @all;
}

sub fill {
  my ($pool, @args) = @_;
  my @all = start('fill', 4, $pool, @args);
  $all[0]->expect_out(qr/^change now$/m);
  $all[1]->signal('INT');
  push @all, $t->start($program, name => 'fill 5', opts => [-s => $pool], join => $all[2]);
  finish("fill @args", @all);
}

sub full {
  my ($pool, $number, @args) = @_;
  finish("full @args", start('full', $number, $pool, @args));
}

sub leave {
  my ($pool, @args) = @_;
  my @all = start('leave', 2, [$pool, qw(--on-error print)], @args);
  $all[0]->expect_out(qr/^leave now$/m);
  $all[1]->signal('INT');
  finish("leave @args", @all);
  my $why = qr/the other processes have no memory for the pages of process 1; its DMI_CLOSE comes again/;
  my $said = () = $all[0]->err =~ /DMI_goodbye\(process 1\) failed with DMI_ENOMEM: $why/g;
  my $failed = () = $all[0]->err =~ /failed with DMI_/g;
  cmp_ok($said, '>=', 2, 'goodbye says why');
  is($said, $failed, 'and nothing else fails');
}

sub spill {
  my ($pool, $number, @args) = @_;
  my $dir = $t->dir;
  finish("spill @args", start('spill', $number, [$pool, '--spill', $dir], @args));
  opendir my $list, $dir or die "$dir: $!";
  is_deeply([grep { /spill/ } readdir $list], [], 'the file has no name');
}

sub held {
  my ($pool, @args) = @_;
  finish("held @args", start('held', 1, $pool, @args));
}

# The first lends little, and reads what the second has.
sub save {
  my ($little, $much, @args) = @_;
  my $first = $t->start($program, name => 'save 1', opts => [-s => $little], args => ['save', 2, @args]);
  my $second = $t->start($program, name => 'save 2', opts => [-s => $much], join => $first);
  finish('save', $first, $second);
}

# The file of --spill is on a disk that is smaller than what is to go there: a tmpfs that only the
# process sees, and that goes with it.
sub full_disk {
  my ($pool, $disk, @args) = @_;
  my $dir = $t->dir . '/disk';
  mkdir $dir or die "$dir: $!";
  my $mount = 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"';
  my @in_it = ('unshare', '-m', 'sh', '-c', $mount, $disk, $dir);
  my $can = !DMINodes::wanted && $> == 0
    && system("@in_it[0 .. 3] '$mount' $disk $dir true 2> /dev/null") == 0;
  SKIP: {
    skip 'a small disk takes root, its capabilities, and a process of its own', 1 unless $can;
    my $one = $t->spawn([@in_it, "$t->{build}/bin/dmirun", -l => 0, -s => $pool, '--spill', $dir,
      $program, 'full', 1, @args], name => 'full disk');
    finish('full disk', $one);
    like($one->err, qr/^dmi: cannot write to the file for spilled pages .*: No space left on device$/m,
      'it says that the disk is full');
    my ($pages) = $one->out =~ /^full: (\d+) MiB written/m;
    cmp_ok($pages, '>', $pool =~ /(\d+)/ && $1, 'the disk took some');
  }
}

# The file of --spill may only become so many KiB large: the user's ulimit -f.
sub limited {
  my ($pool, $kib, @args) = @_;
  SKIP: {
    skip 'a limit is of a process of its own', 1 if DMINodes::wanted;
    my $one = $t->spawn(['/bin/sh', '-c', 'ulimit -f "$0" && exec "$@"', 2 * $kib, "$t->{build}/bin/dmirun", -l => 0,
      -s => $pool, '--spill', $t->dir, $program, 'full', 1, @args], name => 'limited');
    finish('limited', $one);
    like($one->err, qr/^dmi: cannot write to the file for spilled pages .*: File too large \(ulimit -f allows no more\)$/m,
      'it says that the file may not become larger');
    my ($pages) = $one->out =~ /^full: (\d+) MiB written/m;
    cmp_ok($pages, '>', $pool =~ /(\d+)/ && $1, 'the file took some');
  }
}

# 4 processes of 64 MiB each; a tenth of it where sanitizers make it slow.
if ($t->quick) {
  fill('2M', 6, 32);
  full('2M', 4, 10, 32);
  leave('4M', 3, 64);
  spill('1M', 2, 4, 32);
  save('1M', '8M', 4, 16);
  held('4M', 3, 16);
} elsif ($small) {
  fill('8M', 24, 16);
  full('8M', 4, 38, 16);
  leave('8M', 6, 16);
  spill('4M', 2, 16, 16);
  full_disk('4M', '3m', 16, 16);
  limited('4M', 3 << 10, 16, 16);
  save('2M', '16M', 8, 16);
  held('4M', 3, 16);
} else {
  fill('64M', 200, 64);
  full('64M', 4, 300, 64);
  full('1M', 2, 3, 4);
  leave('64M', 45, 64);
  spill('8M', 2, 40, 16);
  full_disk('8M', '6m', 40, 16);
  limited('8M', 6 << 10, 40, 16);
  save('8M', '64M', 40, 16);
  held('8M', 7, 64);
}
if ($scale eq 'soak') {
  for (1 .. 10) {
    fill('64M', 200, $_ % 2 ? 4 : 1024);
    full('64M', 4, 300, 4);
    leave('64M', 45, 4);
    fill('16M', 50, 1);
    spill('8M', 3, 100, 4);
  }
}
$t->done;
