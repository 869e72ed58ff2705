#!/usr/bin/perl
# srun.t - what dmimw does with the variables of a Slurm allocation, and with the options for jobs
# that join; without Slurm, by substitutes for its commands.
# Not in the small form: what it tests is Perl.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use POSIX ();
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $dmimw = "$ENV{DMI_BUILD_DIR}/bin/dmimw";
unshift @INC, "$top/bin/lib";
require DMI::Way::Slurm;

my $dir = tempdir(CLEANUP => 1);
delete @ENV{ qw(DMI_KEY_FILE), grep { /^S(?:LURM|BATCH|RUN)_/ } keys %ENV };
$ENV{HOME} = "$dir/home";
mkdir $ENV{HOME} or die;
$ENV{PATH} = "$dir:$ENV{PATH}";

sub put {
  my ($name, $text) = @_;
  open my $file, '>', "$dir/$name" or die;
  print $file $text;
  close $file or die;
  chmod 0755, "$dir/$name";
  return "$dir/$name";
}

# scontrol show hostnames a,b,c
put('scontrol', "#!/bin/sh\ntest \"\$1 \$2\" = 'show hostnames' && echo \"\$3\" | tr , '\\n' | grep .\n");

# An allocation, and the lines it gives, as "host:processors"; or the reason it gives none.
sub lines {
  my ($nodes, $tasks, $cpus, %more) = @_;
  local %ENV = (%ENV, SLURM_JOB_ID => 1, SLURM_JOB_NODELIST => $nodes, %more);
  $ENV{SLURM_TASKS_PER_NODE} = $tasks if defined $tasks;
  $ENV{SLURM_JOB_CPUS_PER_NODE} = $cpus if defined $cpus;
  my @lines = eval { DMI::Way::Slurm->lines } or return $@;
  return join ' ', map { "$_->{host}:$_->{cpus}" } @lines;
}
ok(!DMI::Way::Slurm->in_allocation, 'not in an allocation');
is(lines('a', '1', '4'), 'a:4', 'one task');
is(lines('a,b', '1(x2)', '8(x2)'), 'a:8 b:8', 'one on each node');
is(lines('a,b,c', '2(x2),1', '8,4(x2)'), 'a:4 a:4 b:2 b:2 c:4', 'different nodes');
is(lines('a,b', '3,1', '7,2'), 'a:2 a:2 a:2 b:2', 'what cannot be shared evenly');
is(lines('a', '4', '2'), 'a:0 a:0 a:0 a:0', 'more tasks than processors');
is(lines('a,b', undef, undef), 'a:1 b:1', 'nothing said: one for each node');
is(lines('a', 'x', '2'), "SLURM_TASKS_PER_NODE=x: not as Slurm writes it\n", 'nonsense');
is(lines('', '1', '2'), "scontrol does not know the nodes \n", 'no nodes');
like(lines('a', '2', '2', SLURM_STEP_NUM_TASKS => 2), qr/^started as one of 2 tasks of srun/, 'by srun');
is(lines('a', '2', '2', SLURM_STEP_NUM_TASKS => 1), 'a:1 a:1', 'an interactive step');

sub command {
  my ($line, %env) = @_;
  local %ENV = (PATH => $ENV{PATH}, %env);
  return join ' ', DMI::Way::Slurm->new(bin => '/bin')->command($line);
}
my $command = command({ host => 'a', cpus => 3 });
like($command, qr/^env srun .*--nodelist=a --exact --mem=0 --cpus-per-task=3 .*--unbuffered/, 'srun');
like(command({ host => 'a', cpus => 0 }), qr/--overlap /, 'too few processors are shared');
unlike(command({ host => 'a' }), qr/--exact|--mem/, 'one that --add asks for takes nothing away');
is(command({ host => 'a', cpus => 3 }, SLURM_NTASKS => 4, SLURM_MEM_PER_NODE => 5, SLURM_JOB_ID => 6,
    SLURM_CONF => 7), $command =~ s/^env/env -u SLURM_MEM_PER_NODE -u SLURM_NTASKS/r,
  'what the job asked for is not asked for again, but its number stays');

