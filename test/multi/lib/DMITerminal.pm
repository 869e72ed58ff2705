# DMITerminal.pm - a terminal for tests of programs that draw: a window of a tmux server of the test's
# own, with a shell in it.
#
#   my $terminal = DMITerminal->new($t, 100, 30);    # columns, lines
#   $terminal->run('command');           # types it, and Enter
#   $terminal->keys('Down', 'C-c');      # names of tmux
#   $terminal->shows(qr/text/);          # waits until the screen matches; returns the screen
#   $terminal->resize(80, 24);
#   $terminal->whole;                    # the screen, with lines that are too long for it as they are
#   $terminal->close;
#
# tmux tells of every change of the screen (control mode), so nothing here sleeps.
package DMITerminal;

use strict;
use warnings;
use IO::Handle ();
use Test::More;

my $last;    # screen that was looked at
my $count = 0;    # of terminals

END { diag("---- the screen ----\n$last----") if defined $last && !Test::More->builder->is_passing }

sub missing { return !grep { -x "$_/tmux" } split /:/, $ENV{PATH} // '' }

sub new {
  my ($class, $t, $width, $height) = @_;
  my $self = bless { t => $t, dir => $t->dir . '/tmux' . ++$count }, $class;
  mkdir $self->{dir}, 0700 or die "$self->{dir}: $!";
  delete @ENV{qw(TMUX TMUX_PANE)};
  open my $file, '>', "$self->{dir}/conf" or die $!;
  print $file "set -g destroy-unattached on\nset -s escape-time 0\n",
    "set -g default-terminal screen-256color\nset -g default-size ${width}x$height\n";
  close $file or die $!;
  pipe my $reader, $self->{to} or die "no pipe: $!";
  $self->{to}->autoflush(1);
  $self->{client} = $t->spawn(['tmux', '-S', "$self->{dir}/socket", '-f', "$self->{dir}/conf", '-C', 'new-session',
    '-x', $width, '-y', $height, '/bin/sh'], name => 'tmux', stdin => $reader, env => { ENV => undef });
  close $reader;
  $self->shows(qr/\A[#\$] */);
  $self->run(q(PS1='ready> '; clear));
  $self->shows(qr/\Aready> */);
  return $self;
}

# Runs a command of tmux, returns what it prints.
sub _tmux {
  my ($self, @command) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  open my $out, '-|', 'tmux', '-S', "$self->{dir}/socket", @command or die "tmux: $!";
  my $text = do { local $/; <$out> } // '';
  close $out;
  return $text;
}

sub screen { return $_[0]->_tmux('capture-pane', '-p', '-N') }

# The screen with lines that go beyond the edge, and on in the next one, as one.
sub whole { return $_[0]->_tmux('capture-pane', '-p', '-J') =~ s/ +$//mgr }

sub shows {
  my ($self, $regex, $what) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  $what //= "the screen shows $regex";
  $self->{t}->wait_until(sub { ($last = $self->screen) =~ $regex }, $what);
  pass($what);
  return $last;
}

sub keys { my ($self, @names) = @_; $self->_tmux('send-keys', @names); return }

sub run {
  my ($self, $command) = @_;
  $self->_tmux('send-keys', '-l', $command);
  $self->keys('Enter');
  return;
}

sub resize { my ($self, $width, $height) = @_; $self->_tmux('resize-window', '-x', $width, '-y', $height); return }

# The process that runs a command with this word, and is no child of another one that does; and its first
# child.
sub pids {
  my ($class, $word) = @_;
  my $runs = sub { return _content("/proc/$_[0]/cmdline") =~ /\x{0}\Q$word\E\x{0}/ };
  my $parent = sub { return _content("/proc/$_[0]/stat") =~ /\) \S (\d+) / ? $1 : 0 };
  my ($pid) = grep { $runs->($_) && !$runs->($parent->($_)) } map { m{(\d+)$} } glob '/proc/[0-9]*';
  my ($child) = split ' ', _content("/proc/$pid/task/$pid/children");
  return ($pid, $child);
}

sub _content {
  my ($path) = @_;
  open my $file, '<', $path or return '';
  local $/;
  return <$file> // '';
}

# Ends the shell, and with it the server.
sub close {
  my ($self) = @_;
  $self->run('exit');
  $self->{client}->wait_exit(0);
  return;
}

1;
