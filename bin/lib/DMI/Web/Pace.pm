# Pace.pm - how often a running program is looked at: as often as a given share of a processor allows, and
# not more often than that.  Pure: times come from outside.
package DMI::Web::Pace;

use strict;
use warnings;

# share => of a processor that looking may take; least => seconds between two looks, at least.
sub new {
  my ($class, %opt) = @_;
  return bless { share => $opt{share}, least => $opt{least}, next => 0 }, $class;
}

# When to look next.
sub next { return $_[0]{next} }

# The seconds between two looks, as the last one was.
sub seconds { return $_[0]{seconds} // $_[0]{least} }

# At once, as somebody has begun to look.
sub hurry { $_[0]{next} = 0 }

# Not before then, whatever it costs.
sub later { $_[0]{next} = $_[1] }

# A look began then, and has taken so many seconds of processor time.  In the long run the share is
# kept, as each look is paid for by the time behind it.
sub took {
  my ($self, $began, $cpu) = @_;
  my $needs = $cpu / $self->{share};
  $self->{seconds} = $needs > $self->{least} ? $needs : $self->{least};
  $self->{next} = $began + $self->{seconds};
}

1;
