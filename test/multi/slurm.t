#!/usr/bin/perl
# slurm.t - DMI programs under Slurm: the scripts of examples/slurm/, submitted as a user would, to a
# cluster of the test's own.
# Not in the small form: what it tests are scripts for Slurm.
# Mostly waits: for Slurm.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMISniffer;
use DMITest;
use DMISlurm;
use MIME::Base64 qw(encode_base64);
use Socket;

if (my $why = DMISlurm::missing()) { plan(skip_all => $why) }
DMISniffer::alone();
my $t = DMITest->new(timeout => ($ENV{DMI_TEST_SCALE} // '') eq 'soak' ? 400 : 150, wait => 40);
my $sniffer = $ENV{DMI_TEST_ALONE} ? DMISniffer->new($t->dir) : undef;
my $slurm = DMISlurm->new($t, nodes => 2);
my ($start, $join) = map { $t->top . "/examples/slurm/$_.sbatch" } qw(start join);
my ($nqueens, $joinleave) = map { $t->build . "/examples/${_}_dmi" } qw(nqueens joinleave);
my $contact = $slurm->dir . '/dmi.contact';
$ENV{PATH} = $t->build . "/bin:$ENV{PATH}";

sub submit { my ($name, @arguments) = @_; return $slurm->submit(\@arguments, name => $name) }

# The lines that its process showed, shortened.
sub shown { return join ' ', $_[0]->text =~ /^=== (\w+) ===$/mg }
my ($came, $went) = ('initialized joined opened', 'closed left finalized');

# Its last process leaves, and the job ends.
sub has_left {
  my ($job, $state, %opt) = @_;
  $job->expect(qr/^=== finalized ===$/m, $opt{seconds});
  is(shown($job), $opt{shown} // "$came $went", "$job->{name}: its process has left in order");
  is($job->wait_end, $state, "$job->{name}: state of the job");
  unlike($job->text, qr/^(?:dmimw|dmirun|dmi): (?!asking)/m, "$job->{name}: no complaints");
}

# Nothing to join: the job fails, and says why.
{
  my $early = submit('early', $join, $nqueens);
  is($early->wait_end, 'FAILED', 'a job that joins before there is a program fails');
  like($early->text, qr/^dmimw: n\d: .*\@dmi\.contact: No such file.*; the program has ended, or has not begun$/m,
    'and says so');
}

# One job: two tasks on one node, which share its processors and its memory, and one on the other.
{
  my $job = submit('alone', '-N2', '-n3', '--mem=300', $start, $nqueens, 12, 3);
  is($job->wait_end, 'COMPLETED', 'a job of three tasks has run to its end');
  like($job->text, qr/^12 queens: 14200 solutions/m, 'the result is right');
  is(() = $job->text =~ /^=== finalized ===$/mg, 3, 'three processes');
  ok(!-e $contact, 'its file is gone');
  my %nodes = map { $_ => 1 } $slurm->started($job);
  is(join(' ', sort keys %nodes), 'n1 n2', 'on both nodes');
}

# Two jobs, one program: SIGTERM makes the process of one leave, the program ends in the other.
{
  my ($n, $solutions) = (15, 2279184);    # long enough that it still runs when scancel has come
  my $first = submit('first', '-n1', '-w', 'n1', $start, $nqueens, $n, 2);
  $first->expect(qr/=== opened ===/);
  my $second = submit('second', '-n1', '-w', 'n2', $join, $nqueens);
  $second->expect(qr/=== opened ===/);
  $slurm->run('scancel', '--signal=TERM', $second->id);
  has_left($second, 'COMPLETED');
  is($first->wait_end, 'COMPLETED', 'first: state of the job');
  like($first->text, qr/^goodbye 1!\n(?:.*\n)*$n queens: $solutions solutions/m,
    'the program dismissed it, and went on to the right result');
}

# The other ways in which a job may end.  In the end the job that began the program is one of them.
{
  my $first = submit('begins', '-n1', '-w', 'n1', $start, $joinleave);
  $first->expect(qr/=== opened ===/);
  # One more beside it on the same node, and gone again.
  like($slurm->run('dmimw', '--add', 'n1'), qr/n1/, 'begins: grows by one process');
  like($slurm->run('dmimw', '--status'), qr{^n1/2 .*opened}m, 'begins: has two');
  $slurm->run('dmimw', '--remove', 'n1/2');
  $first->expect(qr/^=== finalized ===$/m);
  my $joiner = sub {
    my ($name, @arguments) = @_;
    my $job = submit($name, '-n1', '-w', 'n2', @arguments ? @arguments : ($join, $joinleave));
    $job->expect(qr/=== opened ===/);
    return $job;
  };
  my $cancelled = $joiner->('cancelled');
  $slurm->run('scancel', $cancelled->id);
  has_left($cancelled, 'CANCELLED');
  # Without dmimw: srun alone.
  my $plain = submit('srun', '-n2', '-w', 'n2', '--wrap',
    "exec srun dmirun -l 0 -i \@$contact $joinleave");
  $plain->expect(qr/=== opened ===/) for 1, 2;
  $slurm->run('scancel', '--signal=TERM', $plain->id);
  is($plain->wait_end, 'COMPLETED', 'srun: state of the job');
  is(() = $plain->text =~ /^=== left ===$/mg, 2, 'srun: both of its processes have left');
  # It has time to leave in (GraceTime of its partition), and then has ended by itself.
  my $preempted = $joiner->('preempted');
  my $urgent = submit('urgent', '-p', 'urgent', '-w', 'n2', '--exclusive', '--wrap', 'echo now');
  has_left($preempted, 'COMPLETED');
  $urgent->expect(qr/^now$/m);
  $urgent->wait_end;
  # Limits are whole minutes, looked at twice in a minute: for the long form.
  if ($t->scale eq 'soak') {
    has_left($joiner->('warned', '--time=1', $join, $joinleave), 'COMPLETED', seconds => 120);
    has_left($joiner->('too long', '--time=1', '--wrap', "exec dmimw -i \@$contact $joinleave"),
      'TIMEOUT', seconds => 150);
  }
  $slurm->run('scancel', '--batch', '--signal=TERM', $first->id);
  has_left($first, 'COMPLETED', shown => "$came $came $went $went");
  ok(!-e $contact, 'the file is gone');
}

# The key: each process has it, though the nodes have no such file (only this dmimw has the
# descriptor); then munge brings it.  And in no case can it be read on the network.
{
  my $other = $t->dir . '/other-key';
  DMITest::write_key($other);
  my $job = submit('munge', '-n2', '--wrap',
    "exec 9< $other; exec dmimw --tag --key /proc/self/fd/9 $joinleave");
  $job->expect(qr/=== opened ===/) for 1, 2;
  $slurm->run('scancel', '--batch', '--signal=TERM', $job->id);
  is($job->wait_end, 'COMPLETED', 'munge: state of the job');
  is(() = $job->text =~ /=== finalized ===$/mg, 2, 'munge: two processes');
  unlike($job->text, qr/^(?:dmimw|dmirun|dmi): (?!asking)/m, 'munge: no complaints');
SKIP: {
    skip('nobody can listen on the network here: ' . (DMISniffer::missing() // 'no namespace'), 14)
      unless $sniffer;
    my %planted = planted(my $key = join '', map { chr int rand 256 } 1 .. 32);
    my $heard = $sniffer->stop;
    diag(sprintf 'heard %.1f MB', length($heard) / 1e6);
    my %found = map { $_ => 1 } DMISniffer::found($heard, $key);
    ok($found{$_}, "a key on the network is found as $_") for sort keys %planted;
    for my $file ($t->key_file, $other) {
      open my $in, '<', $file or die "$file: $!\n";
      is_deeply([DMISniffer::found($heard, pack 'H64', <$in>)], [], 'no part of the key is heard');
    }
  }
}
$slurm->stop;
$t->done;

# Sends a key in all forms in which it could travel; returns their names.
sub planted {
  my ($key) = @_;
  my %form = (raw => $key, hex => unpack('H*', $key), 'upper-case hex' => uc unpack 'H*', $key);
  for my $name (keys %form) {
    $form{"base64 of $name behind $_"} = encode_base64('x' x $_ . $form{$name}, '') for 0 .. 2;
  }
  socket my $socket, AF_INET, SOCK_DGRAM, 0 or die "no socket: $!\n";
  my $to = pack_sockaddr_in(9, INADDR_LOOPBACK);    # discard
  defined send $socket, $_, 0, $to or die "cannot send: $!\n" for values %form;
  return %form;
}
