# Web.pm - dmirun --web: a page that shows a running program, and its metrics (docs/web.md).
#
# Three processes: this one looks at the program (Watch.pm) and says what it means; dmi-web serves it
# (Web/Server.pm); and one that asks, behind DMI::Look.  Nothing is asked while no page is open and
# no metrics are wanted.
package DMI::Web;

use strict;
use warnings;
use DMI::Json ();
use DMI::Key ();
use DMI::Watch ();
use DMI::Web::Metrics ();
use DMI::Web::Pace ();
use DMI::Web::Server ();
use DMI::Web::State ();
use POSIX ();
use Sys::Hostname qw(hostname);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# Of a processor; together less than a hundredth, with what the system does for it.
my $MEMBERS_SHARE = 0.004;
my $THREADS_SHARE = 0.004;
my $MATRIX = 16;            # members: between more, the traffic of each two is too much to ask for
my $RETRY = 2;              # seconds until a program that did not answer is asked again
my $PIDFD_OPEN = 434;       # the number of that system call, the same on all processors

# ---- Serving -----------------------------------------------------------------------------------

# place => '[ADDR:]PORT'; web => dmi-web; look => what asks; key => a line, or undef.
# Returns undef if the port cannot be had, or dmi-web is missing: a line on stderr has said it.
sub new {
  my ($class, %opt) = @_;
  $SIG{PIPE} = 'IGNORE';
  my $token = DMI::Key->random(16);
  my $server = DMI::Web::Server->new(program => $opt{web}, place => $opt{place}, token => $token) or return;
  my $host = $opt{place} =~ /^(.+):\d+\z/ ? $1 : '127.0.0.1';
  $host = hostname() if $host eq '0.0.0.0' || $host eq '[::]';
  my $self = bless {
    server => $server,
    url => "http://$host:" . $server->port . "/?token=$token",
    watch => DMI::Watch->new(command => [$opt{look}], key => $opt{key}, quiet => 1),
    members => DMI::Web::Pace->new(share => $MEMBERS_SHARE, least => 1),
    threads => DMI::Web::Pace->new(share => $THREADS_SHARE, least => 2),
    pages => 0,
    spent => 0,
    begun => 1,
  }, $class;
  $self->{spent} = $self->_cpu;
  return $self;
}

sub url { return $_[0]{url} }

# Processor time of all three so far.  That of a process that has ended is forgotten.
sub _cpu {
  my ($self) = @_;
  my $sum = 0;
  for my $pid ($$, $self->{server}->pid, $self->{watch}->pid // ()) {
    my $time = clock_gettime(-8 * ($pid + 1) + 2);    # clock_getcpuclockid(3)
    $sum += $time if $time > 0;
  }
  return $sum;
}

# What was spent since the last call.
sub _spent {
  my ($self) = @_;
  my $now = $self->_cpu;
  my $spent = $now - $self->{spent};
  $self->{spent} = $now;
  return $spent > 0 ? $spent : 0;
}

sub _tell {
  my ($self, $name, $event) = @_;
  $event->{at} = clock_gettime(CLOCK_MONOTONIC);
  $self->{over} = 1 if !$self->{server}->tell('event', $name, DMI::Json::encode($event));
}

# What has become of the program, and whether that is no failure; undef: that is not known.
sub _ended_text {
  my (%ended) = @_;
  return ('the process that was asked has left the program', 1) if $ended{left};
  return ('the program has ended', 1) if $ended{good};
  return ("the program has ended with status $ended{status}", 0) if defined $ended{status};
  return;
}

sub _trouble {
  my ($self, $began) = @_;
  my ($why, $good) = ('the program begins', 1);
  ($why, $good) = _ended_text(%{ $self->{watch}->ended }) if $self->{begun};
  $why //= 'no process of the program answers: ' . $self->{watch}->why;
  $self->_tell('members', { time => time, seconds => $RETRY, trouble => $why, good => $good ? 1 : 0 });
  $_->later($began + $RETRY) for @$self{qw(members threads)};
}

