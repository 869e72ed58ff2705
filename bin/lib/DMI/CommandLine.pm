# CommandLine.pm - reads the options of a launcher.  They end at the first word that is none: the
# program.
package DMI::CommandLine;

use strict;
use warnings;
use Getopt::Long ();

# Takes options from @ARGV; `specs` as for Getopt::Long.  Returns them, as a hash; dies with a line.
sub parse {
  my ($launcher, @specs) = @_;
  my (%opt, $wrong);
  local $SIG{__WARN__} = sub { $wrong //= $_[0] };
  Getopt::Long::Configure(qw(bundling require_order no_ignore_case no_auto_abbrev));
  return \%opt if Getopt::Long::GetOptions(\%opt, @specs);
  chomp($wrong //= 'wrong options');
  $wrong =~ s/^Unknown option: (.)$/unknown option -$1/;
  $wrong =~ s/^Unknown option: (.*)/unknown option --$1/;
  $wrong =~ s/^Option (\w) requires an argument/-$1 needs a value/;
  $wrong =~ s/^Option (\S+) requires an argument/--$1 needs a value/;
  die "$wrong; $launcher -h lists the options\n";
}

1;
