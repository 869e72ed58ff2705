# Options.pm - the rows of lib/node/option_table.h: what dmirun and dmimw know of the options of a
# process.  Used when they and their man pages are built, not when they run.
#
#   perl -Ibin/lib -MDMI::Options -pe 'BEGIN { $/ = undef; DMI::Options->read(TABLE) } DMI::Options->fill'
package DMI::Options;

use strict;
use warnings;

my @names = qw(field variable type least default option argument set help);
my @rows;
# For what options are: so dmirun -h and its man page group them.
my @groups = (
  ['Starting and joining', qw(-i -p -l -s --contact --check)],
  ['Memory and processors', qw(--spill --bind-threads --share --spin)],
  ['Network and key', qw(--bind --advertise --no-shm --key --key-fd --encrypt)],
  ['Lost processes', qw(--survive --dead-after --trust-refused --witness)],
  ['Looking at a running program', qw(--status --threads --top --dump --json --web)],
  ['What is written while it runs', qw(--on-error --events --profile --trace)],
  ['OpenXM clients', qw(--ox)],
  ['For launchers', qw(--ready-fd --with-parent --grace)],
  ['Others'],
);

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

# The lines of `dmirun -h`, with titles.
sub usage {
  my $text = '';
  my %at = map { my $group = $groups[$_]; map { $_ => $group } @$group[1 .. $#$group] } 0 .. $#groups;
  for my $group (@groups) {
    my @of = grep { $_->{help} ne '' && ($at{ $_->{option} } // $groups[-1]) == $group } @rows;
    $text .= "$group->[0]:\n" . _lines(@of) if @of;
  }
  return $text;
}

# None is longer than 80 characters.
sub _lines {
  my $text = '';
  for my $row (@_) {
    my $line = sprintf '  %-8s ', join ' ', grep { $_ ne '' } @$row{qw(option argument)};
    for my $word (split ' ', $row->{help}) {
      if (length("$line $word") > 80) {
        $text .= "$line\n";
        $line = ' ' x 11;
      }
      $line .= " $word";
    }
    $text .= "$line\n";
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
