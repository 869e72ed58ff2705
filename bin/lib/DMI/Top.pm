# Top.pm - dmirun --top: a running program in a terminal, live.
#
# Two processes: one draws and asks, the other one, its parent, waits for its end, and puts the terminal
# in order if it was killed.  If the parent is killed, the other one sees the end of a pipe, and ends
# in order.  So the terminal is restored however either of them ends.
package DMI::Top;

use strict;
use warnings;
use DMI::Key ();
use DMI::LookText ();
use DMI::TopView;
use DMI::Watch ();
use IO::Handle ();
use POSIX ();
use Time::HiRes ();

my $pause = 1;       # seconds between an answer and the next question
my $patience = 3;    # seconds without an answer until that is said

# `viewer`: the program that asks.  Dies with a line if it cannot begin; returns the exit status.
sub run {
  my ($viewer) = @_;
  eval { require Curses; 1 } or die "--top needs the Perl module Curses (Debian: libcurses-perl)\n";
  die "--top: stdin and stdout must be a terminal; --status prints once\n" unless -t STDIN && -t STDOUT;
  my $modes = POSIX::Termios->new;
  $modes->getattr(0);
  pipe my $parent_lives, my $held or die "no pipe: $!\n";
  # The parent's handlers are there before the first screen is.  A Ctrl+C reaches both.
  my ($pid, $ended);
  local @SIG{qw(INT TERM HUP)} = ('IGNORE', (sub { $pid ? kill TERM => $pid : ($ended = 1) }) x 2);
  $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    @SIG{qw(INT TERM HUP)} = ('DEFAULT') x 3;
    close $held;
    my $status = eval { DMI::Top->new($viewer, $parent_lives)->show };
    print STDERR "dmirun: $@" unless defined $status;
    STDERR->flush;
    POSIX::_exit($status // 1);
  }
  close $parent_lives;
  kill TERM => $pid if $ended;
  1 while waitpid($pid, 0) != $pid;
  my $status = $?;
  return $status >> 8 unless $status & 127;
  $modes->setattr(0, POSIX::TCSADRAIN());
  system "tput $_" for qw(sgr0 cnorm rmkx rmcup);
  return 128 + ($status & 127);
}

sub new {
  my ($class, $viewer, $parent_lives) = @_;
  my $self = bless { view => DMI::TopView->new, parent => $parent_lives, asked => 0 }, $class;
  # A descriptor can be read only once.
  my $key = defined $ENV{DMI_KEY_FD} ? DMI::Key->from_descriptor($ENV{DMI_KEY_FD}) : undef;
  $self->{watch} = DMI::Watch->new(command => [$viewer], key => $key, collects => 1, wait => sub { $self->_wait($_[0]) });
  return $self;
}

