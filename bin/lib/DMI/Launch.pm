# Launch.pm - starts the processes of a program, for dmimw, and for dmirun with -n or --hosts, and stays
# until they have ended.
package DMI::Launch;

use strict;
use warnings;
use Cwd ();
use DMI::Control;
use DMI::Copy;
use DMI::Key;
use DMI::Program;
use DMI::Set;
use File::Spec ();
use Text::ParseWords ();

# A number that an option gives; undef: it is not given.  Dies with a line.
sub number {
  my ($opt, $name, $least) = @_;
  return unless defined $opt->{$name};
  my $shown = length $name == 1 ? "-$name" : "--$name";
  die "$shown $opt->{$name}: must be a number from $least on\n"
    unless $opt->{$name} =~ /^\d{1,9}$/ && $opt->{$name} >= $least;
  return $opt->{$name} + 0;
}

# The variables that processes get from our environment: DMI's settings for all processes, and
# --env.  `own`: names of those that are of one process.
sub _environment {
  my ($opt, @own) = @_;
  my %own = map { $_ => 1 } @own, 'DMI_LAUNCHED';
  my %env = map { $_ => $ENV{$_} } grep { /^DMI_/ && !$own{$_} } keys %ENV;
  $env{DMI_SURVIVE} = 1 if $opt->{survive};
  for my $name (@{ $opt->{env} // [] }) {
    if ($name =~ /^(\w+)=(.*)/s) { $env{$1} = $2 }
    elsif (defined $ENV{$name}) { $env{$name} = $ENV{$name} }
    else { die "--env $name: not set here; --env $name=VALUE sets it\n" }
  }
  return \%env;
}

# The name of the set: that of the program and a number, if none is given.
sub _name {
  my ($given, $program) = @_;
  if (!defined $given) {
    my $name = ($program =~ m{([^/]*)$} ? $1 : '') =~ s/[^\w.+-]/_/gr;
    return substr($name, 0, 64) . "-$$";
  }
  die "--set $given: letters, digits and . _ + - only\n" unless $given =~ /^\w[\w.+-]*$/;
  return $given;
}

# The directory for the output of each process.
sub _log_directory {
  my ($log) = @_;
  return unless defined $log;
  -d $log || mkdir $log or die "--log $log: $!\n";
  -w $log or die "--log $log: not writable\n";
  return $log;
}

# `opt`: the options of dmimw.  launcher => name of the command, for messages; lines (of NodeFile),
# first, spare, slurm => as for DMI::Set; program => [...]; options => [...] of dmirun for all; own =>
# [...] names of variables that are not for all; bin, version; key => the line, if it is known already.
# Dies with a line if nothing can be started; returns the exit status.
sub run {
  my ($opt, %what) = @_;
  my ($lines, @program) = ($what{lines}, @{ $what{program} });
  my $launcher = $what{launcher};
  die "-p $opt->{p}: without -i HOST; -l in the node file is the port to listen on\n"
    if defined $opt->{p} && (!defined $opt->{i} || $opt->{i} =~ /^\@/);
  my @outside = map { defined $opt->{$_} ? ("-$_", $opt->{$_}) : () } qw(i p);
  die "no program given; $launcher -h says how to use it\n" unless @program;
  my @joining = DMI::Program::joining(@program);
  # Elsewhere they would be ignored silently.
  die "$program[@joining]: processes that join (-i) have no arguments, as DMI_main does not run in them; options of "
    . "$launcher go before $program[0]\n"
    if defined $opt->{i} && @program > @joining;
  my $require = number($opt, 'require', 1) // 1;
  die "--require $require: only " . @$lines . " lines are used\n" if $require > @$lines;
  my $log = _log_directory($opt->{log});
  my $name = _name($opt->{set}, $program[0]);
  my $key_file = $opt->{key} // $ENV{DMI_KEY_FILE};
  $key_file = File::Spec->rel2abs($key_file) if defined $key_file;
  my $set = DMI::Set->new(
    lines => $lines, first => $what{first} // 0, spare => $what{spare} // [], program => \@program, joining => \@joining, name => $name,
    options => [(defined $opt->{contact} ? ('--contact', $opt->{contact}) : ()), @outside, @{ $what{options} }],
    outside => @outside > 0, slurm => $what{slurm}, launcher => $launcher,
    key => $what{key} // DMI::Key->read($key_file), key_file => $key_file, tag => $opt->{tag}, log => $log,
    require => $require, restart => $opt->{restart},
    timeout => number($opt, 'timeout', 1) // $what{timeout} // 60, grace => number($opt, 'grace', 1) // 60,
    env => _environment($opt, @{ $what{own} }), dir => $opt->{dir} // Cwd::getcwd(),
    copy => $opt->{copy} ? DMI::Copy::describe($program[0]) : undef, bin => $what{bin}, where => $opt->{bin}, ssh => $opt->{ssh}, ask => $opt->{ask},
    version => $what{version});
  my $control = DMI::Control->new($set, $name);
  my $status = eval { $set->run };
  print STDERR "$launcher: $@" unless defined $status;
  $status //= 1;
  $control->finish($status);
  return $status;
}

1;
