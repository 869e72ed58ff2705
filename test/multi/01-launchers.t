#!/usr/bin/perl
# 01-launchers.t - dmicc and dmirun: what they accept, refuse, say, and hand on.
# Not in the small form: what it tests are scripts, Perl and compilers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DMITest;

my $t = DMITest->new(timeout => 200);
my $dir = $t->dir;
my ($dmicc, $dmicxx, $dmirun) = map { $t->build . "/bin/$_" } qw(dmicc dmicxx dmirun);
my $main = "#include \"dmi_api.h\"\nvoid DMI_main(int argc, char **argv) {\n";

sub put {
  my ($name, $text) = @_;
  open my $file, '>', "$dir/$name" or die;
  print $file $text;
  close $file or die;
  return "$dir/$name";
}

# Runs a shell command; returns its exit status and both streams.
sub run {
  my ($command) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  my $out = `cd $dir && { $command ; } 2> $dir/stderr`;
  my $status = $? >> 8;
  open my $file, '<', "$dir/stderr" or die;
  return ($status, $out, do { local $/; <$file> } // '');
}

# ---- dmicc -------------------------------------------------------------------------------------

put('good.c', "$main  (void)argc; (void)argv;\n  puts(\"hello\");\n}\n");
put('nomain.c', "#include \"dmi_api.h\"\nint unused;\n");
put('calls.c', "void DMI_main(int, char **);\nvoid again(void) { DMI_main(0, 0); }\n");
put('wrong.c', "$main  argc = DMI_main_is_missing;\n}\n");
put('ownmain.c', "int main(void) { return 0; }\nvoid again(void) { }\n");
put('twice.c', "void again(void) { }\n");
put('undefined.c', "void nothing(void);\n$main  nothing();\n}\n");
put('warns.c', "$main  int x;\n}\n");
my $second = qr/^dmicc: this program defines main, .*`void DMI_main\(.*\)`$/m;
my $missing = qr/^dmicc: this program defines no DMI_main; .*`void DMI_main\(.*\)`$/m;

my @compilers = grep { local $SIG{CHLD} = 'DEFAULT'; !system "command -v $_ > /dev/null" }
  qw(gcc clang);
for my $cc ('', @compilers) {
  local $ENV{CC} = $cc;
  delete $ENV{CC} unless $cc;
  my $with = $cc ? "$cc: " : 'default compiler: ';
  # What one compiler instrumented, another cannot link.
  next if $cc && (run("$dmicc --dmi-show good.c"))[1] =~ /-fsanitize/;
  my ($status, $out, $err) = run("$dmicc -O2 good.c -o good && $dmirun -l 0 ./good");
  is($status, 0, "${with}compiles, links, runs") or diag($err);
  like($out, qr/^hello$/m, "${with}the program's own output");

  ($status, $out, $err) = run("$dmicc nomain.c -o nomain");
  isnt($status, 0, "${with}no DMI_main: refused");
  like($err, qr/\A$missing\n\z/, "${with}no DMI_main: one clear line");
  ($status, $out, $err) = run("$dmicc nomain.c calls.c -o nomain");
  isnt($status, 0, "${with}DMI_main only called: refused");
  like($err, $missing, "${with}DMI_main only called: says so");

  for my $linker ('', grep { -x "/usr/bin/ld.$_" } qw(gold lld)) {
    next if $linker && $cc ne 'gcc';
    my $use = $linker ? "-fuse-ld=$linker " : '';
    ($status, $out, $err) = run("$dmicc ${use}ownmain.c -o ownmain");
    isnt($status, 0, "${with}${use}main of its own: refused");
    like($err, qr/\A$second\n\z/, "${with}${use}main of its own: one clear line");
    ($status, $out, $err) = run("$dmicc ${use}ownmain.c good.c -o ownmain");
    like($err, qr/\A$second\n\z/, "${with}${use}main beside DMI_main: one clear line");
    ($status, $out, $err) = run("$dmicc ${use}ownmain.c undefined.c twice.c -o ownmain");
    # Others than the usual linker stop at what is there twice.
    like($err, qr/nothing/, "${with}${use}main of its own: other errors are shown") if !$linker;
    like($err, qr/(?:multiple|duplicate)[^\n]*again/, "${with}${use}also of the same kind");
    like($err, qr/^$second\n\z/m, "${with}${use}before it");
  }

  ($status, $out, $err) = run("$dmicc wrong.c -o wrong");
  isnt($status, 0, "${with}compile error: refused");
  like($err, qr/wrong\.c:3:.*error:.*DMI_main_is_missing/, "${with}the compiler's own error");
  unlike($err, qr/^dmicc:/m, "${with}compile error: nothing about DMI_main");
  ($status, $out, $err) = run("$dmicc undefined.c -o undefined");
  isnt($status, 0, "${with}undefined function: refused");
  like($err, qr/nothing/, "${with}the linker's own error");
  unlike($err, qr/^dmicc:/m, "${with}undefined function: nothing about DMI_main");
  ($status, $out, $err) = run("$dmicc -Wall warns.c -o warns");
  is($status, 0, "${with}a warning is no error");
  like($err, qr/warns\.c:3:.*warning:/, "${with}but shown");
}

# C++: one sentence says what works, and it does.
SKIP: {
  skip('no g++ here', 15) unless grep { -x "$_/g++" } split /:/, $ENV{PATH};
  my $advice = qr/dmicc is for C; for C\+\+ use dmicxx, .*-lstdc\+\+/;
  put('whole.cpp', "#include <iostream>\n#include <string>\n#include \"dmi_api.h\"\n"
    . "void DMI_main(int, char **) { std::cout << std::string(\"hello\") << std::endl; }\n");
  put('part.cc', "#include <iostream>\n#include <string>\n"
    . "extern \"C\" void say() { std::cout << std::string(\"hello\") << std::endl; }\n");
  put('says.c', "#include \"dmi_api.h\"\nvoid say(void);\n"
    . "void DMI_main(int argc, char **argv) { (void)argc, (void)argv; say(); }\n");
  my ($status, $out, $err) = run("$dmicc whole.cpp -o whole");
  is($status, 1, 'C++ alone is refused');
  like($err, qr/\Admicc: whole\.cpp: $advice[^\n]*\n\z/, 'in one line');
  ($status, $out, $err) = run("g++ -c part.cc && LC_ALL=C $dmicc says.c part.o -o says");
  is($status, 1, 'an object of C++ likewise');
  like($err, qr/^dmicc: $advice[^\n]*\n\z/m, 'behind what the linker says');
  for my $way ("$dmicc whole.cpp -lstdc++ -o whole", "CC=g++ $dmicc whole.cpp -o whole",
      "CC='env g++' $dmicc whole.cpp -o whole",
      "$dmicc -c whole.cpp && $dmicc whole.o -lstdc++ -o whole",
      "g++ -c part.cc && $dmicc says.c part.o -lstdc++ -o whole", "$dmicxx -O2 whole.cpp -o whole",
      "$dmicxx -c whole.cpp && $dmicxx whole.o -o whole", "CXX=g++ $dmicxx whole.cpp -o whole") {
    ($status, $out, $err) = run("$way && $dmirun -l 0 ./whole");
    is("$status $out", "0 hello\n", $way) or diag($err);
  }
  ($status, $out, $err) = run("$dmicxx nomain.c -o nomain");
  like($err, qr/\Admicxx: this program defines no DMI_main; .*\n\z/, 'dmicxx: no DMI_main: one clear line');
  like((run("$dmicxx --help"))[1], qr/^usage: dmicxx .*\.cc .*C\+\+ compiler.*variable CXX/ms, 'dmicxx --help');
  like((run("$dmicxx --dmi-show -std=c++20 good.cc"))[1], qr/-std=c\+\+20 (?!.*-std)/, 'another standard of C++');
}

for my $mode ('-c', '-S') {
  my ($status, $out, $err) = run("$dmicc $mode nomain.c -o compiled && test -s compiled");
  is($status, 0, "$mode only compiles") or diag($err);
}
my ($status, $out, $err) = run("$dmicc -E good.c");
is($status, 0, '-E only preprocesses');
like($out, qr/DMI_welcome/, '-E writes to stdout');
($status, $out, $err) = run("$dmicc -c good.c && $dmicc good.o -o good2 && "
  . "$dmirun -l 0 ./good2");
is($status, 0, 'objects link as well') or diag($err);
($status, $out, $err) = run("$dmicc -x c - -o stdin < good.c && $dmirun -l 0 ./stdin");
is($status, 0, 'a program from stdin') or diag($err);
($status, $out, $err) = run("$dmicc -O2 --dmi-show good.c -o 'two words'");
is($status, 0, '--dmi-show');
my $shown = qr/-O2 good\.c -o 'two words' .*dmi_start\.o.*libdmi\.a.* -lev -lsodium/;
like($out, qr/^(?:[^-]\S* )+$shown/, '--dmi-show prints the command');    # the compiler may be `ccache gcc`
like((run("CC='env gcc' $dmicc -O2 --dmi-show good.c -o 'two words'"))[1], qr/^env gcc $shown/, 'CC may be several words');
ok(!-e "$dir/two words", '--dmi-show does nothing else');
my @shown = map { (run("CC=$$_[0] $dmicc $$_[1] --dmi-show good.c"))[1] =~ /-gdwarf-aranges/ ? 1 : 0 }
  ['clang', '-g'], ['clang', ''], ['clang', '-g0'], ['gcc', '-g'];
is("@shown", '1 0 0 0', 'clang is told to write what traces find lines by');
($status, $out, $err) = run($dmicc);
isnt($status, 0, 'no input files: refused');
like($err, qr/^dmicc: no input files/, 'no input files: says so');
like((run("$dmicc $_"))[1], qr/^usage: dmicc/, $_) for qw(-h --help);
like((run("$dmicc --version"))[1], qr/^dmicc \(DMI\) \d+\.\d+\.\d+\n./,
  '--version, and the compiler');
($status, $out, $err) = run("$dmicc --dmi-shared good.c -o shared && $dmirun -l 0 ./shared");
is($status, 0, '--dmi-shared') or diag($err);
($status, $out, $err) = run("ln -s $dmicc link && ./link good.c -o good3");
is($status, 0, 'through a symbolic link') or diag($err);

# ---- What the README shows ---------------------------------------------------------------------

for my $text (['README.md', '    '], ['docs/dmi.7.pod', ' ']) {
  my ($path, $indent) = @$text;
  open my $file, '<', $t->top . "/$path" or die;
  my ($shown) = do { local $/; <$file> }
    =~ /^($indent#include "dmi_api\.h"\n(?:$indent.*\n|\n)*$indent}\n)/m;
  ok(defined $shown, "$path shows a program") or next;
  $shown =~ s/^$indent//mg;
  put('hello.c', $shown);
  ($status, $out, $err) = run("$dmicc -O2 -Wall -Wextra -Werror hello.c -o hello");
  is($status, 0, "it compiles") or next;
  is($err, '', 'without warnings');
  my $first = $t->start("$dir/hello");
  my $second = $t->start("$dir/hello", join => $first);
  $second->expect_err(qr/=== opened ===/);
  $second->signal('INT');
  $second->expect_err(qr/=== left ===/);
  $second->wait_exit(0);
  my $third = $t->start("$dir/hello", join => $first);
  $third->expect_err(qr/=== opened ===/);
  $first->signal('INT');
  $_->wait_exit(0) for $first, $third;
}

# ---- dmirun ------------------------------------------------------------------------------------

my $show = put('show', <<'END');
#!/bin/sh
env | grep ^DMI_ | grep -v -e ^DMI_TEST -e ^DMI_BUILD -e '^DMI_KEY_FILE=.*/key$' -e '^DMI_RUN=/.*/bin/dmirun$' | sort | tr '\n' ' '
echo "args: $*"
exit 5
END
chmod 0755, $show;
put('plain', "no program\n");

# dmirun ARGS leaves exactly these variables for the program.
sub hands_on {
  my ($args, $expected) = @_;
  local @ENV{qw(DMI_JOIN_HOST DMI_JOIN_PORT DMI_LISTEN_PORT DMI_POOL_BYTES DMI_READY_FD
    DMI_PARENT_PID DMI_GRACE DMI_JOIN_FILE DMI_CONTACT_FILE DMI_KEY_FD DMI_ENCRYPT DMI_BIND)} =
    ('stale') x 12;
  delete local $ENV{DMI_NO_SHM};
  my ($status, $out, $err) = run("$dmirun $args");
  is($out, $expected, "dmirun $args") or diag($err);
  is($status, 5, "dmirun $args: the program's own status");
}

my $l = 'DMI_LAUNCHED=1';
hands_on('./show', "$l args: \n");
hands_on('./show -i x -p 1', "$l args: -i x -p 1\n");
hands_on('-l 0 ./show', "$l DMI_LISTEN_PORT=0 args: \n");
hands_on('-l 7900+ ./show', "DMI_LAUNCHED=1 DMI_LISTEN_ELSE=1 DMI_LISTEN_PORT=7900 args: \n");
hands_on('-l65535 ./show', "$l DMI_LISTEN_PORT=65535 args: \n");
hands_on('-i node1 ./show', "DMI_JOIN_HOST=node1 $l args: \n");
hands_on('-i 10.0.0.1 -p 7881 ./show', "DMI_JOIN_HOST=10.0.0.1 DMI_JOIN_PORT=7881 $l args: \n");
hands_on("-i '[fe80::1%eth0]' ./show", "DMI_JOIN_HOST=fe80::1%eth0 $l args: \n");
hands_on('-i ::1 ./show', "DMI_JOIN_HOST=::1 $l args: \n");
hands_on('--contact new ./show', "DMI_CONTACT_FILE=$dir/new $l args: \n");
hands_on('-i @plain ./show', "DMI_CONTACT_FILE=$dir/plain DMI_JOIN_FILE=$dir/plain $l args: \n");
hands_on('-i @plain --contact /new ./show',
  "DMI_CONTACT_FILE=/new DMI_JOIN_FILE=$dir/plain $l args: \n");
hands_on('-i first --contact new ./show',
  "DMI_CONTACT_FILE=$dir/new DMI_JOIN_HOST=first $l args: \n");
hands_on('-s 1048576 ./show', "$l DMI_POOL_BYTES=1048576 args: \n");
hands_on('-s 3000K ./show', "$l DMI_POOL_BYTES=3072000 args: \n");
hands_on('-s 2G ./show', "$l DMI_POOL_BYTES=2147483648 args: \n");
hands_on('-s 5t ./show', "$l DMI_POOL_BYTES=5497558138880 args: \n");
hands_on('--key plain ./show', "DMI_KEY_FILE=$dir/plain $l args: \n");
hands_on('--key-fd 0 ./show < plain', "DMI_KEY_FD=0 $l args: \n");
hands_on('--encrypt ./show', "DMI_ENCRYPT=1 $l args: \n");
hands_on('--bind 127.0.0.1 ./show', "DMI_BIND=127.0.0.1 $l args: \n");
hands_on('--no-shm ./show', "$l DMI_NO_SHM=1 args: \n");
hands_on('--survive ./show', "$l DMI_SURVIVE=1 args: \n");
hands_on("--spin $_ ./show", "$l DMI_SPIN=$_ args: \n") for qw(auto off 50);
hands_on('--spin 007 ./show', "$l DMI_SPIN=7 args: \n");
hands_on('--dead-after 5 ./show', "DMI_DEAD_AFTER=5 $l args: \n");
hands_on('--dead-after 000 ./show', "DMI_DEAD_AFTER=0 $l args: \n");
{
  local $ENV{DMI_DEAD_AFTER} = 7;    # for all programs, as DMI_KEY_FILE
  hands_on('./show', "DMI_DEAD_AFTER=7 $l args: \n");
}
hands_on("$show two 'words here'", "$l args: two words here\n");
hands_on("-- ./show", "$l args: \n");
hands_on('--ready-fd 7 ./show', "$l DMI_READY_FD=7 args: \n");
like((run("echo \$\$; $dmirun --with-parent ./show; true"))[1],
  qr/\A(\d+)\n$l DMI_PARENT_PID=\1 args: \n/, 'dmirun --with-parent: the one who started it');
like((run("$dmirun --with-parent --grace 7 ./show; true"))[1],
  qr/\ADMI_GRACE=7 $l DMI_PARENT_PID=\d+ args: \n/, 'dmirun --grace');
hands_on("env ./show 1", "$l args: 1\n");
hands_on("sh -c './show 2'", "$l args: 2\n");
for my $options ('-s', '-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections -s') {
  ($status, $out, $err) = run("$dmicc $options good.c -o smaller && $dmirun -l 0 ./smaller");
  is($status, 0, "dmirun knows the program, linked with $options") or diag($err);
}

# dmirun ARGS: one line, status 2, and the program is not run.
sub refused {
  my ($args, $why) = @_;
  my ($status, $out, $err) = run("$dmirun $args");
  is($status, 2, "refused: dmirun $args");
  is($out, '', 'runs nothing');
  like($err, qr/\Admirun: [^\n]*$why[^\n]*\n\z/, 'says why in one line');
}

refused('', 'no program given');
refused('-l 65536 ./show', '-l 65536: .* from 0 to 65535');
refused('-l -1 ./show', '-l -1: .* from 0');
refused('-l http ./show', '-l http');
refused('-l + ./show', '-l \+');
refused('-l 1++ ./show', '-l 1\+');
refused('-i a -p 0 ./show', '-p 0: .* from 1 to 65535');
refused('-i a -p 65536 ./show', '-p 65536');
refused('-p 7881 ./show', '-p 7881 without -i.*-i HOST -p 7881.*-l 7881');
refused('-p 99999 ./show', '-p 99999: .* from 1 to 65535');
refused("-i '' ./show", '-i needs a host');
refused("-i 'a b' ./show", '-i a b');
refused('-i a:7881 ./show', '-i a -p 7881');
refused("-i '[::1]:7881' ./show", '-i ::1 -p 7881');
refused('-i @ ./show', '-i @ needs the name of a file');
refused('-i @. ./show', '-i @\.: not a file');
refused('-i @nosuch ./show', '-i @nosuch: No such file');
refused('-i @plain -p 1 ./show', '-p 1: the file of -i @plain');
refused("--contact '' ./show", '--contact needs the name of a file');
refused('-i -p ./show', '-i -p');
refused("-s $_ ./show", "-s $_: must be at least 1M") for qw(0 0G 1 512 1048575 1023K);
refused('-s -1 ./show', '-s -1');
refused('-s 1.5G ./show', '-s 1\.5G');
refused('-s G ./show', '-s G');
refused('-s 2GB ./show', '-s 2GB');
refused('-s 9223372036854775808 ./show', 'too large');
refused('-s 99999999999999999999999 ./show', 'too large');
refused('-s 8388608T ./show', 'too large');
# What would have no effect on who only looks.
refused("$$_[0] 127.0.0.1:1", "$$_[1]: it does not go with --status, which only looks") for ['--status -n 4 --tag', '-n'],
  ['--status --trace x', '--trace'], ['--status --web 0', '--web'], ['--status --profile x', '--profile'], ['--status --check', '--check'],
  ['--status --witness', '--witness'], ['--status -l 0', '-l'];
refused("--web 0 -i 127.0.0.1 -p 1 $$_[0]", "$$_[1]: it does not go with --web") for ['-n 4', '-n'], ['--trace x --profile y', '--profile'],
  ['--tag', '--tag'], ['--hosts a', '--hosts'];
ok(!-e $_, "and there is no $_") for qw(x y);
refused('--key nosuch ./show', '--key nosuch: no such file; make one');
refused("--key-fd $_ ./show", "--key-fd $_: .* from 0") for qw(-1 x 65536);
refused('--key plain --key-fd 0 ./show', '--key and --key-fd');
refused("--bind '' ./show", '--bind needs');
refused("--dead-after $_ ./show", "--dead-after $_: must be a whole number of seconds, 1 to 999999999, or 0 for never") for qw(x 1.5 1000000000);
refused('--dead-after', '--dead-after needs a value');
refused("--spin $_ ./show", "--spin $_: must be auto, off, or microseconds from 0 to 1000") for qw(x -1 1.5 1001);
refused('--key', '--key needs a value');
refused('-l', '-l needs a value');
refused("--ready-fd $_ ./show", "--ready-fd $_: .* from 3") for qw(2 x 65536);
refused('--ready-fd', '--ready-fd needs a value');
refused("--with-parent --grace $_ ./show", "--grace $_: must be a number of seconds") for qw(0 x -1);
refused('--grace 5 ./show', '--grace needs --with-parent');
refused('-x ./show', 'unknown option -x');
# Nobody would get them: the process itself says so, also when something else has started it.
for my $args ('-i first ./good -l 0', '-i @plain ./good -l', "-i first sh -c './good -l 5'") {
  ($status, $out, $err) = run("$dmirun $args");
  is($status, 2, "refused: dmirun $args");
  like($err, qr{\Admi: -l: a process that joins [^\n]* options of dmirun go before \./good\n\z}, 'in one line');
}
hands_on('-i first ./show -l 0', "DMI_JOIN_HOST=first $l args: -l 0\n");    # perhaps its own
hands_on("-i first sh -c './show 2'", "DMI_JOIN_HOST=first $l args: 2\n");
refused('--wrong ./show', 'unknown option --wrong;');
refused('--thread ./show', 'unknown option --thread \(did you mean --threads\?\);');
refused('--wit ./show', 'unknown option --wit;');    # several begin so
refused('./nosuch', './nosuch: no such program');
refused('./plain', './plain: not executable');
refused("$dir", 'not a file');
refused('show', 'show: not found in PATH; did you mean ./show');
refused('/bin/true', '/bin/true: not a DMI program');
refused('/bin/true 5 plain /bin/false nothing', '/bin/true: not a DMI program');
refused('nosuchprogram', 'nosuchprogram: no such program');

($status, $out, $err) = run("$dmirun -h");
is($status, 0, '-h');
like($out, qr/  $_ .*/, "-h explains $_") for qw(-i -p -l -s --key --key-fd --encrypt --bind --dead-after -h
  -v);
like($out, qr/Ctrl\+C asks to leave.*second.*third.*ends/s, '-h tells of one, two and three Ctrl+C');
like($out, qr/-p port .*7880.*\n *-l port .*7880(?:.*\n)+? *-s bytes .*2G/, '-h shows the defaults');
like((run("$dmirun -v"))[1], qr/^dmirun \(DMI\) \d+\.\d+\.\d+$/, '-v');

# The process is the program itself: signals reach it, and its end is dmirun's end.
my $self = put('self', <<'END');
#!/bin/sh
trap 'exit 9' INT
echo pid $$ end
while :; do sleep 0.1; done
END
chmod 0755, $self;
my $process = $t->start($self);
is(scalar $process->expect_out(qr/pid (\d+) end/), $process->pid, 'dmirun becomes the program');
$process->signal('INT');
$process->wait_exit(9);

# A port in use: an error, or with + any other one.
{
  require IO::Socket::INET;
  my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '0.0.0.0') or die;
  my $port = $taken->sockport;
  my $wants = $t->start("$dir/hello", opts => [-l => $port]);
  $wants->wait_exit(1);
  like($wants->err, qr/^dmi: port $port is in use/, 'a port in use');
  my $takes = $t->start("$dir/hello", opts => [-l => "$port+"]);
  isnt($takes->port, $port, 'any other will do');
  $takes->expect_err(qr/=== opened ===/);
  $takes->signal('INT');
  $takes->wait_exit(0);
}

# A launcher learns the port by a descriptor, and its end asks the process to leave, whatever ended it.
my $launcher = $t->spawn(['/bin/sh', '-c',
  "$dmirun -l 0 --with-parent --ready-fd 9 $dir/hello 9> $dir/ready & wait"], name => 'launcher');
$launcher->expect_err(qr/=== opened ===/);
open my $ready, '<', "$dir/ready" or die;
like(do { local $/; <$ready> }, qr/\A[1-9]\d*\n\z/, '--ready-fd: the port');
$launcher->signal('KILL');
$launcher->expect_err(qr/=== closed ===/);
$launcher->expect_err(qr/=== finalized ===/);
(undef, undef, $err) = run("DMI_PARENT_PID=1 $dir/hello");
like($err, qr/^dmi: process 1, which started this one, has ended/, 'a parent that has ended already');
$t->done;
