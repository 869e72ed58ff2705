# Output.pm - writes the output of the processes, in whole lines, to stdout and stderr, and to log
# files.
#
# It never waits for a slow reader: lines are queued up to a limit; then `full` is called, so that
# the processes wait instead.
package DMI::Output;

use strict;
use warnings;
use Errno ();
use Fcntl qw(O_WRONLY O_APPEND O_CREAT);
use IO::Handle ();

my $longest_line = 1 << 20;    # bytes; a longer one is passed on in pieces
my ($full_at, $retry_at) = (1 << 20, 256 << 10);

# launcher => the name of the command; tag => put the name of the process before its lines; log => directory for a file of each process;
# full => called with 1 and 0; broken => called when nobody reads any more.
sub new {
  my ($class, $loop, %opt) = @_;
  my $self = bless { loop => $loop, parts => {}, logs => {}, %opt }, $class;
  for my $stream ([out => \*STDOUT], [err => \*STDERR]) {
    my ($name, $handle) = @$stream;
    # After poll, a pipe takes at least so many bytes at once; a file takes any number.
    $self->{$name} = { handle => $handle, queue => '', piece => -f $handle ? 1 << 20 : 4096 };
  }
  return $self;
}

# Writes a line of the launcher itself.
sub say {
  my ($self, $text) = @_;
  return $self->_put('err', "$self->{launcher}: $text\n");
}

# Takes bytes that process `name` wrote to 'out' or 'err'.
sub take {
  my ($self, $name, $stream, $bytes) = @_;
  my $part = \($self->{parts}{$name}{$stream} //= '');
  $$part .= $bytes;
  my $end = rindex $$part, "\n";
  if ($end < 0) {
    return if length $$part < $longest_line;
    $end = length($$part) - 1;
  }
  my $lines = substr $$part, 0, $end + 1, '';
  return $self->_lines($name, $stream, $lines);
}

# Several processes write this text, in a line `dmi: TEXT`, or others about the same: it is shown once, and
# once more where it has what a lost process has told of its end itself, which names its pid.  Log files have
# it each time.
sub once {
  my ($self, $text, $about) = @_;
  $self->{once}{"dmi: $text"} //= $self->{about}{$about} //= \(my $said = 0);
  return;
}

# The line of a process, or '' if that was said.
sub _unless_said {
  my ($self, $line) = @_;
  my $said = $self->{once}{$line} // return "$line\n";
  my $tells = $line =~ /\bpid \d/ ? 2 : 1;
  return '' if $tells <= $$said;
  $$said = $tells;
  return "$line\n";
}

# All processes are killed: that others lose them is no news.
sub hide_losses { $_[0]{kills} = 1; return }

# A file that cannot be written is often that of all processes of a host: told once.
sub _unless_told {
  my ($self, $name, $line) = @_;
  my $host = $name =~ s{/\d+\z}{}r;
  return $self->{cannot}{$host}{$line}++ ? '' : "$line\n";
}

sub _lines {
  my ($self, $name, $stream, $lines) = @_;
  if (defined $self->{log}) { $self->_to_log($name, $lines) }
  if ($self->{kills} && $lines =~ s/^dmi: lost .*\n//gm && $lines eq '') { return }
  if ($lines =~ s/^(dmi: cannot write .*)\n/$self->_unless_told($name, $1)/gme && $lines eq '') { return }
  if ($self->{once}) {
    $lines =~ s/^(.*)\n/$self->_unless_said($1)/gme;
    return if $lines eq '';
  }
  if ($self->{tag}) {
    my $within = $self->{within}{$name}{$stream};    # true: inside of a long line
    $self->{within}{$name}{$stream} = $lines !~ /\n\z/;
    $lines =~ s/^/$name: /mg;
    substr $lines, 0, length "$name: ", '' if $within;
  }
  return $self->_put($stream, $lines);
}

# The last line of a process may end without a newline.
sub finish {
  my ($self, $name) = @_;
  my $parts = delete $self->{parts}{$name} || {};
  for my $stream (sort keys %$parts) {
    $self->_lines($name, $stream, "$parts->{$stream}\n")
      if $parts->{$stream} ne '' || $self->{within}{$name}{$stream};
  }
  delete $self->{within}{$name};
  my $log = delete $self->{logs}{$name} or return;
  close $log or delete $self->{log_failed}{$name} or $self->say("--log: $name: $!");
  return;
}

sub _to_log {
  my ($self, $name, $lines) = @_;
  my $log = $self->_log($name);
  return if print { $log } $lines;
  $self->say("--log: $name: $!; not all of what it writes is in its file") unless $self->{log_failed}{$name}++;
  return;
}

sub _log {
  my ($self, $name) = @_;
  return $self->{logs}{$name} //= do {
    my $path = "$self->{log}/" . ($name =~ s{[^\w.:@-]}{.}gr) . '.log';
    # What a process writes may be for its user only: the address of a page has its token in it.
    sysopen my $file, $path, O_WRONLY | O_APPEND | O_CREAT, 0600 or die "--log: $path: $!\n";
    $file->autoflush(1);
    $file;
  };
}

sub _put {
  my ($self, $name, $bytes) = @_;
  my $stream = $self->{$name};
  return if $stream->{gone};
  $stream->{queue} .= $bytes;
  $self->{loop}->writes($stream->{handle}, sub { $self->_write($stream) });
  $self->_look;
  return;
}

sub _write {
  my ($self, $stream) = @_;
  my $count = syswrite $stream->{handle}, $stream->{queue}, $stream->{piece};
  if (!defined $count) {
    return if $!{EAGAIN} || $!{EINTR};
    $stream->{gone} = "$!";
    $stream->{queue} = '';
    $self->say("cannot write the output of the processes: $stream->{gone}; all are asked to leave")
      if $stream == $self->{out} && !$!{EPIPE};
  }
  else { substr $stream->{queue}, 0, $count, '' }
  $self->{loop}->writes($stream->{handle}) if $stream->{queue} eq '';
  $self->_look;
  $self->{broken}->($stream->{gone}) if $stream->{gone};
  return;
}

sub queued { return length($_[0]{out}{queue}) + length($_[0]{err}{queue}) }

sub _look {
  my ($self) = @_;
  my $queued = $self->queued;
  my $full = $queued > ($self->{is_full} ? $retry_at : $full_at);
  if ($full != ($self->{is_full} // 0)) {
    $self->{is_full} = $full || 0;
    $self->{full}->($self->{is_full});
  }
  $self->{empty}->() if $queued == 0 && $self->{empty};
  return;
}

1;
