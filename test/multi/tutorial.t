#!/usr/bin/perl
# tutorial.t - do docs/tutorial.md and docs/memory-model.md tell the truth?  Compiles their programs
# and acts out their terminals.
#
#   ```c, ```cpp     a program, when its first line is `/* NAME.c ...` (NAME.cc); else a fragment
#   ```console       `first$ dmicc ...` (dmicxx) compiles; `first$ dmirun ...` starts a process there; the lines
#                    below it are what it prints (=== ... === on stderr), in this order, other lines
#                    may come between; `...` stands for anything; ^C asks it to leave, `Killed` means kill -9
#   ```console second   goes on with the process in that terminal
#   ```asir          what a person types who uses the process of the first terminal as an OpenXM server
#                    (dmirun --ox), and what asir answers; a client of our own stands in for asir
#
# When `first$` starts the next program, all processes of the one before must end with status 0.
# Not in the small form: what it tests is a text.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;
use OxClient;

my $t = DMITest->new(timeout => 110);
my @texts = $ENV{DMI_TUTORIAL} // map { $t->top . "/docs/$_.md" } qw(tutorial memory-model);
my $text = join "\n", map {
  open my $file, '<', $_ or die "$_: $!";
  local $/;
  scalar <$file>;
} @texts;
my $dir = $t->dir;
my (%source, %program, %started, %terminal, $first, $client);

# On two cores at most, so that the elastic program is not over before somebody could join it.
if (open my $status, '<', '/proc/self/status') {
  my ($cpus) = map { /^Cpus_allowed_list:\s*(\S+)/ ? $1 : () } <$status>;
  my @cpus = map { /^(\d+)-(\d+)$/ ? ($1 .. $2) : $_ } split /,/, $cpus // '';
  system("taskset -cp $cpus[0],$cpus[1] $$ > /dev/null") if @cpus > 2;
}

# As on a terminal: a line is seen when it is printed.
my $lines = "$dir/lines.h";
save($lines, <<'END');
#include <stdio.h>
__attribute__((constructor)) static void print_lines(void) { setvbuf(stdout, NULL, _IOLBF, 0); }
END

sub save {
  my ($path, $content) = @_;
  open my $file, '>', $path or die "$path: $!";
  print $file $content;
  close $file or die "$path: $!";
}

sub compile {
  my ($compiler, $command) = @_;
  my ($source, $name) = $command =~ m{\b(\w+)\.cc?\b.* -o (\w+)}
    or $t->fail_now("understood: $compiler $command");
  $t->fail_now("$source.c is shown before it is compiled") unless $source{$source};
  my $all = join ' ', $t->build . "/bin/$compiler", '-Wall -Wextra -Werror -include', $lines,
    $command =~ s/\s#.*//r =~ s{\b(\w+\.cc?)\b}{$dir/$1}gr =~ s{-o (\w+)}{-o $dir/$1}r, '2>&1';
  my $said = `$all`;
  $t->fail_now("$source.c compiles: $said") if $? || $said ne '';
  pass("$source.c compiles");
  $program{$name} = $source;
}

sub finish {
  $_->wait_exit(0) for map { $terminal{$_} } sort keys %terminal;
  %terminal = ();
}

sub start {
  my ($name, $command) = @_;
  my ($opts, $program, $args) = $command =~ m{^(.*?) ?\./(\w+) ?(.*?)\s*(?:#.*)?$}
    or $t->fail_now("understood: dmirun $command");
  $t->fail_now("$program was compiled") unless $program{$program};
  my $joins = $opts =~ s/-i \w+//;
  $opts =~ s/--ox \d+/--ox 0/;
  finish() unless $joins;
  $started{$program} = 1;
  $terminal{$name} = $t->start("$dir/$program", name => "$program $name", args => [split ' ', $args],
    opts => [split ' ', $opts], $joins ? (join => $first) : ());
  $first = $terminal{$name} unless $joins;
}

sub act {
  my ($name, @script) = @_;
  for my $line (@script) {
    if ($line =~ /^(\w+)\$ (dmicc|dmicxx) (.*)/) { compile($2, $3) }
    elsif ($line =~ /^(\w+)\$ dmirun (.*)/) { start($name = $1, $2) }
    elsif ($line =~ /^\w+\$/) { $t->fail_now("understood: $line") }
    elsif ($line eq '^C') { $terminal{$name}->signal('INT') }
    elsif ($line eq 'Killed') {
      $terminal{$name}->signal('KILL');
      (delete $terminal{$name})->wait_exit(signal => 'KILL');
    }
    elsif ($line =~ /\S/) {
      my $process = $terminal{$name} or $t->fail_now("there is a terminal $name");
      my $expected = join '.*', map { quotemeta } split /\.\.\./, $line, -1;
      $expected =~ s/(?:\\ )+/ +/g;
      $line =~ /^===/ ? $process->expect_err(qr/^$expected$/m)
        : $process->expect_out(qr/^$expected$/m);
    }
  }
}

# The arguments of a call in asir: numbers and strings.
sub asir_values { return map { /^"(.*)"$/ ? string($1) : zz($_) } split /,/, $_[0] }

sub act_asir {
  my $answer;
  for my $line (@_) {
    if ($line =~ /^\[\d+\] \w+ = try_connect\("\w+",\d+\)\$$/) { next }
    elsif ($line =~ /^\[\d+\] \w+ = register_server\(/) {
      my ($port) = $first->expect_event('serves')->{address} =~ /:(\d+)$/;
      $client = OxClient->new(control => $port, data => $port);
    }
    elsif ($line =~ /^\[\d+\] ox_cmo_rpc\(P,"(\w+)",(.*)\)\$$/) { $client->call($1, asir_values($2)) }
    elsif ($line =~ /^\[\d+\] ox_pop_cmo\(P\);$/) { $answer = $client->pop }
    elsif ($line =~ /^\[\d+\]/) { $t->fail_now("understood: $line") }
    else { is($answer, $line, "asir: $line") }
  }
}

my $programs = 0;
while ($text =~ /^```(\w*)(?: (\w+))?\n(.*?)^```$/msg) {
  my ($kind, $name, $body) = ($1, $2, $3);
  if ($kind =~ /^c(?:pp)?$/ && $body =~ m{^/\* (\w+)(\.cc?)\b}) {
    save("$dir/$1$2", $body);
    $source{$1} = 1;
    $programs++;
  }
  elsif ($kind eq 'console') { act($name, split /\n/, $body) }
  elsif ($kind eq 'asir') { act_asir(split /\n/, $body) }
}
finish();
cmp_ok($programs, '>=', 6, "$programs programs in the texts");
is_deeply([sort map { $program{$_} } keys %started], [sort keys %source], 'each was run');
$t->done;
