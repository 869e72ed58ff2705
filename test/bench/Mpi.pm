package Mpi;

# Mpi - runs programs that are written for Open MPI, and puts DMI's figures beside those of mpi_ops.
#
# Over TCP, which mpi_ops checks, and over shared memory, each beside DMI's figures of the same way.  Each process is bound to the core to which its DMI counterpart is bound, or none is.  An MPI process
# that waits spins; where processes share a core they are told to yield it, as mpirun itself would
# tell them.
use strict;
use warnings;

use File::Temp ();
use JSON::PP   ();

# The loopback interface is named because it is the one that every machine has.
my @COMMON = split ' ', '--allow-run-as-root --oversubscribe --bind-to none --mca pml ob1';
my @TCP    = split ' ', '--mca btl tcp,self --mca btl_tcp_if_include lo';
my %OVER    = (tcp => \@TCP, shm => ['--mca', 'btl', 'vader,self']);

# One-sided calls: by messages.  (A window that MPI itself has put into shared memory is loaded from and stored to
# directly, without any other process: that is a thread's own memory, with which a read hit is compared.)
my %WINDOWS = (tcp => [split ' ', '--mca osc rdma,pt2pt'], shm => [split ' ', '--mca osc pt2pt']);
my $SECONDS = 120;    # for one run

# What is compared: a figure of DMI, the one of MPI, the call of MPI, and where there is a target: how many times
# as long as MPI DMI may take.  Each in two places, named as in the bench; on one core there is another target or none.
my @ROWS = map { in_two_places(@$_) } (
  ['GET 8 bytes',               'get_8',         'get_8',       'MPI_Get, MPI_Win_flush', 1, 1],
  ['GET 8 bytes',               'get_8',         'rget_8',      'MPI_Rget, MPI_Wait',     1, 1],
  ['PUT 8 bytes',               'put_8',         'put_8',       'MPI_Put, MPI_Win_flush', 1, 1],
  ['fetch-and-add',             'fad',           'fad',         'MPI_Fetch_and_op',       1, 1],
  ['compare-and-swap',          'cas',           'cas',         'MPI_Compare_and_swap',   1, 1],
  ['fetch-and-store',           'fas',           'fas',         'MPI_Fetch_and_op, REPLACE', 1, 1],
  ['GET 8 bytes, 64 in flight', 'get_8_async',   'get_8_async', 'MPI_Rget, MPI_Waitall'],
  ['GET 1 MiB',                 'get_1m',        'get_1m',      'MPI_Rget, MPI_Wait',     1, 1],
  ['first read of 1 MiB',       'first_read_1m', 'get_1m',      'MPI_Rget, MPI_Wait'],
  ['group read, 1 page',        'group_read_1',  'group_read_1', 'MPI_Rget, indexed type'],
  ['group read, 10 pages',      'group_read_10', 'group_read_10', 'MPI_Rget, indexed type'],
  ['group read, 100 pages',     'group_read_100', 'group_read_100', 'MPI_Rget, indexed type', 1.5],
  ['barrier of 2',              'barrier_2',     'barrier_2',   'MPI_Barrier',            1.2],
  ['allreduce of 2',            'allreduce_2',   'allreduce_2', 'MPI_Allreduce',          1.2],
);

# On two cores, both by shared memory.
my @SHM_ROWS = map { compared("$_->[0], shared memory", "$_->[1]_shm", "$_->[1]_shm", $_->[2], $_->[3]) } (
  ['GET 8 bytes',       'get_8',       'MPI_Get, MPI_Win_flush'],
  ['fetch-and-add',     'fad',         'MPI_Fetch_and_op'],
  ['GET 1 MiB',         'get_1m',      'MPI_Rget, MPI_Wait'],
  ['barrier of 2',      'barrier_2',   'MPI_Barrier'],
  ['allreduce of 2',    'allreduce_2', 'MPI_Allreduce'],
  ['barrier of 8',      'barrier_8',   'MPI_Barrier'],
  ['allreduce of 8',    'allreduce_8', 'MPI_Allreduce'],
  ['64 MiB to all of 8', 'bcast_64m_8', 'MPI_Bcast', 1],
);

# Beside these: with as many processes as this, which are bound to no core.
my @MANY = (4, 8);

sub compared {
  my ($what, $key, $mpi_key, $call, $target) = @_;
  return { what => $what, key => $key, mpi_key => "mpi_$mpi_key", call => $call,
    target => $target };
}

sub in_two_places {
  my ($what, $key, $mpi_key, $call, $target, $target_together) = @_;
  return (
    compared("$what, two cores", $key,              $mpi_key,              $call, $target),
    compared("$what, one core",  "${key}_together", "${mpi_key}_together", $call, $target_together),
  );
}

