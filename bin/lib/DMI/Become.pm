# Become.pm - how a launcher becomes a program: its options, checked, go into the environment, and then the
# program takes its place (exec).  Used by dmirun, and by an agent in each process that it starts, which
# saves starting Perl again.
#
#   my $become = DMI::Become->new(bin => ..., start => ..., python => ..., specs => [...], least => {...},
#     cleared => [...]);     # directories, and what lib/node/option_table.h says
#   $become->program($opt);  # @ARGV is the program and its arguments; dies with a line
#   $become->process(@args); # the arguments of dmirun; never returns
package DMI::Become;

use strict;
use warnings;
use DMI::CommandLine;
use DMI::Program;
use DMI::Settings;
use POSIX ();

# bin: where the launchers are; start, python: from there, to own programs and the module for Python, when
# they are installed.
sub new { my ($class, %opt) = @_; return bless {%opt}, $class }

sub _is_built { my ($self) = @_; return -f "$self->{bin}/../config.status" }

# The program that a witness runs, and who looks; it comes with DMI.
sub own_program {
  my ($self) = @_;
  return $self->_is_built ? "$self->{bin}/dmi-witness" : "$self->{bin}/$self->{start}/dmi-witness";
}

sub _python_dir {
  my ($self) = @_;
  return $self->_is_built ? "$self->{bin}/../python/module" : "$self->{bin}/$self->{python}";
}

# The variables that options mean.
sub environment {
  my ($self, $opt) = @_;
  return DMI::Settings::environment($opt, $self->{least}, @{ $self->{cleared} });
}

sub program {
  my ($self, $opt) = @_;
  my $env = $self->environment($opt);
  die "$ARGV[0]: a witness (--witness) runs no program\n" if $opt->{witness} && @ARGV;
  @ARGV = $self->own_program if $opt->{witness};
  die "no program given; dmirun -h says how to use it\n" unless @ARGV;
  my $program = DMI::Program::path($ARGV[0], $self->{bin});
  DMI::Program::check($program, @ARGV);
  DMI::Program::find_module($self->_python_dir, @ARGV);
  if (defined $opt->{web}) {
    require DMI::Web::Start;
    DMI::Web::Start::beside($opt, $env, $self->own_program);
  }
  DMI::Settings::apply($env);
  $ENV{DMI_RUN} = "$self->{bin}/dmirun";
  no warnings 'exec';
  exec { $program } @ARGV;
  die "$ARGV[0]: cannot run: $!\n";
}

# In a new process: becomes what `dmirun @args` would.
sub process {
  my ($self, @args) = @_;
  my $wrong = $self->_try(@args);
  _exec_dmirun($self, @args) unless defined $wrong;
  complain($wrong);
  POSIX::_exit(2);
}

# Returns what is wrong; undef if dmirun itself has to see to it: these are not the options of a process, or
# something else is to be started beside it.
sub _try {
  my ($self, @args) = @_;
  local @ARGV = @args;
  my $opt = eval { DMI::CommandLine::parse('dmirun', @{ $self->{specs} }) } or return;
  return if DMI::Settings::looks($opt) || defined $opt->{web} || !(@ARGV || $opt->{witness});
  eval { $self->program($opt) };
  return $@ =~ s/\n\z//r;
}

sub _exec_dmirun {
  my ($self, @args) = @_;
  no warnings 'exec';
  exec { "$self->{bin}/dmirun" } "$self->{bin}/dmirun", @args;
  syswrite STDERR, "dmimw: cannot run $self->{bin}/dmirun: $!\n";
  POSIX::_exit(127);
}

# Says what is wrong: to the user, and to the program that has started us, as an event (docs/events.md), as the
# process itself would.
sub complain {
  my ($text) = @_;
  my $descriptor = $ENV{DMI_EVENT_FD} // '';
  if ($descriptor =~ /^\d+\z/ && open my $events, '>>&=', $descriptor) {
    require JSON::PP;
    require Time::HiRes;
    syswrite $events, JSON::PP->new->canonical->ascii->encode({ event => 'error', pid => $$,
      subsystem => 'dmirun', text => substr($text, 0, 1000), time => Time::HiRes::time() }) . "\n";
  }
  syswrite STDERR, "dmirun: $text\n";
  return;
}

1;
