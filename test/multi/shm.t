#!/usr/bin/perl
# shm.t - processes of one host that have --shm talk by shared memory, others by TCP; and dmirun
# --status says which it is.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use JSON::PP ();
use POSIX qw(WUNTRACED);

my $t = DMITest->new(timeout => 110, wait => 60);
my $program = $t->compile('test/multi/see_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';
delete $ENV{DMI_SHM};

# What the first process says of itself, as `dmirun --json` prints it.
sub look {
  my ($process, @options) = @_;
  my $look = $t->spawn([$dmirun, @options, '127.0.0.1:' . $process->port], name => 'look');
  $look->wait_exit(0);
  return $look->out;
}

# Two processes with these options of dmirun each: what they say of their connection.
sub over {
  my ($what, $wanted, $shared, @options) = @_;
  my $first = $t->start($program, args => ['barrier'], opts => ['--dead-after', 0, @{ $options[0] }], name => "$what 0");
  my $second = $t->start($program, join => $first, opts => $options[1], name => "$what 1");
  $second->expect_event('opened');
  $first->expect_out(qr/^begins (\d+)$/m);
  my $all = JSON::PP::decode_json(look($first, '--json'));
  for my $member (@{ $all->{members} }) {
    my @over = map { $_->{over} // () } @{ $member->{peers} };
    is("@over", $wanted, "$what: process $member->{process} says so");
    is("$member->{process_now}{shared} of $member->{process_now}{connections}", "$shared of 1", 'and counts them');
  }
  like(look($first, '--status'), qr{^1 .* $shared/1 }m, 'people see it');
  for my $process ($first, $second) { # neither ends because the other one does
    $process->signal('STOP');
    waitpid $process->pid, WUNTRACED;
  }
  $_->kill_now for $first, $second;
  $_->wait_exit(signal => 'KILL') for $first, $second;
  return;
}

over('shared', 'shared memory', 1, ['--shm'], ['--shm']);
over('joiner does not', 'TCP', 0, ['--shm'], []);
over('first does not', 'TCP', 0, [], ['--shm']);
over('sealed', 'shared memory', 1, ['--shm', '--encrypt'], ['--shm']);
over('neither', 'TCP', 0, [], []);
$t->done;
