# Show.pm - dmirun --status and the like: asks the processes of a running program, and prints.
package DMI::Show;

use strict;
use warnings;
use DMI::Look;
use DMI::Columns;
use DMI::LookText;
use DMI::Terminal;
use DMI::Waits;
use JSON::PP ();

# Whom to ask is given as for -i and -p, or behind the options (`words`), or between them.  Dies with a line.
sub whom {
  my ($opt, @words) = @_;
  my ($whom, @more) = @words;
  die "$more[0]: one process is asked: dmirun --status [HOST[:PORT]]\n" if @more;
  die "--top shows all of that by itself: no --status, --threads, --dump or --json with it\n"
    if $opt->{top} && grep { defined $opt->{$_} } qw(status threads dump json);
  if (defined $whom) {
    die "$whom: the process to ask is named already: -i $opt->{i}\n" if defined $opt->{i};
    die "$whom: a host is missing; did you mean localhost:$whom?\n" if $whom =~ /^\d{1,5}\z/;
    my ($host, $port) = $whom =~ /^\[(.*)\]:(.*)\z/ || $whom =~ /^([^:\@]*):([^:]*)\z/ ? ($1, $2) : ($whom);
    die "$whom: '$port' is no port, which is a number from 1 to 65535\n"
      if defined $port && ($port !~ /^\d{1,5}\z/ || $port < 1 || $port > 65535);
    die "$whom: the port is given twice\n" if defined $port && defined $opt->{p};
    $opt->{i} = $host eq '' ? 'localhost' : $host;
    $opt->{p} = $port if defined $port;
  }
  $opt->{i} //= 'localhost' if defined $opt->{p};
  return;
}

# `viewer`: the program that asks.  Dies with a line.
sub show {
  my ($opt, $viewer) = @_;
  my %wants = map { $_ => defined $opt->{$_} } qw(status threads dump);
  $wants{status} = $wants{threads} = 1 if $wants{dump} || !grep { $_ } values %wants;
  my @parts = ($wants{status} ? qw(process mappings hot) : (), qw(threads locks barriers),
    $opt->{json} && $wants{status} ? qw(waits peers profile) : ());
  my $all = _ask($viewer, @parts);
  $all->{deadlocks} = [DMI::Waits->new($all)->verdicts] if $opt->{json} && grep { $_->{threads} } @{ $all->{members} };
  my $width = defined $opt->{dump} ? undef : DMI::Terminal::columns(\*STDOUT);
  my $text = $opt->{json} ? JSON::PP->new->canonical->pretty->encode($all)
    : join "\n", grep { $_ ne '' } DMI::Columns::folded(DMI::LookText::heading($all), $width),
      ($wants{status} ? DMI::LookText::status($all, $width, _deadlocks($all, \%wants)) : ()), ($wants{threads} ? DMI::LookText::threads($all, $width) : ());
  return _write($opt->{dump}, $text) if defined $opt->{dump};
  return DMI::Terminal::say_all($text);
}

# --status says that there is one; --threads, which says why, has it below the threads.
sub _deadlocks {
  my ($all, $wants) = @_;
  return $wants->{threads} ? () : DMI::LookText::deadlock_lines(DMI::Waits->new($all), 'dmirun --threads');
}

sub _ask {
  my ($viewer, @parts) = @_;
  local $SIG{PIPE} = 'IGNORE';    # of the program that asks
  my $look = DMI::Look->new(command => [$viewer]);
  my $all = $look->all(@parts);
  $look->finish;
  return $all;
}

sub _write {
  my ($path, $text) = @_;
  my $ours = !-e $path && !-l $path;
  open my $file, '>', $path or die "--dump $path: $!\n";
  my $why = DMI::Terminal::write_all($file, $text) // return;
  unlink $path if $ours;    # a part of it, or nothing, would be taken for all
  die "--dump $path: $why\n";
}

1;
