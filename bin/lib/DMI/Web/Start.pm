# Start.pm - what dmirun does for --web: serves a program that runs, or one that it is about to become.
package DMI::Web::Start;

use strict;
use warnings;
use DMI::Key ();
use DMI::Values ();
use DMI::Web ();
use POSIX ();

# Where, and by what: options of DMI::Web->new.  `viewer`: the program that asks.
sub _how {
  my ($opt, $viewer) = @_;
  my $web = $viewer =~ s/dmi-witness\z/dmi-web/r;
  die "--web: this DMI was built without it, as libmicrohttpd was missing (Debian: libmicrohttpd-dev)\n" if !-x $web;
  die "--web: --check starts nothing\n" if $opt->{check};
  return (place => DMI::Values::web_place($opt->{web}), web => $web, look => $viewer);
}

# A key that comes from a descriptor is read here, for all who need it.
sub _key {
  my ($env) = @_;
  return if !defined $env->{DMI_KEY_FD};
  my $given = $env->{DMI_KEY_FD};
  my $line = DMI::Key->from_descriptor($given);
  POSIX::close($given) if $given > 2;
  # A number that outlives the handle: the program has it.
  $env->{DMI_KEY_FD} = POSIX::dup(fileno DMI::Key->handle($line));
  return (key => $line);
}

# Until it is interrupted.
sub alone {
  my ($opt, $env, $viewer) = @_;
  die "--web without a program shows one that runs: -i HOST names one of its processes\n" if !defined $opt->{i};
  my %how = (_how($opt, $viewer), _key($env));
  $env->{DMI_SEE} = 1;
  DMI::Settings::apply($env);
  DMI::Web->alone(%how) or exit 1;
  return;
}

# Beside the program that this process becomes next; changes its environment.
sub beside {
  my ($opt, $env, $viewer) = @_;
  my %how = (_how($opt, $viewer), _key($env));
  my $host = defined $env->{DMI_BIND} ? $env->{DMI_BIND} : '127.0.0.1';
  local %ENV = (%ENV, map { defined $env->{$_} ? ($_ => $env->{$_}) : () } qw(DMI_KEY_FILE DMI_KEY_FD DMI_ENCRYPT DMI_BIND));
  my ($ready, $url) = DMI::Web->beside(%how, host => $host, tell_port => $env->{DMI_READY_FD}) or exit 2;
  # The one that serves writes there, and who reads waits for the end of that, not of the program.
  my $told = $env->{DMI_READY_FD};
  POSIX::close($told) if defined $told && $told > 2;
  $env->{DMI_READY_FD} = $ready;
  print STDERR "dmirun: the page is at $url\n";
  return;
}

1;
