#!/usr/bin/perl
# contact.t - dmirun --contact FILE and -i @FILE: a program is found wherever it runs by now.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use IO::Socket::INET;
use Sys::Hostname;

my $t = DMITest->new(timeout => 60, wait => 20);
my $program = $t->compile('test/multi/end_dmi.c');
my $file = $t->dir . '/contact';

sub content { open my $in, '<', $file or return ''; local $/; return <$in> // '' }
sub put { my ($text) = @_; open my $out, '>', $file or die; print $out $text; close $out or die }

# A process that joins by the file, and nothing else.
sub joiner {
  my ($name, %opt) = @_;
  return $t->start($program, name => $name, opts => ['-i', "\@$file"], %opt);
}

# Waits for what the file is to say; `event` is a process that has just said what follows it.
sub file_says {
  my ($process, $what) = @_;
  my $line = hostname() . ' ' . $process->port . "\n";
  # Nothing tells when a file changes.
  $t->wait_looking(sub { return content() eq $line }, $what);
}

{
  my $first = $t->start($program, args => ['first'], name => 'first', opts => ['--contact', $file]);
  file_says($first, 'the first process says where it is');
  my $second = joiner('second');
  $first->expect_out(qr/^returning$/m);
  $second->expect_event('opened');
  is(content(), hostname() . ' ' . $first->port . "\n", 'one that joins leaves the file alone');
  $first->signal('TERM');
  $second->expect_out(qr/^first one gone$/m);
  $first->wait_exit(0);
  file_says($second, 'who takes its part over says so in the file');
  my $third = joiner('third');
  $third->expect_out(qr/^a thread goes on$/m);
  $_->wait_exit(0) for $second, $third;
  ok(!-e $file, 'the end of the program removes the file');
}

# The one that the file tells of leaves just now: by then the file tells of another one.
{
  my $first = $t->start($program, args => ['return', 1], name => 'first',
    opts => ['--contact', $file]);
  file_says($first, 'a second program');
  my $true = content();
  my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die;
  put('127.0.0.1 ' . $socket->sockport . "\n");
  my $late = joiner('late');
  my $peer = $socket->accept;    # it has read the file
  put($true);
  close $_ for $peer, $socket;
  $_->wait_exit(0) for $first, $late;
  is(scalar $late->events('joined'), 1, 'a joiner looks again before it gives up');
}

put("elsewhere 7880\n");
{
  my $first = $t->start($program, args => ['return', 0], name => 'first',
    opts => ['--contact', $file]);
  $first->wait_exit(0);
  ok(!-e $file, 'the file of an earlier program is replaced');
}
{
  my $first = $t->start($program, args => ['return', 1], name => 'first',
    opts => ['--contact', $file]);
  file_says($first, 'a program whose file is taken from it');
  my $port = $first->port;
  put("elsewhere 7880\n");
  $t->start($program, join => $first, name => 'second')->wait_exit(0);
  $first->wait_exit(0);
  is(content(), "elsewhere 7880\n", 'the file of another program is left alone');
}

# Wrong ones: one line.
sub refused {
  my ($status, $line, $what, %opt) = @_;
  my $process = joiner($what, %opt);
  $process->wait_exit($status);
  my @lines = grep { !/^===/ } split /\n/, $process->err;
  is(scalar @lines, 1, "$what: one line");
  like($lines[0], $line, "$what: it says why");
}
unlink $file;
refused(2, qr/^dmirun: -i \@\S+: No such file.*the program has ended/, 'no file');
for my $text ('', "\n", "nonsense\n", "host 0\n", "host 65536\n", "host port\n", "x" x 5000) {
  put($text);
  refused(1, qr/^dmi: \S+ does not say where/, 'text "' . substr($text =~ s/\n//r, 0, 10) . '"');
}
my $free = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die;
put('127.0.0.1 ' . $free->sockport . "\n");
close $free;
refused(1, qr/^dmi: .*127\.0\.0\.1/, 'a file left behind');
refused(2, qr/^dmirun: -p 1: the file/, '-p with a file',
  opts => ['-i', "\@$file", '-p', 1]);

# What others have put where the file is written first is not followed: DMI_PORT_FILE, once by the
# process number.
my $own = $t->dir . '/own';
put("precious\n");
rename $file, $own or die;
my $port_file = $t->dir . '/port';
my $trapped = $t->spawn(['/bin/sh', '-c', 'ln -s "$0" "$DMI_PORT_FILE.$$" && exec "$@"', $own,
    $t->build . '/bin/dmirun', -l => 0, $program, 'return', 0], name => 'trapped',
  env => { DMI_PORT_FILE => $port_file });
$trapped->wait_exit(0);
rename $own, $file or die;
is(content(), "precious\n", 'a file of ours that a link names is left alone');
is(do { open my $told, '<', $port_file or die "$port_file: $!"; <$told> }, $trapped->port . "\n",
  'and the port is told');
is_deeply([grep { !-l } glob "$port_file.*"], [], 'nothing else stays behind');
$t->done;
