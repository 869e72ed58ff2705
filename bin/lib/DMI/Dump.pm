# Dump.pm - what all processes of a running program are doing, as one file: for the launcher, at the second
# Ctrl+C.  dmirun --dump writes it; one process of the program is asked, and if that gives no answer the
# next one.
package DMI::Dump;

use strict;
use warnings;
use Fcntl qw(F_SETFD);
use File::Temp ();
use POSIX ();

# loop => DMI::Loop; command => dmirun; key => the line; who => [[host, port] ...], whom to ask, best first;
# done => called with the path of the file, or undef if nobody has answered.
sub new {
  my ($class, %opt) = @_;
  my $self = bless { %opt, who => [@{ $opt{who} }] }, $class;
  $self->_next;
  return $self;
}

# Nobody waits for it any more.
sub cancel {
  my ($self) = @_;
  my $pid = delete $self->{pid} or return;
  kill KILL => $pid;
  unlink $self->{path};
  return;
}

sub _next {
  my ($self) = @_;
  return if eval { $self->_ask(@{ shift @{ $self->{who} } // die "nobody is left\n" }); 1 };
  return $self->{done}->(undef);
}

# Dies if it cannot be done.
sub _ask {
  my ($self, $host, $port) = @_;
  my ($file, $path) = File::Temp::tempfile('dmi-dump.XXXXXX', TMPDIR => 1, UNLINK => 0);
  close $file;
  pipe my $reads, my $tells or die "$!\n";
  my $pid = fork // die "$!\n";
  if ($pid == 0) {
    POSIX::setpgid(0, 0);    # Ctrl+C is not for it
    $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE TERM HUP INT CONT TSTP);
    my $null = POSIX::open('/dev/null', POSIX::O_RDWR());
    POSIX::dup2($null, $_) for 0 .. 2;
    fcntl $reads, F_SETFD, 0;
    delete $ENV{DMI_EVENT_FD};    # that is ours
    no warnings 'exec';
    exec { $self->{command} } $self->{command}, '--dump', $path, '--key-fd', fileno $reads, -i => $host, -p => $port;
    POSIX::_exit(127);
  }
  syswrite $tells, "$self->{key}\n";    # short: it fits into the pipe
  close $_ for $reads, $tells;
  @$self{qw(pid path)} = ($pid, $path);
  $self->{loop}->child($pid, sub { $self->_ended(@_) });
  return;
}

sub _ended {
  my ($self, $status) = @_;
  return unless delete $self->{pid};
  return $self->{done}->($self->{path}) if !$status && -s $self->{path};
  unlink $self->{path};
  return $self->_next;
}

1;