# Looks once, and tells pages.
sub _look {
  my ($self, $what, $state, @parts) = @_;
  my ($pace, $began) = ($self->{$what}, clock_gettime(CLOCK_MONOTONIC));
  my $all = $self->{begun} ? $self->{watch}->all(@parts) : undef;
  return $self->_trouble($began) if !$all;
  $self->{num} = @{ $all->{members} };
  my $seconds = $pace->seconds;
  $self->_tell($what, $state->($all, $seconds));
  $pace->took($began, $self->_spent);
}

sub _metrics {
  my ($self) = @_;
  my $all = $self->{begun} ? $self->{watch}->all(@DMI::Web::Metrics::parts) : undef;
  my $told = $all ? $self->{server}->tell('metrics', '-', DMI::Web::Metrics::text($all))
    : $self->{server}->tell('absent', '-', "no process of the program answers\n");
  $self->{over} = 1 if !$told;
  $self->_spent;    # who asks for metrics decides how often
}

# When to look next; undef: when somebody wants to see something.
sub _due {
  my ($self) = @_;
  return if !$self->{pages};
  my ($members, $threads) = map { $self->{$_}->next } qw(members threads);
  return $members < $threads ? $members : $threads;
}

# Waits for one of: a word of dmi-web; a line of `ready`; the end of the program; a look that is due.
sub _wait {
  my ($self) = @_;
  my $bits = '';
  vec($bits, fileno $_, 1) = 1 for $self->{server}->handle, grep { $_ } @$self{qw(ready end)};
  my $due = $self->_due;
  my $left = defined $due ? $due - clock_gettime(CLOCK_MONOTONIC) : undef;
  my $count = select my $got = $bits, undef, undef, defined $left && $left < 0 ? 0 : $left;
  return if $count <= 0;
  $self->{over} = 1 if vec($got, fileno $self->{server}->handle, 1) && !$self->{server}->read;
  $self->_begins if $self->{ready} && vec $got, fileno $self->{ready}, 1;
  $self->{over} = 1 if $self->{end} && vec $got, fileno $self->{end}, 1;
}

