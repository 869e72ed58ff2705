#!/usr/bin/perl
# unset.t - objects whose bytes nobody has set, those of another process, and those that were
# destroyed: each call fails at once, and --on-error says which of these it is.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/unset_dmi.c');
my @all = map { { name => $_, opts => ['--on-error', 'print'] } } qw(first second);
my $first = $t->start($program, %{ $all[0] });
my $second = $t->start($program, %{ $all[1] }, join => $first);
$first->expect_verdict('unset', 500, $second);

# All that a process says about local objects: "the group has been destroyed" => how often.
sub reasons {
  my ($process, $kind) = @_;
  my %reasons;
  $reasons{$_}++ for $process->err =~ /DMI_EINVAL: (the \Q$kind\E .*)$/mg;
  return \%reasons;
}
my %calls = ('local barrier' => 4, group => 3, 'local set' => 3);
my %init = ('local barrier' => 'DMI_local_barrier_init', group => 'DMI_group_init', 'local set' => 'DMI_local_rwset_init');
for my $kind (sort keys %calls) {
  my $never = "the $kind was never initialised ($init{$kind})";
  is_deeply(reasons($first, $kind), { $never => $calls{$kind} * 10, "the $kind has been destroyed" => $calls{$kind} },
    "$kind: unset, or destroyed");
  is_deeply(reasons($second, $kind), { "the $kind was initialised in another process ($init{$kind})" => $calls{$kind} },
    "$kind: of another process");
}
unlike($_->err, qr/failed with .*(?:, or | or has )/, $_->name . ': no reason is a list') for $first, $second;
$t->done;
