#!/usr/bin/perl
# check.t - dmirun --check: what it tells is what a process uses, each thing that cannot work is one
# line that names the option and makes the status 1, and a program that is asked does not notice.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 60);
my $program = $t->compile('test/multi/advertise_dmi.c');
my $other = $t->compile('test/multi/bind_dmi.c');
my $dmirun = $t->build . '/bin/dmirun';

# Runs it; returns its status and stdout.
sub check {
  my ($of, @options) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  open my $pipe, '-|', $dmirun, '--check', @options, $of or die "dmirun: $!\n";
  my $out = do { local $/; <$pipe> } // '';
  close $pipe;
  return ($? >> 8, $out);
}

my ($status, $out) = check($program, qw(-l 0 -s 16M));
is($status, 0, 'alone: it would work') or diag($out);
like($out, qr/^ok +program +\S+, build [0-9a-f]{8}$/m, 'the program');
like($out, qr/^ok +cores +\d+ of \d+/m, 'cores');
like($out, qr/^ok +memory +\d+ MiB of \d+ MiB for pages \(-s\)$/m, 'memory');
like($out, qr/^ok +listen +port [1-9]\d* .*\(-l, --bind\)$/m, 'port');
like($out, qr/^ok +key +\S+\/key \(--key\)/m, 'key');
like($out, qr/^(?:ok|note) +name +\S+ \(this machine's own name\)/m, 'name');
like($out, qr/^ok +join +nothing: .*-i HOST/m, 'nobody to join');
like((check($program, qw(-l 0 -s 64T)))[1], qr/^note +memory .*67108864 MiB.*: use a smaller -s$/m,
  'more memory than there is');
like((check($program, qw(-l 0 --bind-threads)))[1], qr/^ok +cores .*--bind-threads/m, 'binding');
{
  my $dir = $t->dir;
  my @options = map { ("--$_", "$dir/$_") } qw(trace events profile contact);
  ($status, $out) = check($program, qw(-l 0), @options, '--spill', $dir);
  is($status, 0, 'files that can be made') or diag($out);
  like($out, qr/^ok +file +\Q$dir\E\/$_ can be written \(--$_\)$/m, "--$_") for qw(trace events profile contact);
  like($out, qr/^ok +file +pages can be written to a file in \Q$dir\E \(--spill\)$/m, '--spill');
  is_deeply([grep { -e "$dir/$_" } qw(trace events profile contact)], [], 'and none is made');
  @options = map { ("--$_", "$dir/none/$_") } qw(trace events profile contact);
  ($status, $out) = check($program, qw(-l 0), @options, $> ? () : ('--spill', '/proc'));
  is($status, 1, 'those that cannot') or diag($out);
  for my $name (qw(trace events profile contact)) {
    like($out, qr/^FAILED +file +cannot write \Q$dir\E\/none\/$name \(--$name\): there is no directory \Q$dir\E\/none$/m, "--$name");
  }
  like($out, qr/^FAILED +file +cannot make a file in \/proc \(--spill\): .+$/m, '--spill') unless $>;    # dmirun tells others itself
  like($out, qr/^ok +join/m, 'and the rest is tried');
}
# Links: a program that writes to one makes the file that it names.
{
  my $dir = $t->dir . '/links';
  mkdir $_ or die "$_: $!\n" for $dir, "$dir/sub";
  my %target = (relative => 'sub/new', absolute => "$dir/new", again => 'sub/back', 'sub/back' => '../new', missing => 'none/new', one => 'other', other => 'one');
  symlink $target{$_}, "$dir/$_" or die "$_: $!\n" for keys %target;
  for my $name (qw(relative absolute again)) {
    ($status, $out) = check($program, qw(-l 0 --trace), "$dir/$name");
    like("$status $out", qr/^0 .*^ok +file +\Q$dir\E\/$name can be written \(--trace\)$/ms, "a link to a file that is not there: $name");
  }
  is_deeply([grep { -e "$dir/$_" } qw(new sub/new)], [], 'which is not there afterwards');
  is(scalar(grep { -l "$dir/$_" } keys %target), scalar keys %target, 'but the links are');
  for my $wrong ([missing => 'No such file or directory'], [one => 'Too many levels of symbolic links']) {
    my ($name, $why) = @$wrong;
    ($status, $out) = check($program, qw(-l 0 --trace), "$dir/$name");
    like("$status $out", qr/^1 .*^FAILED +file +cannot write \Q$dir\E\/$name \(--trace\): $why$/ms, "a link that leads to no file: $name");
  }
}
unlike($out, qr/verdict|===/, 'the program itself does not run');

# A program that waits for others, one of which it never gets.
my $first = $t->start($program, name => 'first', env => { DMI_LOG => 'info' });
$first->expect_event('opened');
my $port = $first->port;
my @join = ('-i', '127.0.0.1', '-p', $port, '-l', 0);
($status, $out) = check($program, @join);
is($status, 0, 'a process to join: it would work') or diag($out);
like($out, qr/^ok +join +127\.0\.0\.1 port $port \(-i, -p\): /m, 'it answers');
($status, $out) = check($other, @join);
is($status, 1, 'with another executable it would not');
like($out, qr/^FAILED +join .*same executable/m, 'says so');
($status, $out) = check($program, '-l', $port, '-i', '127.0.0.1', '-p', $port);
is($status, 1, 'a port in use');
like($out, qr/^FAILED +listen +port $port is in use.*-l PORT.*\n(?:ok|note) +name .*\nok +join .*\n\z/m,
  'says so, and the option, and tries the rest by another port');
($status, $out) = check($program, @join, '--key', '/dev/null');
is($status, 1, 'no key');
like($out, qr/^FAILED +key .*--key.*\nok +listen .*\n(?:ok|note) +name .*\nnot tried: join\n\z/m,
  'says so, and tries what needs none');
($status, $out) = check($program, @join, '--bind', '192.0.2.1', '--advertise', 'no.such.host.invalid');
is($status, 1, 'several things');
like($out, qr/^FAILED +name .*no\.such.*\n(?:.*\n)*FAILED +listen .*192\.0\.2\.1.*\nnot tried: join\n\z/m,
  'says them all');

my $silent = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
my $free = $silent->sockport;
close $silent;
($status, $out) = check($program, qw(-i 127.0.0.1 -l 0 -p), $free);
is($status, 1, 'nobody there');
like($out, qr/^FAILED +join .*port $free.*-i HOST and -p PORT/m, 'says so, and the options');
($status, $out) = check($program, qw(-l 0 -i no.such.host.invalid));
like("$status $out", qr/^1 .*^FAILED +join .*no\.such\.host\.invalid.*-i/ms, 'no such host');
($status, $out) = check($program, qw(-l 0 --advertise no.such.host.invalid));
like("$status $out", qr/^1 .*^FAILED +name .*no\.such\.host\.invalid.*--advertise/ms, 'no such name');
# An address for documentation, which is nobody's.
($status, $out) = check($program, qw(-l 0 --advertise 192.0.2.1));
like("$status $out", qr/^1 .*^FAILED +name +192\.0\.2\.1 .*--advertise can name another$/ms, 'not here');
($status, $out) = check($program, qw(-l 0 --advertise 127.0.0.9));
like("$status $out", qr/^0 .*^note +name +127\.0\.0\.9 \(--advertise\)/ms, 'here, for this machine only');

# None of this has disturbed it: two join, and it ends as it should.
my @others = map { $t->start($program, join => $first) } 1, 2;
$first->expect_out(qr/verdict advertise: \d+ checks, 0 failed/);
$_->wait_exit(0) for $first, @others;
like($first->out, qr/^node 2 /m, 'they got the ids 1 and 2: nobody else was ever a member');
unlike($first->err, qr/ member 4 /, 'nor asked');
$t->done;
