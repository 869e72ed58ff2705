# DMISlurm.pm - a Slurm cluster of a test's own on this machine: munged, slurmctld, and a slurmd for
# each of its nodes, in a temporary directory, on ports that the system chooses.
#
#   if (my $why = DMISlurm::missing()) { plan(skip_all => $why) }
#   my $t = DMITest->new(timeout => 60);
#   my $slurm = DMISlurm->new($t, nodes => 2);
#   my $job = $slurm->submit(['--ntasks=2', 'script', 'argument']);
#   $job->expect(qr/=== opened ===/);               # in what it writes
#   $slurm->run('scancel', '--signal=TERM', $job->id);
#   is($job->wait_end, 'COMPLETED', 'the job has ended');
#   $slurm->stop;
#   $t->done;
#
# It needs the programs of Debian's munge, slurmctld, slurmd and slurm-client, but no root, and
# nothing of a cluster that may be set up on this machine: SLURM_CONF names its own configuration.
# The nodes share the machine and its files; option -N tells each slurmd which node it is.
#
# Jobs are not children of the test.  So a second process, the sweeper, holds a pipe to it: when the
# test ends, even if it is killed, the sweeper kills what belongs to the cluster, and removes its
# directory.
package DMISlurm;

use strict;
use warnings;
use DMITest;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use FreePort qw(free_ports);
use POSIX ();

my $current;

