# Json.pm - JSON, by JSON::XS where it is installed (Debian: libjson-xs-perl), which takes a tenth of the
# processor time; else by JSON::PP, which comes with Perl.
package DMI::Json;

use strict;
use warnings;

my $class = eval { require JSON::XS; 'JSON::XS' } || do { require JSON::PP; 'JSON::PP' };

# Bytes (UTF-8) to a value; dies if they are no JSON.
sub decode { return $class->new->utf8->decode($_[0]) }

# A value to bytes, in one line.
sub encode { return $class->new->utf8->canonical->encode($_[0]) }

1;
