# Ssh.pm - starts agents by ssh, with the user's own configuration (~/.ssh/config, agent, keys).
#
# ssh must not ask for anything: many of them run at once, without the terminal.  With `ask` they
# connect one after the other, and each may ask for a password on the terminal.
package DMI::Way::Ssh;

use strict;
use warnings;
use DMI::Way;
use Text::ParseWords ();
our @ISA = ('DMI::Way');

sub name { return 'ssh' }

# ssh => the command with options, split as a shell would; default ssh.
sub command {
  my ($self, $line) = @_;
  my @ssh = Text::ParseWords::shellwords($self->{ssh} // 'ssh');
  push @ssh, '-o', 'BatchMode=yes' unless $self->{ask};
  return (@ssh, '-T', $line->{host}, $self->agent_shell_command);
}

sub at_once { return $_[0]{ask} ? 1 : 64 }
sub own_session { return !$_[0]{ask} }

# The name in the file may be an alias that only ssh knows; then the address that ssh used helps.
sub addresses {
  my ($self, $line, $hello) = @_;
  my (undef, undef, $address) = split ' ', $hello->{ssh} // '';
  return ($line->{address}, defined $address && $address ne $line->{address} ? $address : ());
}

sub reason {
  my ($self, $text, $status) = @_;
  my $reason = $self->SUPER::reason($text, $status);
  my $hint =
      $reason =~ /Permission denied/ && !$self->{ask}
        ? 'ssh could not ask; load the key with ssh-add, or use --ask'
    : $reason =~ /Host key verification failed/ && !$self->{ask}
        ? 'connect once by hand, or use --ask'
    : $reason =~ /dmimw.*(?:not found|No such file)/i
        ? 'is DMI installed there? --bin says where'
    : '';
  return $hint ? "$reason ($hint)" : $reason;
}

1;
