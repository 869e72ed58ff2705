# Munge.pm - encrypts a few bytes for this user on other hosts of a batch system, by munge, the
# service by which Slurm authenticates users.  Others on the network cannot read them.
#
#   my $credential = DMI::Munge->wrap($text);       # one line of text
#   my $text = DMI::Munge->unwrap($credential);     # once on each host, within some minutes
#
# Both ask munged on their own host, which answers at once, and die with a reason.
package DMI::Munge;

use strict;
use warnings;
use POSIX ();

sub wrap {
  my ($class, $text) = @_;
  chomp(my $credential = _ask($text, 'munge', '--cipher=aes256', "--restrict-uid=$>"));
  return $credential;
}

sub unwrap {
  my ($class, $credential) = @_;
  my $text = _ask($credential, 'unmunge', '--keys=UID');
  # The text must not become part of an error message: it may be a secret.
  my ($user) = $text =~ s/\AUID:[^\n]*\((\d+)\)\n\n// ? $1 : die "unmunge: it says no UID\n";
  die "unmunge: it is from user $user\n" if $user != $>;
  return $text;
}

sub _ask {
  my ($input, @command) = @_;
  my $text = eval { _run($input, @command) };
  return $text if defined $text;
  my $why = $@;
  my $socket = _socket() // die $why;
  return _run($input, @command, "--socket=$socket");
}

# The socket that Slurm is configured with; undef: the default one.
sub _socket {
  my $config = eval { _run('', qw(scontrol show config)) } // '';
  return $config =~ /^AuthInfo\s*=\s*(?:.*,)?socket=([^,\s]+)/m ? $1 : undef;
}

# Returns what a command prints on stdout.  `input` is short, so that it fits into a pipe.  If the
# command fails, dies with the first line of its stderr; warnings are dropped.
sub _run {
  my ($input, @command) = @_;
  pipe my $reader, my $writer or die "no pipe: $!\n";
  open my $errors, '+>', undef or die "no file for errors: $!\n";
  my $pid = open(my $out, '-|') // die "no process: $!\n";
  if ($pid == 0) {
    no warnings 'exec';
    open STDIN, '<&', $reader and open STDERR, '>&', $errors and exec { $command[0] } @command;
    syswrite $errors, "$command[0]: $!\n";
    POSIX::_exit(127);
  }
  close $reader;
  syswrite $writer, $input;
  close $writer;
  my $text = do { local $/; <$out> } // '';
  return $text if close $out;
  seek $errors, 0, 0;
  my $why = <$errors> // "$command[0] failed\n";
  die $why =~ s/\n*\z/\n/r;
}

1;