# Finds a program, also a daemon's: these are in directories that may not be in PATH.
sub program {
  my ($name) = @_;
  my ($path) = grep { -x && -f _ } map { "$_/$name" } split(/:/, $ENV{PATH} // ''), '/usr/sbin',
    '/sbin';
  return $path;
}

# Why it cannot run here; undef when it can.
sub missing {
  my @missing = grep { !program($_) }
    qw(munged slurmctld slurmd sbatch srun scancel scontrol sinfo squeue);
  return undef unless @missing;
  return "no Slurm here: @missing missing (Debian: munge slurmctld slurmd slurm-client)";
}

# DMISlurm->new(test, nodes => number, cpus => of each): a cluster whose nodes are idle.
sub new {
  my ($class, $test, %opt) = @_;
  my $self = bless {
    test => $test,
    names => [map { "n$_" } 1 .. $opt{nodes} // 2],
    cpus => $opt{cpus} // 2,
    # munged wants a directory that all can reach; that of the test is its user's alone.
    dir => tempdir('dmi-slurm-XXXXXX', DIR => '/tmp'),
    daemons => [],
    jobs => [],
  }, $class;
  $current = $self;
  chmod 0755, $self->{dir};    # munged needs a socket that all users can reach
  $self->_start_sweeper;
  $self->_configure;
  $self->_start_daemons;
  return $self;
}

# A directory that all nodes see; jobs start there, and leave slurm-N.out there.
sub dir { return "$_[0]{dir}/work" }

# Runs a command in that directory to its end; returns what it printed.  It must succeed.
sub run {
  my ($self, @command) = @_;
  my $text = do {
    local $SIG{CHLD} = 'DEFAULT';
    my $pid = open(my $out, '-|') // die "DMISlurm: no process: $!\n";
    if ($pid == 0) {
      $SIG{$_} = 'DEFAULT' for qw(PIPE ALRM INT TERM HUP);
      no warnings 'exec';
      chdir $self->dir and open STDERR, '>&', \*STDOUT and exec { $command[0] } @command;
      print "cannot run: $!\n";
      POSIX::_exit(127);
    }
    local $/;
    my $all = <$out> // '';
    close $out or $self->{test}->fail_now("@command: succeeds (it says: $all)");
    $all;
  };
  $self->{test}->_wake;    # another child may have ended meanwhile
  return $text;
}

# sbatch, in the directory dir: options, script, arguments.  name: in logs.
sub submit {
  my ($self, $arguments, %opt) = @_;
  my $answer = $self->run('sbatch', '--parsable', @$arguments);
  my ($id) = $answer =~ /^(\d+)$/m or $self->{test}->fail_now("sbatch tells the job's number");
  my $name = $opt{name} // "job $id";
  my $file = $self->dir . "/slurm-$id.out";
  my $job = { slurm => $self, id => $id, name => $name, file => $file };
  $job->{output} = $self->_follow($file, $name);
  push @{ $self->{jobs} }, bless $job, 'DMISlurm::Job';
  return $job;
}

# The nodes on which tasks of a job were started, one entry for each task; the batch script does not
# count.
sub started {
  my ($self, $job) = @_;
  return map {
    my $daemon = $_;
    my ($node) = $daemon->name =~ /^slurmd (\S+)/;
    defined $node ? map { $node } $daemon->err =~ /launch task StepId=$job->{id}\./g : ();
  } @{ $self->{daemons} };
}

# Follows a file as if it were the output of a process: what is written to it, now or later, is an
# event; there is no polling.
sub _follow {
  my ($self, $file, $name) = @_;
  return $self->{test}->spawn(
    ['tail', '-q', '-s', '0.05', '-n', '+1', '-F', $file],
    name => $name, env => { LC_ALL => 'C' });
}

# ---- The cluster ---------------------------------------------------------------------------------

sub _write {
  my ($self, $name, $text) = @_;
  open my $file, '>', "$self->{dir}/$name" or die "DMISlurm: $name: $!\n";
  chmod 0600, $file if $name eq 'munge/key';
  print $file $text;
  close $file or die "DMISlurm: $name: $!\n";
}

sub _configure {
  my ($self) = @_;
  my $dir = $self->{dir};
  mkdir "$dir/$_", 0755 or die "DMISlurm: $dir/$_: $!\n" for qw(munge state work), @{ $self->{names} };
  open my $random, '<', '/dev/urandom' or die "DMISlurm: no random numbers: $!\n";
  read $random, my $key, 128;
  $self->_write('munge/key', $key);
  my ($port, @node_ports) = free_ports(1 + @{ $self->{names} });
  my $user = getpwuid $> // die "DMISlurm: user $> has no name\n";
  my $nodes = join '', map {
    "NodeName=$_ NodeHostname=localhost NodeAddr=127.0.0.1 Port=" . shift(@node_ports)
      . " CPUs=$self->{cpus} RealMemory=1000 State=UNKNOWN\n"
  } @{ $self->{names} };
  $self->_write('slurm.conf', <<"END");
ClusterName=dmitest
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n/pid
SlurmctldDebug=debug
MailProg=/bin/true
# Without control groups, since these belong to the machine.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/ended
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
${nodes}PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF
END
  delete @ENV{ grep { /^(?:SLURM|SBATCH|SRUN|SALLOC)_/ } keys %ENV };
  $ENV{SLURM_CONF} = "$dir/slurm.conf";
}

sub _daemon {
  my ($self, $name, $command, @arguments) = @_;
  my $daemon = $self->{test}->spawn([program($command), @arguments], name => $name);
  push @{ $self->{daemons} }, $daemon;
  return $daemon;
}

sub _start_daemons {
  my ($self) = @_;
  my ($test, $dir) = @$self{qw(test dir)};
  my $munge = "$dir/munge";
  my $shows = sub {
    my ($daemon, $regex) = @_;
    $test->wait_until(sub {
      $test->fail_now($daemon->name . " says $regex (it has ended)") unless $daemon->running;
      return $daemon->err =~ $regex;
    }, $daemon->name . " says $regex");
  };
  my $munged = $self->_daemon('munged', 'munged', '--foreground', "--socket=$munge/socket",
    "--key-file=$munge/key", map { "--$_-file=$munge/$_" } qw(pid log seed));
  $shows->($munged, qr/Created socket/);
  my $slurmctld = $self->_daemon('slurmctld', 'slurmctld', '-D', '-i');
  $shows->($slurmctld, qr/Running as primary controller/);
  $self->_daemon("slurmd $_", 'slurmd', '-D', '-N', $_) for @{ $self->{names} };
  $shows->($slurmctld, qr/node $_ registered with 0 jobs/) for @{ $self->{names} };
  like($self->run('scontrol', 'ping'), qr/ is UP$/, 'slurmctld answers');
  my $idle = join '', map { "$_ idle\n" } @{ $self->{names} };
  is($self->run('sinfo', '-h', '-N', '-p', 'main', '-o', '%N %t'), $idle, 'the nodes are idle');
  # One line for each job that ends.
  $self->_write('ended', '');
  $self->{ended} = $self->_follow("$dir/ended", 'ended jobs');
}

# Ends the cluster: stops its daemons in order, then kills what is left and removes its files.
sub stop {
  my ($self) = @_;
  my $test = $self->{test};
  for my $process (map({ $_->{output} } @{ $self->{jobs} }), $self->{ended},
    reverse @{ $self->{daemons} }) {
    $process->signal('TERM', dies => 1);
    $test->wait_until(sub { !$process->running }, $process->name . ' stops');
  }
  ok($self->_sweep, 'nothing of the cluster is left');
}

# ---- The sweeper ---------------------------------------------------------------------------------

# The processes of the cluster and its jobs: their environment names its configuration, or they
# have a file in its directory.  (A slurmstepd, whose title overwrites its environment, has a log.)
sub _members {
  my ($dir, @others) = @_;
  my @members;
  for my $proc (glob '/proc/[0-9]*') {
    my ($pid) = $proc =~ /(\d+)$/;
    next if grep { $_ == $pid } $$, @others;
    my $environment = '';
    if (open my $file, '<', "$proc/environ") { local $/; $environment = <$file> // '' }
    my @links = map { readlink // () } "$proc/cwd", glob "$proc/fd/*";
    push @members, $pid
      if index($environment, "SLURM_CONF=$dir/") >= 0 || grep { index("$_/", "$dir/") == 0 } @links;
  }
  return @members;
}

sub _start_sweeper {
  my ($self) = @_;
  my $dir = $self->{dir};
  my $owner = $$;
  pipe my $reader, my $writer or die "DMISlurm: no pipe: $!\n";
  my $pid = fork // die "DMISlurm: no process: $!\n";
  if ($pid == 0) {
    # In a process group of its own, so that it survives when the test's group is killed.
    POSIX::setsid();
    $SIG{$_} = 'IGNORE' for qw(INT TERM HUP PIPE ALRM);
    close $writer;
    for my $stream (\*STDIN, \*STDOUT, \*STDERR) { open $stream, '+<', '/dev/null' }
    sysread $reader, my $byte, 1;    # this ends when the test ends
    my ($left, $round) = (0, 0);
    while (my @members = _members($dir, $owner)) {
      $left = 1;
      kill KILL => @members;
      last if $round++ == 500;
      select undef, undef, undef, 0.01;    # killed processes need some time to end
    }
    remove_tree($dir);
    POSIX::_exit($left || -e $dir ? 1 : 0);
  }
  @$self{qw(sweeper sweeper_end)} = ($pid, $writer);
}

# True: there was nothing to kill, and the directory is gone.
sub _sweep {
  my ($self) = @_;
  my $pid = delete $self->{sweeper} or return 1;
  close delete $self->{sweeper_end};
  local ($?, $SIG{CHLD}) = (0, 'DEFAULT');
  waitpid $pid, 0;
  $current = undef;
  return $? == 0;
}

# Runs before DMITest's END, which removes directories that a job might still write to.
END { $current->_sweep if $current }

# ---- One job -------------------------------------------------------------------------------------

package DMISlurm::Job;

use strict;
use warnings;
use Test::More;

sub id { return $_[0]{id} }

# Waits until what it writes matches, from where the last one ended: DMITest's expect_out.
sub expect {
  my ($self, $regex, $seconds) = @_;
  local $Test::Builder::Level = $Test::Builder::Level + 1;
  return $self->{output}->expect_out($regex, $seconds);
}

# Waits for its end; returns its state (COMPLETED, FAILED, CANCELLED, TIMEOUT, PREEMPTED ...).
sub wait_end {
  my ($self, $seconds) = @_;
  my ($slurm, $output) = @$self{qw(slurm output)};
  my $test = $slurm->{test};
  my $state;
  $test->wait_until(sub {
    ($state) = $slurm->{ended}->out =~ /^JobId=$self->{id} .*? JobState=(\w+) .*\n/m;
    return $state;
  }, "$self->{name} ends", $seconds);
  # Wait for all its output, also for the check for sanitizers' reports.
  $test->wait_until(sub { length $output->out == -s $self->{file} }, "$self->{name}: all is read");
  return $state;
}

# All it wrote so far.
sub text { return $_[0]{output}->out }

1;