# Until a key or a signal ends it, or nobody can be asked any more.
sub show {
  my ($self) = @_;
  local $SIG{__WARN__} = sub { };    # a faulty process may answer with anything
  # Without the parent the shell has the terminal, which is put in order nevertheless.
  local @SIG{qw(TTOU PIPE)} = ('IGNORE') x 2;
  local @SIG{qw(INT TERM HUP)} = map { my $status = $_; sub { $self->{end} //= $status } } 128 + 2, 128 + 15, 128 + 1;
  eval { $self->_watch };
  my $why_ended = $@;
  Curses::endwin() if $self->{drawing};
  die $why_ended unless ref $why_ended;
  return $why_ended->{status} if !$why_ended->{nobody};
  return $self->_nobody($self->{watch}->said);
}

# Nobody answers, and why: the program has ended if all that were asked are gone.
sub _nobody {
  my ($self, @said) = @_;
  if (defined $self->{at} && !grep { !/no DMI program listens at|closed the connection|has ended|has left the program/ } @said) {
    print STDERR 'dmirun: the program at ', DMI::LookText::plain($self->{at}), " has ended\n";
    return 0;
  }
  my ($why) = grep { $_ ne '' } reverse @said;
  print STDERR $why // 'dmirun: ' . $self->{watch}->why . "\n";
  return 1;
}

# Dies with { status }, or { nobody }.  When the process that is asked is gone, another one is asked.
sub _watch {
  my ($self) = @_;
  my $view = $self->{view};
  while (1) {
    delete $self->{stale};
    $self->{asked} = Time::HiRes::time();
    my $all = $self->{watch}->all($view->parts) // die { nobody => 1 };
    $self->{at} = $all->{asked_at} if defined $all->{asked_at};
    $view->take($all);
    $self->_begin;
    $self->_draw;
    my $until = Time::HiRes::time() + $pause;
    while (!$self->{stale} && (my $left = $until - Time::HiRes::time()) > 0) { $self->_turn(undef, $left) }
  }
}

# The screen, from the first answer on.
sub _begin {
  my ($self) = @_;
  return if $self->{drawing}++;
  Curses::initscr();
  Curses::cbreak();
  Curses::noecho();
  Curses::keypad(Curses::stdscr(), 1);
  Curses::nodelay(Curses::stdscr(), 1);
  eval { Curses::curs_set(0) };    # not every terminal can hide it
}

# Returns when `answers` can be read; keys and signals are served meanwhile.
sub _wait {
  my ($self, $answers) = @_;
  while (!$self->_turn($answers, 1)) {
    my $silent = Time::HiRes::time() - $self->{asked};
    next if $silent < $patience;
    if (!$self->{drawing}) {
      print STDERR "dmirun: no answer yet; the process that is asked may be stopped (ps shows T), or busy\n" if !$self->{told_silent}++;
      next;
    }
    $self->{view}->silent($silent);
    $self->_draw;
  }
}

# Waits for something, at most so long; true if `answers` can be read.  Dies with { status } at the end.
sub _turn {
  my ($self, $answers, $seconds) = @_;
  my $bits = '';
  vec($bits, fileno $_, 1) = 1 for $self->{parent}, $self->{drawing} ? \*STDIN : (), $answers // ();
  die { status => $self->{end} } if defined $self->{end};
  my $found = select my $ready = $bits, undef, undef, $seconds;
  die { status => $self->{end} } if defined $self->{end};
  die { status => 128 + 9 } if $found > 0 && vec $ready, fileno $self->{parent}, 1;
  # Also after a signal: it may say that the window has another size.  What can be read and has no
  # key again and again is a terminal that is gone.
  my $keys = $self->{drawing} ? $self->_keys : 1;
  $self->{deaf} = $found > 0 && !$keys && vec($ready, fileno STDIN, 1) ? ($self->{deaf} // 0) + 1 : 0;
  die { status => 128 + 1 } if $self->{deaf} > 10;
  return $found > 0 && $answers && vec $ready, fileno $answers, 1;
}

my %names;

# Serves the keys that have come; returns their number.
sub _keys {
  my ($self) = @_;
  my $count = 0;
  %names = (
    Curses::KEY_UP() => 'up', Curses::KEY_DOWN() => 'down', Curses::KEY_LEFT() => 'left', Curses::KEY_RIGHT() => 'right',
    Curses::KEY_PPAGE() => 'page_up', Curses::KEY_NPAGE() => 'page_down', Curses::KEY_HOME() => 'home',
    Curses::KEY_END() => 'end', Curses::KEY_ENTER() => 'enter', "\n" => 'enter', "\r" => 'enter',
    Curses::KEY_BACKSPACE() => 'backspace', "\x7f" => 'backspace', "\b" => 'backspace', "\e" => 'escape') unless %names;
  while (defined(my $key = Curses::getch())) {
    last if $key eq Curses::ERR();
    $count++;
    my $way = $key eq Curses::KEY_RESIZE() ? 'draw' : $self->{view}->key($names{$key} // $key);
    die { status => 0 } if $way eq 'end';
    $self->{stale} = 1 if $way eq 'ask';
    $self->_draw if $way;
  }
  return $count;
}

sub _draw {
  my ($self) = @_;
  my ($height, $width);
  Curses::getmaxyx($height, $width);
  my %style = (plain => Curses::A_NORMAL(), head => Curses::A_BOLD(), chosen => Curses::A_REVERSE(), alarm => Curses::A_STANDOUT());
  Curses::erase();
  my $row = 0;
  for my $line ($self->{view}->lines($height, $width)) {
    Curses::attrset($style{ $line->[1] });
    Curses::addstr($row++, 0, $line->[0]);
  }
  Curses::attrset(Curses::A_NORMAL());
  Curses::refresh();
}

1;
