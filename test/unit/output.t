#!/usr/bin/perl
# output.t - what dmirun -n shows of the lines of its processes: one about a loss is shown once, whoever
# writes it and whatever it gives as the reason, and once more if it has what the lost process has told; one
# about a file once for each host.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../bin/lib";
use DMI::Output;
use Test::More;

{
  package Loop;    # nothing is written before the end
  sub writes { return }
}

# What is shown of these lines about a loss, each as another process writes it.
sub shown {
  my (@lines) = @_;
  my $output = DMI::Output->new(bless({}, 'Loop'), launcher => 'dmirun', full => sub { }, broken => sub { });
  for my $line (@lines) { $output->once($line =~ s/^dmi: //r, 'lost process 0') }
  for my $i (0 .. $#lines) { $output->take("p$i", 'err', "other $i\n$lines[$i]\n") }
  my @shown = split /\n/, $output->{err}{queue};
  is(scalar grep({ /^other/ } @shown), scalar @lines, 'all else is shown');
  return [grep { !/^other/ } @shown];
}

my ($broken, $closed, $told) = map { "dmi: lost process 0 (h): $_; this ends the program" } 'sending to it failed: Broken pipe',
  'it closed the connection unexpectedly', 'killed by SIGSEGV in thread 1 of pid 12, at a.c:1 (f)';
is_deeply(shown($closed, $closed, $closed), [$closed], 'the same line');
is_deeply(shown($broken, $closed), [$broken], 'another reason');
is_deeply(shown($closed, $told, $told, $broken), [$closed, $told], 'what it has told, later');
is_deeply(shown($told, $closed), [$told], 'what it has told, first');

# A file that cannot be written.
{
  my $output = DMI::Output->new(bless({}, 'Loop'), launcher => 'dmirun', full => sub { }, broken => sub { });
  my ($line, $other) = map { "dmi: cannot write $_: No space left on device" } qw(a b);
  $output->take($_, 'err', "$line\nmine\n") for qw(here here/2 there there/2);
  $output->take('here/2', 'err', "$other\n");
  is($output->{err}{queue}, "$line\nmine\nmine\n$line\nmine\nmine\n$other\n", 'once for each host and file');
}

# All are killed, by a third Ctrl+C.
{
  my $output = DMI::Output->new(bless({}, 'Loop'), launcher => 'dmirun', full => sub { }, broken => sub { });
  $output->take('p', 'err', "$closed\n");
  $output->hide_losses;
  $output->take('p', 'err', "mine\n$closed\n$broken\n");
  is($output->{err}{queue}, "$closed\nmine\n", 'that they are lost is not shown any more');
}
done_testing();
