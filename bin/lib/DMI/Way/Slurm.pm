# Slurm.pm - inside an allocation: its nodes instead of a node file, and agents started by srun.
#
# Every process is a job step of its own, so each can come and go, and slurmstepd sends it the
# signals of `scancel --signal=TERM JOB` and of the time limit, even if dmimw has ended.  srun must
# not get SIGTERM, since it would then kill its step: nothing here may send it one while its process
# runs.
package DMI::Way::Slurm;

use strict;
use warnings;
use DMI::Way;
our @ISA = ('DMI::Way');

sub in_allocation { return defined $ENV{SLURM_JOB_ID} && defined $ENV{SLURM_JOB_NODELIST} }

# "2(x3),1": 2 2 2 1
sub _counts {
  my ($name, $text) = @_;
  return map {
    /^(\d+)(?:\(x(\d+)\))?$/ or die "$name=$text: not as Slurm writes it\n";
    ($1) x ($2 // 1);
  } split /,/, $text;
}

# A line (NodeFile) for each task of the allocation.  Dies with a reason.
sub lines {
  my ($class) = @_;
  die "started as one of $ENV{SLURM_STEP_NUM_TASKS} tasks of srun; it starts them itself: no srun\n"
    if ($ENV{SLURM_STEP_NUM_TASKS} // 1) > 1;
  open my $out, '-|', 'scontrol', 'show', 'hostnames', $ENV{SLURM_JOB_NODELIST}
    or die "cannot run scontrol: $!\n";
  chomp(my @hosts = <$out>);
  close $out && @hosts or die "scontrol does not know the nodes $ENV{SLURM_JOB_NODELIST}\n";
  my @cpus = _counts('SLURM_JOB_CPUS_PER_NODE', $ENV{SLURM_JOB_CPUS_PER_NODE} // '1');
  my @tasks = _counts('SLURM_TASKS_PER_NODE', $ENV{SLURM_TASKS_PER_NODE} // '1');
  my @lines;
  for my $number (0 .. $#hosts) {
    my $tasks = $tasks[$number] // $tasks[-1];
    # The processors of one task; 0: there are more tasks than processors.
    my $cpus = int(($cpus[$number] // $cpus[-1]) / $tasks);
    push @lines, map { { host => $hosts[$number], address => $hosts[$number], options => [],
      cpus => $cpus } } 1 .. $tasks;
  }
  return @lines;
}

sub name { return 'srun' }
sub at_once { return 32 }
# srun does not encrypt what it sends over the network.
sub is_private { return 0 }

# Each process gets processors and memory like a task of one srun, unless there are not enough, or
# the process is one more than the allocation has (--add).
sub command {
  my ($self, $line) = @_;
  my @share = $line->{cpus} ? ('--exact', '--mem=0', "--cpus-per-task=$line->{cpus}") : '--overlap';
  # Settings of the batch script are not for its single processes.
  my @unset = map { ('-u', $_) } grep {
    /^SLURM_(?:NTASKS|NPROCS|NNODES|MEM_PER|CPUS_PER|GPUS_PER|TRES_PER|THREADS_PER|TASKS_PER|
      DISTRIBUTION|OVERCOMMIT|OPEN_MODE|LABELIO|STEP_|HINT|CPU_BIND|EXCLUSIVE|EXACT|OVERLAP)/x
  } sort keys %ENV;
  return ('env', @unset, 'srun', '--nodes=1', '--ntasks=1', "--nodelist=$line->{host}", @share,
    '--unbuffered', '--mpi=none', '--kill-on-bad-exit=0', 'sh', '-c', $self->agent_shell_command);
}

# The node's name is usually the host name; if not, the name that the host reports helps.
sub addresses {
  my ($self, $line, $hello) = @_;
  return ($line->{address}, grep { defined && $_ ne $line->{address} } $hello->{host});
}

sub reason {
  my ($self, $text, $status) = @_;
  # The last of several lines only says that srun ends.
  my @errors = $text =~ /^srun: error: (.*)$/mg;
  return @errors ? "srun: $errors[0]" : $self->SUPER::reason($text, $status);
}

1;