# Takes the path of a program.  Dies with one line, which says what is missing and how to get it.
sub new {
  my ($class, $path) = @_;
  my $how = 'test/bench/setup installs it';
  my ($version) = qx{mpirun --version 2>/dev/null} =~ /Open MPI\D*([\d.]+\S*)/;
  die "there is no Open MPI: $how\n"            if !defined $version;
  die "there is no mpicc to build with: $how\n" if !-x $path;
  return bless { path => $path, version => $version }, $class;
}

sub version { return $_[0]{version} }

# Runs $num processes of the program with arguments (one, or a list), over `tcp` or `shm`: each on the core given for
# it, those for which there is none on the last one; no cores: on all.  Returns what they printed.
sub run {
  my ($mpi, $over, $args, $num, @cores) = @_;
  my @program = ($mpi->{path}, ref $args ? @$args : $args);
  my @on      = @cores ? map { $cores[$_] // $cores[-1] } 0 .. $num - 1 : ();
  my $online  = keys %{ { map { $_ => 1 } @on } } || qx{getconf _NPROCESSORS_ONLN};
  my @command = ('timeout', $SECONDS, 'mpirun', @COMMON, @{ $OVER{$over} }, @{ $WINDOWS{$over} },
    '--mca', 'mpi_yield_when_idle', $num > $online ? 1 : 0);
  if (@on) {
    for my $i (0 .. $#on) { push @command, $i ? ':' : (), '-np', 1, 'taskset', '-c', $on[$i], @program }
  } else {
    push @command, '-np', $num, @program;
  }
  return output_of(@command);
}

sub output_of {
  my @command = @_;
  my $errors = File::Temp->new;
  my $pid    = open(my $out, '-|') // die "fork: $!\n";
  if ($pid == 0) {
    open STDERR, '>&', $errors or die "$errors: $!\n";
    open STDIN, '<', '/dev/null' or die "/dev/null: $!\n";
    exec { $command[0] } @command or die "$command[0]: $!\n";
  }
  my $text = do { local $/ = undef; <$out> } // '';
  return $text if close $out;
  open my $file, '<', "$errors" or die "$errors: $!\n";
  die "@command\nended with status $?:\n", $text, <$file>;
}

# Runs all that the DMI programs have measured, in the same places.  Hands what is printed and a
# suffix to $add, which returns how many figures that were.
sub run_all {
  my ($mpi, $add, @cores) = @_;
  my @runs = map { (['tcp', $_, '', 2, @cores], ['tcp', $_, '_together', 2, @cores[0, 0]]) } qw(one-sided together);
  push @runs, ['shm', ['one-sided', 'shm'], '_shm', 2, @cores], ['shm', 'together', '_shm', 2, @cores];
  push @runs, (map { ['tcp', 'together', '', $_] } @MANY), ['shm', 'together', '_shm', 8];
  for my $run (@runs) {
    my ($over, $mode, $suffix, @how) = @$run;
    $add->($mpi->run($over, $mode, @how), $suffix) > 0 or die "mpi_ops printed no figure\n";
  }
  return;
}

# The rows with their numbers.  $figures: name => { unit, median }.  $place names the place of a
# number of processes.  Without a figure of DMI there is no ratio.
sub evaluate {
  my ($mpi, $figures, $place) = @_;
  my @many = map {
    my $num = $_;
    map { compared("$_ " . $place->($num), "${_}_$num", "${_}_$num", "MPI_\u$_", $num == 8 ? 1 : undef) }
      qw(barrier allreduce)
  } @MANY;
  push @many, compared('64 MiB to all ' . $place->(8), 'bcast_64m_8', 'bcast_64m_8', 'MPI_Bcast', 1);
  return map { evaluate_row($_, $figures) } @ROWS, @many, @SHM_ROWS;
}

sub evaluate_row {
  my ($row, $figures) = @_;
  my ($figure, $peer) = @$figures{ @$row{qw(key mpi_key)} };
  die "no figure for $row->{mpi_key}\n" if !$peer;
  my %result = (%$row, unit => $peer->{unit}, mpi_value => $peer->{median});
  $result{$_} = undef for qw(value ratio met);
  return \%result if !$figure;
  die "$row->{key} and $row->{mpi_key} have two units\n" if $figure->{unit} ne $peer->{unit};
  $result{value} = $figure->{median};
  $result{ratio} = $result{value} / $result{mpi_value};
  return \%result if !defined $row->{target};
  # A rate is that of so many times as long.
  my $times = $peer->{unit} eq 'MB/s' ? 1 / $result{ratio} : $result{ratio};
  $result{met}    = $times <= $row->{target} ? JSON::PP::true() : JSON::PP::false();
  $result{target} = $row->{target} == 1 ? 'faster' : "<= $row->{target} x";
  return \%result;
}

1;
