# Status.pm - how a process has ended, for people.
package DMI::Status;

use strict;
use warnings;
use Config ();

# The name of a signal, as "SIGSEGV"; '' if it has none here.
sub signal_name {
  my ($number) = @_;
  my $name = (split ' ', $Config::Config{sig_name})[$number] // '';
  return $name =~ /^(?!NUM)[A-Z]+\d*\z/ ? "SIG$name" : '';
}

# For the status that waitpid gives: "was killed by SIGSEGV", "ended with status 3".
sub text {
  my ($status) = @_;
  my $signal = $status & 127 or return 'ended with status ' . ($status >> 8);
  return 'was killed by ' . (signal_name($signal) || "signal $signal");
}

1;
