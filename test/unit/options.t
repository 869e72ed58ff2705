#!/usr/bin/perl
# options.t - what can be set when a process starts is one table, lib/node/option_table.h: dmirun
# has its options, prints them and sets their variables, and dmi(7) describes each, with its option
# and its default.  The checks themselves are tested with wrong rows.
# Not in the small form: what it tests is Perl and a text.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Options;
use DMI::Settings;
use DMI::Several;
use Test::More;

my $top = "$FindBin::Bin/../..";
my ($build) = grep { defined && -x "$_/bin/dmirun" } $ENV{DMI_BUILD_DIR}, '.', "$top/build";

sub content {
  my ($name) = @_;
  open my $file, '<', $name or die "$name: $!";
  local $/;
  return scalar <$file>;
}

# How people write that number.
sub number_text {
  my ($number) = @_;
  return $number % (1 << 30) == 0 ? $number / (1 << 30) . '[ ]?G(?:iB)?' : $number;
}

# What is wrong with these rows, by these texts.
sub faults {
  my ($pod, $dmirun, @rows) = @_;
  my @faults;
  my %item = map { /^=item B<(DMI_\w+)>\n(.*)/s ? ($1 => $2) : () } split /^(?==)/m, $pod;
  for my $row (@rows) {
    my ($name, $option, $default) = @$row{qw(variable option default)};
    my $text = $item{$name} // do { push @faults, "$name: dmi(7) does not tell of it"; next };
    push @faults, "$name: dmi(7) does not name $option" if $option ne '' && $text !~ /B<\Q$option\E/;
    next if $option eq '';
    my $word = $option =~ s/^-+//r;
    push @faults, "$option: Several.pm does not say who gets it with dmirun -n"
      unless DMI::Several::knows($word) || DMI::Settings::single($word) || DMI::Settings::looks({ $word => 1 });
    push @faults, "$name: dmirun does not set it" unless $dmirun =~ /\b$name\b\s*(?:=>|\}\s*=)/;
    next unless $row->{type} =~ /^(?:PORT|BYTES|SECONDS)\z/;
    my $wanted = number_text($default);
    push @faults, "$name: dmi(7) does not tell the default $default" if $text !~ /\b$wanted\b/;
    push @faults, "$name: -h does not tell the default $default" if $row->{help} !~ /\b$wanted\b/;
  }
  return @faults;
}

my @rows = DMI::Options->read("$top/lib/node/option_table.h");
cmp_ok(scalar @rows, '>', 20, 'there are options');
my ($pod, $dmirun) = map { content("$top/$_") } qw(docs/dmi.7.pod bin/lib/DMI/Settings.pm);
is(join("\n", faults($pod, $dmirun, @rows)), '', 'all of them are known everywhere');

SKIP: {
  skip 'no build', 2 unless $build;
  my $help = `$build/bin/dmirun -h`;
  ok(index($help, DMI::Options->usage) > 0, 'dmirun -h prints them');
  my @unknown = grep { `$build/bin/dmirun $_ 2>&1` =~ /unknown option/ } map { $_->{option} || () } @rows;
  is("@unknown", '', 'dmirun takes them');
}

# ---- The checks notice -------------------------------------------------------------------------

my $dir = tempdir(CLEANUP => 1);
sub read_back {
  open my $file, '>', "$dir/table.h" or die;
  print $file "#define DMI_OPTION_TABLE(OPTION) \\\n", @_;
  close $file;
  return DMI::Options->read("$dir/table.h");
}
my $row = '  OPTION(x, DMI_X, SECONDS, 1, 7, "--grace", "SECS", CLEARED, "for so long (default 7)\n" "or not")';
my @own = read_back("$row \\\n", $row =~ s/\bx,/y,/r);
is(scalar @own, 2, 'rows are read');
is($own[0]{help}, "for so long (default 7)\nor not", 'and joined');
ok(!eval { read_back($row, " \\\n", $row =~ s/SECONDS, //r); 1 }, 'a row that is not understood is noticed');
my $good = "=item B<DMI_X>\n\nSeconds (B<--grace>). Not set: 7.\n";
my $sets = 'DMI_X => 1';
is_deeply([faults($good, $sets, $own[0])], [], 'nothing is wrong with this one');
is_deeply([faults('', $sets, $own[0])], ['DMI_X: dmi(7) does not tell of it'], 'no text');
is_deeply([faults($good =~ s/--grace/--y/r, $sets, $own[0])], ['DMI_X: dmi(7) does not name --grace'], 'another option');
is_deeply([faults($good =~ s/7\./8./r, $sets, $own[0])], ['DMI_X: dmi(7) does not tell the default 7'],
  'another default');
is_deeply([faults($good =~ s/--grace/--y/r, $sets, { %{ $own[0] }, option => '--y' })],
  ['--y: Several.pm does not say who gets it with dmirun -n'], 'nobody gets it');
is_deeply([faults($good, '', $own[0])], ['DMI_X: dmirun does not set it'], 'not set');
done_testing();
