#!/usr/bin/perl
# completion.t - what bash completes for dmirun and dmimw: each option that -h tells of, and what goes behind
# it, the program, and nothing of the program's arguments.
# Not in the small form: what it tests is bash.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

plan skip_all => 'bash is not installed' unless -x '/bin/bash';
my $t = DMITest->new(timeout => 60);
my ($dir, $build) = ($t->dir, $t->build);
my $file = $t->top . '/bin/completions';
chdir $dir or die;
mkdir 'sub' or die;
for my $name ('nodes', 'a program') { open my $made, '>', $name or die }
chmod 0755, 'a program';
symlink "$build/bin/$_", $_ or die for qw(dmirun dmimw);
open my $hosts, '>', 'hosts' or die;
print $hosts "10.0.0.1 node1\n10.0.0.2 node2\n";
close $hosts;

# What it offers for the last one of these words, one a line.
sub offers {
  my (@words) = @_;
  my $script = 'set -u; PATH=$PWD:$PATH; HOSTFILE=$PWD/hosts; . "$0"; complete -p dmirun dmimw > /dev/null || exit 1;'
    . 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dmi_complete "$1" "${COMP_WORDS[COMP_CWORD]}" ""; printf "%s\n" "${COMPREPLY[@]}"';
  my $bash = $t->spawn(['/bin/bash', '--norc', '-c', $script, "$file/$words[0]", @words], name => "@words");
  $bash->wait_exit(0);
  is($bash->err, '', 'no errors');
  return join "\n", sort grep { $_ ne '' } split /\n/, $bash->out;
}

for my $command (qw(dmirun dmimw)) {
  my %told = map { $_ => 1 } `./$command -h` =~ /^  (-\S+)/mg;
  cmp_ok(scalar keys %told, '>', 20, "$command -h tells of options");
  is(offers($command, '-'), join("\n", sort keys %told), "$command: all of them are offered");
}
is(offers('dmirun', '--thr'), '--threads', 'one of them');
is(offers('dmirun', '-n', 2, '--ta'), '--tag', 'behind another one');
is(offers('dmirun', '--on-error', ''), "abort\nprint", 'words');
is(offers('dmirun', '--on-error', 'p'), 'print', 'one of them');
is(offers('dmirun', '--spill', ''), 'sub', 'directories');
is(offers('dmirun', '--key', 'n'), 'nodes', 'files');
is(offers('dmimw', '-f', 'n'), 'nodes', 'files');
is(offers('dmirun', '-i', 'node'), "node1\nnode2", 'hosts');
is(offers('dmirun', '-i', '@', 'n'), 'nodes', '@file');
is(offers('dmimw', '-i', ''), "node1\nnode2", 'and no words of the help');
is(offers('dmimw', '-i', '@', 'n'), 'nodes', '@file');
is(offers('dmirun', '-i', 'node1', '--surv'), '--survive', 'and on');
is(offers('dmirun', '-i', '@', 'nodes', '--surv'), '--survive', 'and on');
is(offers('dmirun', '-s', ''), '', 'what cannot be known');
is(offers('dmirun', './a'), './a program', 'the program');
like(offers('dmirun', 'dmi'), qr/^dmimw\ndmirun$/m, 'or one in PATH');
is(offers('dmirun', '--survive', './a program', '--s'), '', 'its arguments are its own');
$t->done;