my $way = DMI::Way::Slurm->new(bin => '/bin');
is(join(' ', $way->addresses({ address => 'n1' }, { host => 'n1' })), 'n1', 'one name');
is(join(' ', $way->addresses({ address => 'n1' }, { host => 'real' })), 'n1 real', 'two names');
is($way->reason("srun: error: no way\nsrun: error: that was it\n", 256), 'srun: no way', 'the first reason');
is($way->reason('', 256), 'srun ended with status 1', 'no reason');

# The program itself, with an srun that runs what it is told on this machine.
put('srun', <<'END');
#!/bin/sh
# The "node" may have a home of its own, HOME_THERE.
for word; do case $word in --*) shift ;; *) break ;; esac; done
test -z "$HOME_THERE" || export HOME="$HOME_THERE"
tee -a "$0.heard" | "$@"
END
put('prog', <<'END');
#!/bin/sh
test -z "$DMI_EVENT_FD" || echo '{"event":"listening","port":1}' > /dev/fd/$DMI_EVENT_FD
case $DMI_JOIN_HOST$DMI_JOIN_FILE in
  '') cat gate ;;           # it is there until the other one has joined
  localhost) echo > gate ;;
esac
echo "as $DMI_JOIN_HOST/$DMI_JOIN_PORT/$DMI_JOIN_FILE/$DMI_CONTACT_FILE:$*"
END

sub run {
  my ($arguments, %env) = @_;
  local %ENV = (%ENV, SLURM_JOB_ID => 1, SLURM_JOB_NODELIST => 'localhost',
    SLURM_TASKS_PER_NODE => '2', SLURM_JOB_CPUS_PER_NODE => '2', %env);
  my $out = `cd $dir && $dmimw $arguments 2> stderr < /dev/null`;
  my $status = $? >> 8;
  open my $file, '<', "$dir/stderr" or die;
  return ($status, join('', sort $out =~ /(.*\n)/g), do { local $/; <$file> } // '');
}
POSIX::mkfifo("$dir/gate", 0600) or die;
my ($status, $out, $err) = run('--contact here ./prog word');
is($out, "\nas ///$dir/here:word\nas localhost/1//$dir/here:\n", 'one starts, one joins');
is($err, '', 'without a word');
is($status, 0, 'well');
($status, $out, $err) = run('-i elsewhere -p 99 ./prog');
is($out, "as elsewhere/99//:\n" x 2, '-i, -p: both join');
put('there', "host 1\n");
($status, $out, $err) = run('-i @there ./prog');
is($out, "as //$dir/there/$dir/there:\n" x 2, '-i @FILE: both join');
($status, $out, $err) = run('-i @nowhere ./prog');
is($status, 2, '-i @FILE without a file: the status is dmirun\'s');
like($err, qr/^dmimw: localhost: ended with status 2: -i \@nowhere: No such file/m, 'and says why');
for my $wrong (['-p 9 ./prog', '-p 9: without -i HOST'], ['-i @there -p 9 ./prog', '-p 9: without'],
  ['-i elsewhere ./prog word', 'word: processes that join (-i) have no arguments'],
  ['-n 3 ./prog', '-n 3: the allocation has only 2 hosts']) {
  ($status, $out, $err) = run($wrong->[0]);
  is($status, 2, "refused: dmimw $wrong->[0]");
  like($err, qr/\Admimw: \Q$wrong->[1]\E[^\n]*\n\z/, 'in one line');
}

# The key: that of the node, if it is the same one, else by munge, for which these stand in: what it
# wraps is in a file that only munge knows.
put('keyed', "#!/bin/sh\nread key < /dev/fd/\$DMI_KEY_FD && echo \"key \$key\"\n");
my $munge = <<'END';
#!/bin/sh
echo "$0 $*" >> munge.asked
case $0 in
  *unmunge) cat > /dev/null; printf 'UID:   me (%s)\n\n' ${SENDER:-$(id -u)}; cat wrapped ;;
  *) cat > wrapped; echo MUNGE:sealed: ;;
