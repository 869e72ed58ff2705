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
  $wrong =~ s/^Unknown option: (.*)/"unknown option --$1" . _meant($1, @specs)/e;
  $wrong =~ s/^Option (\w) requires an argument/-$1 needs a value/;
  $wrong =~ s/^Option (\S+) requires an argument/--$1 needs a value/;
  die "$wrong; $launcher -h lists the options\n";
}

# The one option of which a part was written, or to which something was added.
sub _meant {
  my ($word, @specs) = @_;
  my @near = grep { length > 1 && (index($_, $word) == 0 || index($word, $_) == 0) } map { split /\|/, s/[=:!+].*//r } @specs;
  return @near == 1 ? " (did you mean --$near[0]?)" : '';
}

1;
