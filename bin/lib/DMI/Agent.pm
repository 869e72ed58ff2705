# Agent.pm - what runs beside the processes that dmimw starts, on the same host (dmimw --agent): for one of
# them, or for several.
#
# It starts them (Started.pm), reports their output, events and ends to dmimw, and sends them signals.
# When dmimw or the connection to it is lost, it asks them to leave, waits for a time, and
# then kills them: no process outlives its dmimw for long.  Processes that a process has started and
# left behind become children of the agent (it is a subreaper), whatever session they are in, and
# are killed.  When the agent dies, its processes ask to leave by themselves, and the kernel kills them
# after a time (dmirun --with-parent --grace).
#
# It must not use modules that do not come with Perl, write anything but frames to stdout, or end
# while a process that it started runs.
package DMI::Agent;

use strict;
use warnings;
use Cwd ();
use DMI::Frames;
use DMI::Loop;
use DMI::Started;
use POSIX ();
use Sys::Hostname ();

my $most_queued = 256 << 10;    # bytes for dmimw; when there are more, processes have to wait
# The system call prctl, by its number on this processor, for PR_SET_CHILD_SUBREAPER.
my %prctl = (x86_64 => 157, i386 => 172, i686 => 172, aarch64 => 167, armv7l => 172, riscv64 => 167,
  ppc64le => 171, s390x => 172, loongarch64 => 167);
my $set_child_subreaper = 36;

# become: of DMI::Become; version.  Returns the exit status.
sub run {
  my ($class, %opt) = @_;
  # Signals of the terminal are for dmimw.  This fails where sshd has done it already, which does
  # not matter.
  POSIX::setsid();
  my $loop = DMI::Loop->new;
  my $self = bless {
    loop => $loop,
    become => $opt{become},
    version => $opt{version},
    dir => Cwd::getcwd(),
    timeout => 60,      # seconds of silence after which dmimw counts as lost
    grace => 60,        # seconds that processes have for leaving when dmimw is lost
    heard => DMI::Loop::now(),
    processes => {},    # by their number: those of which something is left
  }, $class;
  open my $in, '<&', \*STDIN or die "dmimw: no stdin: $!\n";
  open my $out, '>&', \*STDOUT or die "dmimw: no stdout: $!\n";
  # Processes that are started here must not keep the connection open.
  open STDIN, '<', '/dev/null' or die;
  open STDOUT, '>', '/dev/null' or die;
  $SIG{PIPE} = 'IGNORE';
  my $prctl = $prctl{ (POSIX::uname())[4] };
  $self->{adopts} = $prctl && syscall($prctl, $set_child_subreaper, 1, 0, 0, 0) == 0;
  $loop->orphans(sub { $self->_sweep }) if $self->{adopts};
  $loop->signal($_ => sub { $self->_ask }) for qw(TERM INT HUP);
  $self->{frames} = DMI::Frames->new($loop, in => $in, out => $out,
    frame => sub { $self->_frame(@_) },
    closed => sub { $self->_lost },
    drained => sub { $self->_drained });
  $self->{frames}->greeting;
  $self->{frames}->message('hello', version => $opt{version}, pid => $$,
    host => Sys::Hostname::hostname(), ssh => $ENV{SSH_CONNECTION});
  $self->_beat;
  $loop->run;
  return 0;
}

# ---- Messages of dmimw -------------------------------------------------------------------------

sub _frame {
  my ($self, $word, $bytes, $number) = @_;
  $self->{heard} = DMI::Loop::now();
  $self->{held} = $word eq 'hold';
  return if $word eq 'beat' || $word eq 'hold';
  my $process = $self->{processes}{$number};
  if ($word eq 'start' && !$process) {
    $self->_take_times(DMI::Frames->content($bytes));
    $process = $self->{processes}{$number} = $self->_process($number);
  }
  $process->take($word, $bytes) if $process;    # none: it has just ended
  return;
}

sub _take_times {
  my ($self, $want) = @_;
  my $timeout = $self->{timeout};
  $self->{$_} = $want->{$_} for grep { $want->{$_} } qw(timeout grace);
  $self->_beat if $self->{timeout} != $timeout;    # its interval depends on that
  return;
}

sub _process {
  my ($self, $number) = @_;
  return DMI::Started->new(
    number => $number,
    mark => "$$.$number",
    (map { $_ => $self->{$_} } qw(loop version become dir grace adopts)),
    say => sub { $self->{frames}->send(@_[0, 1], $number) },
    tell => sub { my ($word, %content) = @_; $self->{frames}->tell($number, $word, %content) },
    full => sub { $self->{full} },
    left => sub { return $self->_left($number) },
    over => sub { $self->_over($number) });
}

