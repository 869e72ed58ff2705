# Frames.pm - messages between dmimw and its agent, over the stdin and stdout of the command that
# connects them (a pipe, ssh, srun).  docs/dmimw.md lists the frames.
#
# A frame is a line "WORD LENGTH\n" and LENGTH bytes.  One agent may have several processes: the frame
# `who` has a number, and all frames up to the next one are about that process, at first 0.  The agent begins with a fixed line, so that
# text which a login shell prints before is not taken for a frame.
#
#   my $frames = DMI::Frames->new($loop, in => $handle, out => $handle,
#     frame => sub { my ($word, $bytes, $number) = @_; ... }, closed => sub { my ($why) = @_; ... });
#   $frames->greeting    sends the agent's line        greeted => sub {...}  expects it first
#   $frames->send($word, $bytes [, $number])           of no process in particular, or of that one
#   $frames->tell($number, $word, key => value, ...)   as JSON; $frames->content($bytes) reads it
#   $frames->message($word, key => value, ...)         the same, of no process in particular
package DMI::Frames;

use strict;
use warnings;
use IO::Handle ();
use JSON::PP ();

my $greeting = "DMIMW-AGENT 1\n";
my $longest = 16 << 20;      # bytes of one frame
my $noise_kept = 64 << 10;   # bytes before the greeting
# Strings are bytes: names of files and arguments need not be text in any encoding.
my $json = JSON::PP->new->latin1->canonical;

sub new {
  my ($class, $loop, %opt) = @_;
  my $self = bless { loop => $loop, got => '', queue => '', noise => '', about => 0, says_about => 0, %opt }, $class;
  $_->blocking(0) for @$self{qw(in out)};
  $self->_read_more(1);
  return $self;
}

sub content { return $json->decode($_[1]) }
sub noise { return $_[0]{noise} }              # what came before the greeting
sub queued { return length $_[0]{queue} }      # bytes that could not be written yet

sub greeting { $_[0]->_put("\n$greeting") }
sub message { my ($self, $word, %content) = @_; return $self->send($word, $json->encode(\%content)) }
sub tell { my ($self, $number, $word, %content) = @_; return $self->send($word, $json->encode(\%content), $number) }

sub send {
  my ($self, $word, $bytes, $number) = @_;
  my $who = '';
  if (defined $number && $number != $self->{says_about}) {
    $self->{says_about} = $number;
    $who = 'who ' . length($number) . "\n$number";
  }
  return $self->_put("$who$word " . length($bytes) . "\n$bytes");
}

sub _put {
  my ($self, $bytes) = @_;
  return unless $self->{out};
  $self->{queue} .= $bytes;
  $self->_write;
  return;
}

sub _write {
  my ($self) = @_;
  my $out = $self->{out} or return;
  while ($self->{queue} ne '') {
    my $count = syswrite $out, $self->{queue}, 65536;
    if (!defined $count) {
      next if $!{EINTR};
      last if $!{EAGAIN};
      return $self->close_out;    # `in` will then report the end
    }
    substr $self->{queue}, 0, $count, '';
  }
  $self->{loop}->writes($out, $self->{queue} eq '' ? undef : sub { $self->_write });
  if ($self->{drained}) { $self->{drained}->(length $self->{queue}) }
  return;
}

# Sends no more; the other side reads the end.
sub close_out {
  my ($self) = @_;
  my $out = delete $self->{out} or return;
  $self->{queue} = '';
  $self->{loop}->close($out);
  $self->{drained}->(0) if $self->{drained};
  return;
}

sub close {
  my ($self) = @_;
  $self->close_out;
  my $in = delete $self->{in} or return;
  $self->{loop}->close($in);
  return;
}

sub paused { return $_[0]{paused} }

# Stops reading for a while, because the output is full.
sub pause {
  my ($self, $on) = @_;
  return if !$self->{in} || !!$on == !!$self->{paused};
  $self->{paused} = $on;
  $self->_read_more(!$on);
  return;
}

sub _read_more {
  my ($self, $on) = @_;
  $self->{loop}->reads($self->{in}, $on ? sub { $self->_read } : undef);
  return;
}

sub _read {
  my ($self) = @_;
  my $in = $self->{in} or return;
  my $count = sysread $in, $self->{got}, 65536, length $self->{got};
  return if !defined $count && ($!{EAGAIN} || $!{EINTR});
  if ($count) { return $self->_take }
  my $closed = $self->{closed};
  $self->close;
  $closed->('the connection was closed');
  return;
}

# Reads all that has arrived already; used when the process at the other end has ended.
sub drain {
  my ($self) = @_;
  $self->pause(0);
  while (my $in = $self->{in}) {
    my $count = sysread $in, $self->{got}, 65536, length $self->{got};
    next if !defined $count && $!{EINTR};
    last unless $count;
    $self->_take;
  }
  return;
}

sub _take {
  my ($self) = @_;
  return if $self->{greeted} && !$self->_skip_noise;
  while ($self->{got} =~ /\A([a-z]+) (\d{1,9})\n/) {
    my ($word, $length, $head) = ($1, $2, $+[0]);
    return $self->_broken if $length > $longest;
    return if length $self->{got} < $head + $length;
    my $bytes = substr $self->{got}, $head, $length;
    substr $self->{got}, 0, $head + $length, '';
    if ($word ne 'who') { $self->{frame}->($word, $bytes, $self->{about}) }
    elsif ($bytes =~ /\A\d{1,9}\z/) { $self->{about} = $bytes + 0 }
    else { return $self->_broken }
    return unless $self->{in};
  }
  $self->_broken if $self->{got} !~ /\A(?:[a-z]{0,16}|[a-z]{1,16} \d{0,9})\z/;
  return;
}

# True when the greeting has come.
sub _skip_noise {
  my ($self) = @_;
  my $at = index "\n$self->{got}", "\n$greeting";
  if ($at < 0) {
    my $excess = length($self->{got}) - $noise_kept;
    substr $self->{got}, 0, $excess, '' if $excess > 0;
    $self->{noise} = $self->{got};
    return 0;
  }
  $self->{noise} = substr $self->{got}, 0, $at;
  substr $self->{got}, 0, $at + length $greeting, '';
  (delete $self->{greeted})->();
  return 1;
}

sub _broken {
  my ($self) = @_;
  my $closed = $self->{closed};
  $self->close;
  $closed->('what came is no message of dmimw or its agent');
  return;
}

1;
