# Way.pm - how an agent is started on a host: directly, by ssh, or by a batch system.
#
# A way is a subclass that names the command to run.  That command's stdin and stdout are then the
# connection to the agent (Frames.pm), its stderr is read for the reason when it fails, and its end
# is the end of the connection.  It must end soon after its stdin has ended and the agent is gone.
#
#   package DMI::Way::Something;
#   use parent -norequire, 'DMI::Way';
#   sub name { 'something' }
#   sub command { my ($self, $line) = @_; ... }    # ($program, @arguments) for a line of NodeFile
#   sub addresses { my ($self, $line, $hello) = @_; ... }   # optional: names by which others
#                                  # reach the host, best first, once the agent has said hello
#   sub reason { my ($self, $text, $status) = @_; ... }     # optional: why it failed, in one line
#   sub at_once { 64 }             # optional: how many may be connecting at the same time
#   sub processes { 1 }            # optional: how many processes one agent may have
#   sub own_session { 1 }          # optional: away from the terminal and its signals
#   sub is_private { 1 }           # optional: nobody on the network can read what it carries
#
# new(bin => directory of dmimw here, ...): a way ignores options that it does not know.
package DMI::Way;

use strict;
use warnings;
use DMI::Status;

sub new { my ($class, %opt) = @_; return bless {%opt}, $class }

sub addresses { my ($self, $line) = @_; return $line->{address} }
sub at_once { return 64 }
sub processes { return 1 }
sub own_session { return 1 }
sub is_private { return 1 }

# The reason of a failure: the last line with text, or how the command ended.
sub reason {
  my ($self, $text, $status) = @_;
  my ($line) = grep { /\S/ } reverse split /[\r\n]+/, $text;
  return $line if defined $line;
  return $self->name . ' ' . DMI::Status::text($status);
}

# The command that starts an agent, for any shell: from the same directory as `bin` here if that
# exists there, else from PATH.  `where`: from that directory only.
sub agent_shell_command {
  my ($self) = @_;
  my $dir = $self->{where} // $self->{bin};
  die "$dir: a directory of that name cannot be passed to another host\n" if $dir =~ /['\n!]/;
  my $quoted = $dir =~ s/([\\"\$`])/\\$1/gr;
  my $else = defined $self->{where} ? '' : 'test -x "$d/dmimw" || exec dmimw --agent; ';
  return qq{exec sh -c 'd="$quoted"; ${else}exec "\$d/dmimw" --agent'};
}

# ---- This host ---------------------------------------------------------------------------------

package DMI::Way::Local;

use strict;
use warnings;
our @ISA = ('DMI::Way');
use Socket qw(:DEFAULT :addrinfo);
use Sys::Hostname ();

sub name { return 'local' }
# Each process needs some descriptors of its agent, and some of its time.
sub processes { return 32 }
sub command { my ($self) = @_; return ($^X, "$self->{bin}/dmimw", '--agent') }

# True if the name means this host, that is, if its address can be bound.
sub is_here {
  my ($class, $name) = @_;
  return 1 if $name eq 'localhost' || lc $name eq lc Sys::Hostname::hostname();
  my ($error, @found) = getaddrinfo($name, '', { socktype => SOCK_STREAM });
  return 0 if $error;
  for my $one (@found) {
    socket my $socket, $one->{family}, SOCK_STREAM, 0 or next;
    return 1 if bind $socket, $one->{addr};
  }
  return 0;
}

1;
