# Options.pm - the rows of lib/node/option_table.h: what dmirun and dmimw know of the options of a
# process.  Used when they and their man pages are built, not when they run.
#
#   perl -Ibin/lib -MDMI::Options -pe 'BEGIN { $/ = undef; DMI::Options->read(TABLE) } DMI::Options->fill'
package DMI::Options;

use strict;
use warnings;

my @names = qw(field variable type least default option argument set help);
my @rows;

# Reads the table for later calls.  Returns its rows, as hashes.
sub read {
  my ($class, $path) = @_;
  open my $file, '<', $path or die "$path: $!\n";
  my $text = do { local $/; <$file> } =~ s/ *\\\n */ /gr;
  my $count = () = $text =~ /\bOPTION\(\w+, DMI_/g;
  my $string = qr/"(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*/;
  my $number = qr/-?\d+|DMI_\w+/;
  @rows = ();
  while ($text =~ /\bOPTION\((\w+), (\w+), (\w+), ($number), ($number), ($string), ($string), (\w+), ($string)\)/g) {
    my %row;
    @row{@names} = ($1, $2, $3, $4, $5, $6, $7, $8, $9);
    for (@row{qw(option argument help)}) { s/" "//g; s/^"|"$//g; s/\\n/\n/g; s/\\(.)/$1/g }
    push @rows, \%row;
  }
  die "$path: " . ($count - @rows) . " of $count rows are not understood\n" if @rows != $count || !$count;
  return @rows;
}

# The lines of `dmirun -h`.
sub usage {
  my $text = '';
  for my $row (grep { $_->{help} ne '' } @rows) {
    my $head = join ' ', grep { $_ ne '' } @$row{qw(option argument)};
    $head = length $head > 8 ? "  $head  " : sprintf '  %-9s ', $head;
    my $indent = ' ' x length $head;
    $text .= $head . $row->{help} =~ s/\n/\n$indent/gr . "\n";
  }
  return $text;
}

# What Getopt::Long takes.
sub specs {
  my (%seen, @specs);
  for my $row (grep { $_->{option} ne '' } @rows) {
    my $name = $row->{option} =~ s/^-+//r;
    push @specs, $row->{argument} eq '' ? $name : "$name=s" unless $seen{$name}++;
  }
  return @specs;
}

# Replaces marks in $_:
#   @OPTIONS@  the lines of `dmirun -h`    @OPTION_SPECS@  what Getopt::Long takes
#   @OPTION_VARIABLES@  variables that only options set    @OWN_VARIABLES@  those, and others that are
#   not for all processes    @OPTION_LEAST@  variable => least value, of numbers
sub fill {
  my $names = sub {
    my %how = map { $_ => 1 } @_;
    return join ' ', map { $_->{variable} } grep { $how{ $_->{set} } } @rows;
  };
  my @numbers = grep { $_->{type} =~ /^(?:PORT|BYTES|INT|SECONDS)\z/ } @rows;
  my $least = join ', ', map { "$_->{variable} => $_->{least}" } @numbers;
  s/^\@OPTIONS\@\n/usage()/mge;
  s/\@OPTION_SPECS\@/join ' ', specs()/ge;
  s/\@OPTION_VARIABLES\@/$names->('CLEARED')/ge;
  s/\@OWN_VARIABLES\@/$names->('CLEARED', 'KEPT')/ge;
  s/\@OPTION_LEAST\@/$least/g;
  return;
}

1;