# Both sides send something at regular intervals, so that a dead connection is noticed.
sub _beat {
  my ($self) = @_;
  my $silent = DMI::Loop::now() - $self->{heard};
  if ($silent >= $self->{timeout} && !$self->{held}) {
    $self->{frames}->close;
    return $self->_lost;
  }
  $self->{frames}->send('beat', '');
  $self->{loop}->cancel($self->{beat});
  $self->{beat} = $self->{loop}->after($self->{timeout} / 4, sub { $self->_beat });
  return;
}

# dmimw is lost: processes shall leave in order, and then the agent ends.
sub _lost {
  my ($self) = @_;
  return if $self->{lost}++;
  $self->{loop}->cancel(delete $self->{beat});
  $_->lose for values %{ $self->{processes} };
  return $self->_look_for_end;
}

# A signal: the first request to leave, for all.
sub _ask {
  my ($self) = @_;
  my @begun = grep { $_->has_begun } values %{ $self->{processes} };
  $_->ask('TERM') for @begun;
  $self->{loop}->stop if !@begun && !$self->{ends};
  return;
}

# Processes wait in `write` while dmimw does not read what the agent sends.
sub _drained {
  my ($self) = @_;
  my $frames = $self->{frames} or return;    # none yet: it is just being made
  my $full = $frames->queued > $most_queued;
  if ($full != !!$self->{full}) {
    $self->{full} = $full;
    $_->look_at_queue for values %{ $self->{processes} };
  }
  return $self->_look_for_end;
}

# ---- What processes leave behind ----------------------------------------------------------------

sub _sweep {
  my ($self) = @_;
  $_->sweep for grep { $_->has_ended } values %{ $self->{processes} };
  return;
}

# The children of the agent that it has not started.  Nobody has waited for them, so no other process can
# have their pids.
sub _orphans {
  my ($self) = @_;
  my %own = map { $_->pid => 1 } grep { $_->has_begun && !$_->has_ended } values %{ $self->{processes} };
  return grep { !$own{$_} } _children();
}

sub _children {
  if (open my $file, '<', "/proc/$$/task/$$/children") { return split ' ', <$file> // '' }
  my @found;
  for my $path (glob '/proc/[0-9]*/stat') {
    open my $file, '<', $path or next;
    push @found, $1 if (<$file> // '') =~ /^(\d+) .*\) \S $$ /s;
  }
  return @found;
}

# Those that this process, which has ended, has started: they have its mark in their environment, or are of
# its group.  Those of which this cannot be known go when no process runs any more.
sub _left {
  my ($self, $number) = @_;
  my @orphans = $self->_orphans or return;
  return @orphans if !grep { !$_->has_ended } values %{ $self->{processes} };
  my %mark = map { $_->mark => $_->number } values %{ $self->{processes} };
  my %group = map { $_->pid => $_->number } grep { $_->has_begun } values %{ $self->{processes} };
  return grep { (_owner($_, \%mark, \%group) // -1) == $number } @orphans;
}

# The number of the process that has started this one; undef: it cannot be known.
sub _owner {
  my ($pid, $mark, $group) = @_;
  for my $word (_marks($pid)) { return $mark->{$word} if defined $mark->{$word} }
  open my $file, '<', "/proc/$pid/stat" or return;
  return (<$file> // '') =~ /.*\) \S \d+ (\d+) /s ? $group->{$1} : undef;
}

sub _marks {
  my ($pid) = @_;
  open my $file, '<', "/proc/$pid/environ" or return;
  my $text = do { local $/; <$file> } // '';
  return $text =~ /(?:\A|\0)DMI_AGENTS=([^\0]*)/ ? split ' ', $1 : ();
}

# ---- The end ------------------------------------------------------------------------------------

# Nothing is left of this process.
sub _over {
  my ($self, $number) = @_;
  delete $self->{processes}{$number};
  $self->{ends} = 1 if $number == 0;    # that was the only one
  return $self->_look_for_end;
}

# It ends when everything was sent; if it has several processes, when dmimw closes the connection.
sub _look_for_end {
  my ($self) = @_;
  return if %{ $self->{processes} } || !($self->{lost} || $self->{ends});
  $self->{loop}->stop if $self->{lost} || $self->{frames}->queued == 0;
  return;
}

1;
