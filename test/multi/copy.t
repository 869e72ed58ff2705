#!/usr/bin/perl
# copy.t - dmimw --copy over ssh: the program is brought to hosts that do not have it, or have another one,
# and to no others; what runs there goes on with its own.
use strict;
use warnings;
use File::Copy ();
use FindBin;
use POSIX ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../bin/lib";
use DMITest;
use DMI::Copy;
use DMICluster;

if (my $why = DMICluster::missing()) { plan(skip_all => $why) }
my $t = DMITest->new(timeout => 120);
my $dir = $t->dir;
my $dmimw = $t->build . '/bin/dmimw';
my $program = $t->compile('test/multi/cluster_dmi.c');
my $cluster = DMICluster->new($t, hosts => 2);

# Hosts of the test share their files: what is `here` is in another directory than what is `there`.
# dmimw runs in the directory of the test.
my ($here, $there) = ($dir, "$dir/there");
mkdir "$here/bin" or die;
File::Copy::copy($program, "$here/bin/prog") or die;
# The last byte, which nobody reads, tells one from another.
sub mark {
  my ($byte, $mode) = @_;
  open my $file, $mode, "$here/bin/prog" or die;
  seek $file, -1, 2 or die if $mode eq '+<';
  print $file $byte;
  close $file or die;
}
mark('1', '>>');
chmod 0750, "$here/bin/prog" or die;
open my $nodes, '>', "$dir/nodes" or die;
print $nodes "h1\nh2\n";
close $nodes or die;

sub start {
  my (@args) = @_;
  return $t->spawn([$cluster->here($dmimw, '--ssh', $cluster->ssh, '--env', 'ASAN_OPTIONS', '--env', 'TSAN_OPTIONS',
    '-f', "$dir/nodes", '--dir', $there, @args)], name => 'dmimw');
}
sub number { return (stat "$there/bin/prog")[1] // 0 }
sub content { open my $file, '<:raw', $_[0] or die "$_[0]: $!"; local $/; return <$file> }
sub left_over { return join ' ', grep { !m{/prog\z} } glob "$there/bin/* $there/bin/.prog*" }

# Runs it until both are members; `before` is called then.
sub runs {
  my ($what, $before, @args) = @_;
  my $mw = start(@args, 'bin/prog');
  $mw->expect_err(qr/(?s:=== opened ===.*){2}/);
  is(content("$there/bin/prog"), content("$here/bin/prog"), "$what: the program is there");
  is((stat "$there/bin/prog")[2] & 0777, 0750, "$what: with its mode");
  is(left_over(), '', "$what: and nothing else");
  $before->() if $before;
  $mw->signal('INT');
  $mw->wait_exit(0);
}

my $without = start('bin/prog');
$without->wait_exit(1);
like($without->err, qr/^dmimw: h1: no directory \Q$there\E there/m, 'without --copy it has to be there');
runs('the directory is missing', undef, '--copy');
my $first = number();
runs('it is there', undef, '--copy');
is(number(), $first, 'so it is not copied again');
chmod 0700, "$there/bin/prog" or die;
runs('only its mode differs', undef, '--copy');
is(number(), $first, 'so it is not copied again');

# A new one is brought while the old one runs.
runs('an old one runs', sub {
  mark('2', '+<');
  my $other = start('--copy', 'bin/prog');
  $other->expect_err(qr/(?s:=== opened ===.*){2}/);
  isnt(number(), $first, 'it is replaced');
  $other->signal('INT');
  $other->wait_exit(0);
});
runs('the new one', undef);

# What cannot be: one line.
sub refused {
  my ($why, @args) = @_;
  my $mw = start('--copy', @args);
  $mw->wait_exit(2);
  like($mw->err, qr/\Admimw: [^\n]*$why[^\n]*\n\z/, "refused: @args");
}
refused('--copy prog: give the program by its path', 'prog');
refused('--copy bin/none: No such file', 'bin/none');
refused('--copy \./bin: not a file', './bin');
rename "$there/bin", "$there/was" or die;
open my $file, '>', "$there/bin" or die;
close $file;
my $mw = start('--copy', 'bin/prog');
$mw->wait_exit(1);
like($mw->err, qr{^dmimw: h1: --copy: bin/\.prog\.\S+: Not a directory$}m, 'what is in its way is told');

# What has changed on its way does not get the name.
chdir $there or die;
my $copy = DMI::Copy->new({ %{ DMI::Copy::describe("$here/bin/prog") }, path => './new' });
ok(!$copy->is_there, 'not there');
$copy->take('x');
ok(!eval { $copy->finish; 1 }, 'other bytes than those that were described');
like($@, qr{^--copy: \./new has changed while it was copied$}, 'are told');
undef $copy;
is(join(' ', glob './new* ./.new*'), '', 'and nothing of them stays');

# Who is killed leaves a file.  The next copy removes it, but not that of one who still writes.
sub writes {
  pipe my $reader, my $writer or die;
  my $pid = fork // die;
  if (!$pid) {
    my $other = DMI::Copy->new({ %{ DMI::Copy::describe("$here/bin/prog") }, path => './new' });
    $other->take('x');
    syswrite $writer, 'x';
    POSIX::pause() while 1;
  }
  close $writer;
  sysread $reader, my ($byte), 1;
  return $pid;
}
my ($killed, $busy) = (writes(), writes());
kill KILL => $killed;
waitpid $killed, 0;
my ($left) = glob "./.new.*.$killed";
ok($left, 'who is killed leaves its file');
my $next = DMI::Copy->new({ %{ DMI::Copy::describe("$here/bin/prog") }, path => './new' });
$next->take(content("$here/bin/prog"));
ok(!-e $left, 'which the next copy removes');
ok((glob "./.new.*.$busy")[0], 'but not that of one who writes');
$next->finish;
is(content('./new'), content("$here/bin/prog"), 'it has what it was given');
kill KILL => $busy;
waitpid $busy, 0;
chdir '/' or die;
is_deeply([$cluster->running], [], 'nothing is left');
$t->done;