esac
END
my $key = '0123456789abcdef' x 4;
my $other = 'f' x 64;
mkdir "$dir/$_" or die "$dir/$_: $!" for qw(same same/.dmi other other/.dmi bare);
my $umask = umask 077;
put($_->[0], "$_->[1]\n"), chmod 0600, "$dir/$_->[0]"
  for ["same/.dmi/key", $key], ["other/.dmi/key", $other], ['named', $key];
umask $umask;
sub keyed {
  my ($arguments, %env) = @_;
  unlink "$dir/munge.asked", "$dir/srun.heard";
  return run("$arguments ./keyed", HOME => "$dir/same", SLURM_TASKS_PER_NODE => 1, %env);
}
($status, $out, $err) = keyed('');
put('munge', "#!/bin/sh\necho 'no munged here' >&2; exit 1\n");
is($out, "key $key\n", 'the key file that the node has is read there');
for my $case (['bare', 'bare/.dmi/key: No such file or directory'],
    ["other", 'the key file there has another key']) {
  my ($home, $reason) = @$case;
  ($status, $out, $err) = keyed('', HOME_THERE => "$dir/$home");
  is($status, 1, "$home: no key, and no munge");
  like($err, qr/\Admimw: localhost: .*\Q$reason\E \(no munged here; [^\n]*\): copy the key file there, or name one with --key that all nodes see\n\z/,
    'is told in one line, with what to do');
}
($status, $out, $err) = keyed("--key $dir/named", HOME_THERE => "$dir/bare");
is($out, "key $key\n", '--key: the file of that name');
ok(!-e "$dir/munge.asked", 'munge is not asked where it is not needed');
put($_, $munge) for qw(munge unmunge);
for my $home (qw(bare other)) {
  ($status, $out, $err) = keyed('', HOME_THERE => "$dir/$home");
  is($out, "key $key\n", "$home: munge brings the key");
  is($err, '', 'without a word');
}
# What others print around it (here: the loader of programs), and what munge says that is not understood.
for my $noise (['echo noise >&2', "key $key\n"], ['echo noise', '']) {
  put($_, $munge =~ s/^case/$noise->[0]\ncase/mr) for qw(munge unmunge);
  ($status, $out, $err) = keyed('', HOME_THERE => "$dir/bare");
  is($out, $noise->[1], "munge beside $noise->[0]");
  unlike($err, qr/0123456789abcdef/, 'the key is in no message');
  open my $heard, '<', "$dir/srun.heard" or die "srun.heard: $!";
  unlike(join('', <$heard>), qr/0123456789abcdef/, 'nor has srun heard it');
}
put($_, $munge) for qw(munge unmunge);
my $asked = do { open my $file, '<', "$dir/munge.asked" or die; local $/; <$file> };
like($asked, qr/^\S+ .*--restrict-uid=$>$/m, 'for this user alone');
my $heard = do { open my $file, '<', "$dir/srun.heard" or die; local $/; <$file> };
like($heard, qr/MUNGE:sealed:/, 'what srun carries was heard');
unlike($heard, qr/0123456789|MDEyMzQ1Njc4|AxMjM0NTY3OD|wMTIzNDU2Nzg5/, 'the key is not in it');
($status, $out, $err) = keyed('', HOME_THERE => "$dir/bare", SENDER => $> + 1);
like($err, qr/\Admimw: localhost: .*munge does not bring it: unmunge: it is from user @{[$> + 1]}\n\z/, 'from somebody else');
put('unmunge', "#!/bin/sh\nprintf 'UID:   me (%s)\\n\\n$other\\n' \$(id -u)\n");
($status, $out, $err) = keyed('', HOME_THERE => "$dir/bare");
is($err, "dmimw: localhost: munge brings another key\n", 'another one');
($status, $out, $err) = run('./prog', SLURM_STEP_NUM_TASKS => 2);
is($status, 2, 'refused: started by srun');
like($err, qr/\Admimw: started as one of 2 tasks of srun[^\n]*\n\z/, 'in one line');
done_testing();