# Until the program ends, if it knows of that, or dmi-web does.
sub run {
  my ($self) = @_;
  until ($self->{over}) {
    $self->_wait;
    my $pages = $self->{server}->pages;
    $_->hurry for $pages > $self->{pages} ? @$self{qw(members threads)} : ();
    $self->{pages} = $pages;
    my $now = clock_gettime(CLOCK_MONOTONIC);
    $self->_metrics if $self->{server}->scrape && !$self->{over};
    $self->_look(members => \&DMI::Web::State::members, 'process')
      if $pages && !$self->{over} && $self->{members}->next <= $now;
    $self->_look(threads => \&DMI::Web::State::threads, qw(process mappings hot threads locks barriers),
      ($self->{num} // 0) <= $MATRIX ? 'peers' : ())
      if $pages && !$self->{over} && $self->{threads}->next <= $now;
    $self->{watch}->detach if !$pages;
  }
  $self->_say_end if $self->{end};
  $self->{watch}->detach;
  $self->{server}->finish;
}

# The process beside which this one serves has ended.
sub _say_end {
  my ($self) = @_;
  my %ended = $self->{pages} ? %{ $self->{watch}->ended } : ();
  my ($why, $good) = _ended_text(%ended);
  ($why, $good) = $ended{lost} ? ('the process was lost: it was killed, has crashed, or could not go on (its last lines say why)', 0)
    : ('the program has ended', 1) if !defined $why;
  return $self->_tell('members', { time => time, seconds => 0, ended => $why, good => $good });
}

# Serves a program that runs, until it is interrupted.  Options as for new.  undef: a line on stderr has said why not.
sub alone {
  my ($class, %opt) = @_;
  my $self = $class->new(%opt) or return;
  my $watch = $self->{watch};
  $watch->{quiet} = 0;    # who asks says why it cannot
  $watch->all or return;
  $watch->detach;
  $watch->{quiet} = 1;
  print STDERR 'dmirun: the page is at ', $self->url, "\n";
  $self->run;
  return 1;
}

# ---- Beside a process that dmirun starts -------------------------------------------------------

# The program listens: it has written its port.
sub _begins {
  my ($self) = @_;
  my $ready = delete $self->{ready};
  my $line = '';
  while ($line !~ /\n/) {
    my $count = sysread $ready, $line, 16, length $line;
    next if !defined $count && $!{EINTR};
    last if !$count;
  }
  return if $line !~ /^(\d+)\n/;    # it has ended
  $ENV{DMI_JOIN_PORT} = $1;
  $self->{begun} = 1;
  $_->hurry for @$self{qw(members threads)};
  return if !defined $self->{tell_port};
  open my $to, '>&=', $self->{tell_port} or return;
  syswrite $to, $line;
}

# A descriptor that is readable when this process has ended; undef: the kernel has none.
sub _end_of {
  my ($pid) = @_;
  my $fd = syscall $PIDFD_OPEN, $pid + 0, 0;
  return if $fd < 0;
  open my $end, '<&=', $fd or return;
  return $end;
}

# What is open in the process that serves is not to be kept open by it: others wait for its end.
sub _close_all_but {
  my (@keep) = @_;
  my %keep = map { $_ => 1 } 0 .. 2, @keep;
  open my $null, '<', '/dev/null' or die "/dev/null: $!\n";
  opendir my $dir, '/proc/self/fd' or return;
  my @open = grep { /^\d+\z/ && !$keep{$_} && $_ != fileno $null } readdir $dir;
  closedir $dir;
  for my $number (@open) {
    # Perl counts its handles by number.  If one has this number, the number has to stay taken: close of a pipe that
    # gets it later would only lower the count.  If none has, close gives it back.
    POSIX::dup2(fileno $null, $number);
    open my $counted, '<&=', $number or next;
    close $counted;
  }
}

# Serves beside the process that this one is about to become, until that ends.  host => where it can be asked;
# tell_port => a descriptor on which its port is wanted; the others as for new.
# Returns the descriptor for DMI_READY_FD and the URL; undef: a line on stderr has said why not.
sub beside {
  my ($class, %opt) = @_;
  my $program = $$;
  pipe my $ready, my $writes or die "no pipe: $!\n";
  pipe my $told, my $tell or die "no pipe: $!\n";
  my $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    # No child of the program, which may wait for its own; and not told to leave by Ctrl+C.
    my $child = fork // POSIX::_exit(1);
    POSIX::_exit(0) if $child;
    setpgrp 0, 0;
    my $status = eval { _serve_beside($class, $program, $ready, $tell, %opt) };
    print STDERR "dmirun: --web: $@" if $@;
    POSIX::_exit($status ? 0 : 1);
  }
  waitpid $pid, 0;
  close $_ for $ready, $tell;
  my $url = readline $told;
  return if !defined $url;
  chomp $url;
  return (POSIX::dup(fileno $writes), $url);
}

sub _serve_beside {
  my ($class, $program, $ready, $tell, %opt) = @_;
  my $end = _end_of($program) or die "this system cannot tell when a process ends (pidfd_open: $!)\n";
  _close_all_but(map({ fileno $_ } $ready, $tell, $end), $opt{tell_port} // ());
  open STDIN, '<', '/dev/null' or die "/dev/null: $!\n";
  open STDOUT, '>', '/dev/null' or die "/dev/null: $!\n";
  delete @ENV{ grep { /^DMI_/ && !/^DMI_(?:KEY_FILE|KEY_FD|ENCRYPT|BIND|LOG)\z/ } keys %ENV };
  @ENV{qw(DMI_SEE DMI_LAUNCHED DMI_LISTEN_PORT DMI_JOIN_HOST)} = (1, 1, 0, $opt{host});
  my $self = $class->new(%opt) or return 0;
  @$self{qw(begun ready end tell_port)} = (0, $ready, $end, $opt{tell_port});
  print $tell $self->url, "\n";
  close $tell;
  # The line is read by a process that becomes the program now.
  $self->run;
  return 1;
}

1;
