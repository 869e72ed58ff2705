# Several.pm - dmirun -n and --hosts: several processes of a program, started and ended by one command,
# as dmimw does it.
package DMI::Several;

use strict;
use warnings;
use DMI::Key;
use DMI::Launch;
use DMI::NodeFile;

# Options that are dmirun's own here; those for the first process only: its port and address, what is
# served there, and what it writes of all of them (who joins a process with --bind listens likewise); and
# those for each process.
my %own = map { $_ => 1 } qw(n hosts tag i p contact key key-fd grace);
my %first = map { $_ => 1 } qw(l ox bind advertise web trace);
my %each = map { $_ => 1 } qw(s spill bind-threads on-error encrypt no-shm survive dead-after trust-refused events profile spin);

# True if it is known who gets this option.
sub knows { my ($name) = @_; return $own{$name} || $first{$name} || $each{$name} }

# The lines of a node file that say the same.
sub _lines {
  my ($opt, $specs) = @_;
  my $count = DMI::Launch::number($opt, 'n', 1);
  my @hosts = defined $opt->{hosts} ? split /,/, $opt->{hosts}, -1 : 'localhost';
  my @lines = eval { DMI::NodeFile->spread($count // scalar @hosts, @hosts) }
    or die '--hosts ' . ($opt->{hosts} ne '' ? $@ : "needs names of hosts: a,b\n");
  for my $name (grep { defined $opt->{$_} } sort keys %first) {
    push @{ $lines[0]{options} }, _words($opt, $specs, $name);
    $lines[0]{ $name eq 'l' ? 'port' : $name } = $opt->{$name};
  }
  return \@lines;
}

# An option as it is written.  `specs`: what Getopt::Long was given.
sub _words {
  my ($opt, $specs, $name) = @_;
  my $written = length $name == 1 ? "-$name" : "--$name";
  return grep({ $_ eq "$name=s" } @$specs) ? ($written, $opt->{$name}) : $written;
}

# Returns the exit status; dies with a line.
sub run {
  my ($opt, $specs, %what) = @_;
  my @names = grep { $each{$_} && defined $opt->{$_} } sort keys %$opt;
  my $key = defined $opt->{'key-fd'} ? DMI::Key->from_descriptor($opt->{'key-fd'}) : undef;
  # On this machine nothing is silent but when it, or we, were stopped.
  my $timeout = defined $opt->{hosts} ? undef : 365 * 86400;
  return DMI::Launch::run($opt, %what, launcher => 'dmirun', lines => _lines($opt, $specs), key => $key, timeout => $timeout,
    options => [map { _words($opt, $specs, $_) } @names]);
}

1;
