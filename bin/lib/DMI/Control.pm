# Control.pm - requests to a running dmimw from other commands: add hosts, remove hosts, show its
# state, end it.
#
# Each set has a socket in a directory that only its user can enter.  A request is a line of JSON,
# {op => ..., ...}; answers are lines, {say => text} any number of times, and {end => exit status}
# at last.  The command that asks may end at any time: the request goes on.
package DMI::Control;

use strict;
use warnings;
use DMI::Key;
use Errno ();
use Fcntl qw(O_RDONLY O_DIRECTORY O_NOFOLLOW);
use IO::Handle ();
use JSON::PP ();
use POSIX ();
use Socket;
use Sys::Hostname ();

my $json = JSON::PP->new->latin1->canonical;
my $longest_request = 64 << 10;

# Where sockets may be: lists of directories, each inside the one before, with the permissions that
# it must not have.  The sockets are in the last one.  No directory may be one that everybody can
# write to, since another user could make the names first.  The one in the home directory contains
# the host's name, as hosts may share homes.
sub _places {
  my ($runtime, $home) = ($ENV{XDG_RUNTIME_DIR} // '', eval { DMI::Key->directory });
  my $host = Sys::Hostname::hostname() =~ s/[^\w.-]/_/gr;
  return ($runtime =~ m{^/} ? [[$runtime, 077], ["$runtime/dmi", 077]] : (),
    defined $home ? [[$home, 022], ["$home/run", 077], ["$home/run/$host", 077]] : ());
}

# The directory of the sockets; undef when it does not exist, belongs to another user, or others can
# use it.
sub _directory {
  my ($make, $place) = @_;
  for my $part (@$place) {
    my ($dir, $forbidden) = @$part;
    mkdir $dir, 0700 if $make;
    my ($mode, $owner) = (lstat $dir)[2, 4];
    return undef unless defined $mode && -d _ && $owner == $> && ($mode & $forbidden) == 0;
  }
  return $place->[-1][0];
}

sub _directories { return grep { defined } map { _directory(0, $_) } _places() }

# Calls `call` with a socket and the address of NAME in a directory.  The address names the
# directory by a descriptor, since addresses are short and names of directories may be long.
sub _with_socket {
  my ($dir, $name, $call) = @_;
  sysopen my $handle, $dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW or return;
  socket my $socket, AF_UNIX, SOCK_STREAM, 0 or return;
  my $address = pack_sockaddr_un('/proc/self/fd/' . fileno($handle) . "/$name.sock");
  return $socket if $call->($socket, $address);
  my $why = $! + 0;
  close $_ for $handle, $socket;
  $! = $why;
  return;
}

# Names of sets whose dmimw runs, the newest first.  Sockets of others, which have ended, are
# removed.
sub sets {
  my %time;
  for my $dir (_directories()) {
    opendir my $names, $dir or die "$dir: $!\n";
    for my $name (map { /^(.+)\.sock$/ ? $1 : () } readdir $names) {
      my $path = "$dir/$name.sock";
      if (_with_socket($dir, $name, \&_connect)) { $time{$name} = (stat $path)[10] // 0 }
      elsif ($!{ECONNREFUSED}) { unlink $path }
    }
  }
  return sort { $time{$b} <=> $time{$a} || $a cmp $b } keys %time;
}

sub _connect { return connect $_[0], $_[1] }

# A connection to the dmimw of a set; undef: there is none.
sub _open {
  my ($name) = @_;
  for my $dir (_directories()) {
    my $socket = _with_socket($dir, $name, \&_connect);
    return $socket if $socket;
  }
  return undef;
}

# ---- In dmimw ----------------------------------------------------------------------------------

# Listens for requests about a set.  Dies with a reason.
sub new {
  my ($class, $set, $name) = @_;
  die "--set $name: a name has at most 80 characters\n" if length $name > 80;
  if (grep { $_ eq $name } sets()) { die "--set $name: that name is in use\n" }
  my ($dir) = grep { defined } map { _directory(1, $_) } _places()
    or die "no directory of yours alone for --add and --status: set XDG_RUNTIME_DIR to one\n";
  my $path = "$dir/$name.sock";
  my $mask = umask 0177;
  my $socket = _with_socket($dir, $name, sub { return bind $_[0], $_[1] });
  my $why = "$!";
  umask $mask;
  die "$path: $why\n" unless $socket;
  listen $socket, 16 or die "$path: $!\n";
  $socket->blocking(0);
  my $self = bless { set => $set, path => $path, socket => $socket, owner => $$ }, $class;
  $set->loop->reads($socket, sub { $self->_accept });
  return $self;
}

sub DESTROY {
  my ($self) = @_;
  local ($@, $!, $?);
  unlink $self->{path} if $self->{path} && $self->{owner} == $$;
}

sub _accept {
  my ($self) = @_;
  accept my $client, $self->{socket} or return;
  $client->blocking(0);
  my $asker = { handle => $client, got => '', queue => '' };
  $self->{set}->loop->reads($client, sub { $self->_read($asker) });
  return;
}

sub _read {
  my ($self, $asker) = @_;
  my $count = sysread $asker->{handle}, $asker->{got}, 4096, length $asker->{got};
  return if !defined $count && ($!{EAGAIN} || $!{EINTR});
  return $self->_close($asker) if !$count || length $asker->{got} > $longest_request;
  return if $asker->{asked} || $asker->{got} !~ /\A(.*)\n/;
  $asker->{asked} = 1;
  my $request = eval { $json->decode($1) };
  my %on = (status => \&_status, add => \&_add, remove => \&_remove, stop => \&_stop);
  my $call = ref $request eq 'HASH' && $on{ $request->{op} // '' };
  return $self->_end($asker, 2, 'this dmimw does not know that request') unless $call;
  eval { $self->$call($asker, $request); 1 } or $self->_end($asker, 1, $@ =~ s/\n\z//r);
  return;
}

sub _close {
  my ($self, $asker) = @_;
  my $handle = delete $asker->{handle} or return;
  $self->{set}->loop->forget($handle);
  $self->{set}->unwatch(delete $asker->{watch}) if $asker->{watch};
  close $handle;
  return;
}

sub _say {
  my ($self, $asker, %answer) = @_;
  return unless $asker->{handle};
  $asker->{queue} .= $json->encode(\%answer) . "\n";
  return $self->_write($asker);
}

sub _end {
  my ($self, $asker, $status, $why) = @_;
  $self->_say($asker, say => $why) if defined $why;
  $asker->{ending} = 1;
  return $self->_say($asker, end => $status);
}

sub _write {
  my ($self, $asker) = @_;
  my $handle = $asker->{handle} or return;
  my $count = syswrite $handle, $asker->{queue};
  if (defined $count) { substr $asker->{queue}, 0, $count, '' }
  elsif (!$!{EAGAIN} && !$!{EINTR}) { return $self->_close($asker) }
  return $self->_close($asker) if $asker->{ending} && $asker->{queue} eq '';
  $self->{set}->loop->writes($handle, $asker->{queue} eq '' ? undef : sub { $self->_write($asker) });
  return;
}

# The line for the user about a step of a process.
sub _step {
  my ($member) = @_;
  my ($name, $state) = ($member->name, $member->state);
  return "$name: " . ($member->problem // 'it has left')
    if $member->is_final;
  return "$name: asked to leave, and waiting: $member->{stays_for}" if defined $member->{stays_for};
  return "$name: listens on port $member->{port}" if $state eq 'listening';
  return "$name: $state";
}

sub _add {
  my ($self, $asker, $request) = @_;
  my $set = $self->{set};
  my $last = '';
  my $watch = $asker->{watch} = sub {
    my ($member) = @_;
    return if $last eq $member->state;
    $last = $member->state;
    return if $last =~ /^(?:waiting|connecting|connected|starting)$/;
    if ($last eq ($member->{line}{witness} ? 'joined' : 'opened')) { $self->_end($asker, 0, _step($member)) }
    elsif ($member->is_final) { $self->_end($asker, 1, _step($member)) }
    else { $self->_say($asker, say => _step($member)) }
  };
  $set->add($request->{line}, $watch);
  return;
}

sub _remove {
  my ($self, $asker, $request) = @_;
  my ($total, $gone, $status) = (undef, 0, 0);
  my %last;
  my $look = sub { $self->_end($asker, $status) if defined $total && $gone == $total };
  my $watch = $asker->{watch} = sub {
    my ($member) = @_;
    my $step = _step($member);
    return if ($last{$member} // '') eq $step;
    $last{$member} = $step;
    $self->_say($asker, say => $step . ($member->is_final ? '' : $self->_why_it_may_stay($member)));
    return unless $member->is_final;
    $status = 1 if defined $member->problem;
    $gone++;
    $look->();
  };
  $total = $self->{set}->remove($request->{name}, $watch);
  return $look->();
}

# What its user may not know, when this process has not left at once.
sub _why_it_may_stay {
  my ($self, $member) = @_;
  my $has_main = $member == $self->{set}{first} && !$self->{set}{outside};
  return $has_main ? '; it ends when DMI_main has returned there' : '' if $member->state eq 'left';
  return '' unless defined $member->{stays_for};
  return ($has_main ? '; DMI_main runs there (dmimw --stop asks all processes to leave)' : '')
    . '; Ctrl+C ends only this command, the request stays';
}

# Asks all to leave.  The answer ends when they have, with the set.
sub _stop {
  my ($self, $asker) = @_;
  my $set = $self->{set};
  push @{ $self->{stopping} }, $asker;
  my %last;
  my $watch = $asker->{watch} = sub {
    my ($member) = @_;
    my $step = _step($member);
    return if ($last{$member} // '') eq $step;
    $last{$member} = $step;
    $self->_say($asker, say => $step) if $member->state =~ /^(?:closed|left)\z/ || $member->is_final;
  };
  my @left = grep { !$_->is_final } $set->members;
  $set->watch($_, $watch) for @left;
  $self->_say($asker, say => "$set->{name}: all processes are asked to leave");
  $set->stop;
  $watch->($_) for grep { defined $_->{stays_for} } @left;    # they were asked before
  return;
}

# The set has ended; nobody waits any more in the loop.
sub finish {
  my ($self, $status) = @_;
  for my $asker (@{ $self->{stopping} // [] }) {
    $self->_end($asker, 0, "$self->{set}{name} has ended" . ($status ? " with status $status" : ''));
  }
  return;
}

sub _status {
  my ($self, $asker) = @_;
  my $set = $self->{set};
  $self->_say($asker, say => sprintf '%s: %s, started %s by process %d',
    $set->{name}, join(' ', @{ $set->{program} }), _time($set->{started}), $$);
  my @rows = (['NAME', 'STATE', 'PORT', 'PID', 'SINCE']);
  push @rows, [$_->name, $_->state, $_->{port} // '-', $_->{pid} // '-', _time($_->{since}),
    $_->problem // ()] for $set->members;
  my @width;
  for my $row (@rows) {
    for my $i (0 .. 3) { $width[$i] = length $row->[$i] if length $row->[$i] > ($width[$i] // 0) }
  }
  $self->_say($asker, say => sprintf "%-$width[0]s  %-$width[1]s  %$width[2]s  %$width[3]s  %s",
    @$_[0 .. 3], join '  ', @$_[4 .. $#$_]) for @rows;
  return $self->_end($asker, 0);
}

sub _time { return POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime $_[0]) }

# ---- In the dmimw that asks --------------------------------------------------------------------

# Sends a request to the set `name` (undef: the only one there is) and prints the answers.  Returns
# an exit status. Dies with a reason.
sub ask {
  my ($class, $name, %request) = @_;
  if (!defined $name) {
    my @sets = sets();
    die "no dmimw of yours runs on this host\n" unless @sets;
    die @sets . " sets run on this host; say which one: " . join(' or ', map { "--set $_" } @sets) . "\n" if @sets > 1;
    $name = $sets[0];
  }
  my $socket = _open($name) or die "no dmimw of yours with --set $name runs on this host\n";
  $socket->autoflush(1);
  print $socket $json->encode(\%request), "\n";
  STDOUT->autoflush(1);
  my $status;
  while (my $line = <$socket>) {
    my $answer = $json->decode($line);
    if (defined $answer->{say}) { print "$answer->{say}\n" or die "cannot write the output: $!\n" }
    $status //= $answer->{end};
  }
  return $status // die "dmimw has ended\n";
}

1;
