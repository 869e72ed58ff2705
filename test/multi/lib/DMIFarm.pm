# DMIFarm.pm - for tests of dmifarm: jobs, their masters and workers, and what is in their directories.
#
#   my $farm = DMIFarm->new($t);
#   my $job = $farm->job(one => "echo 1\n");
#   my $master = $farm->run($job);
#   my $worker = $farm->worker($master, 'worker');
package DMIFarm;

use strict;
use warnings;
use Exporter qw(import);
use File::Path qw(make_path);
use POSIX qw(mkfifo);
use Test::More;

our @EXPORT = qw(content write_file);

sub new {
  my ($class, $t) = @_;
  my $self = bless { t => $t, jobs => 0, tmp => $t->dir . '/tmp', dmifarm => $t->build . '/bin/dmifarm' }, $class;
  make_path($self->{tmp});
  $ENV{TMPDIR} = $self->{tmp};    # where workers have their directories
  # A worker whose master is killed ends at once: nobody joins its threads any more.
  $ENV{TSAN_OPTIONS} = join ':', 'report_thread_leaks=0', $ENV{TSAN_OPTIONS} // ();
  return $self;
}

sub program { return $_[0]{dmifarm} }

# The bytes of a file, or what comes through a FIFO until it is closed; undef: there is none.
sub content {
  my ($path) = @_;
  local $SIG{CHLD} = 'DEFAULT';    # which must not interrupt a wait for the other end of a FIFO
  open my $file, '<:raw', $path or return undef;
  local $/;
  return scalar <$file>;
}

sub write_file {
  my ($path, $text, $mode) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  open my $file, '>:raw', $path or die "$path: $!";
  print $file $text;
  close $file or die "$path: $!";
  chmod $mode, $path if defined $mode;
}

# A job with these tasks: name => text.
sub job {
  my ($self, %tasks) = @_;
  my $job = $self->{t}->dir . '/job' . ++$self->{jobs};
  make_path("$job/tasks", "$job/data", "$job/bin");
  write_file("$job/tasks/$_", $tasks{$_}) for keys %tasks;
  return $job;
}

# Makes a task that says it is there, and waits for the test: see `meet` and `let_go`.
sub make_waiting {
  my ($self, $job, $name) = @_;
  for my $fifo (map { "$job/$name.$_" } qw(here go)) {
    -p $fifo or mkfifo($fifo, 0600) or die "$fifo: $!";
  }
  write_file("$job/tasks/$name", "echo \$DMIFARM_VERSION > '$job/$name.here'; read line < '$job/$name.go'; echo \$line\n");
}

# Waits until a version of the task is there; returns its letter.
sub meet {
  my ($self, $job, $name) = @_;
  return content("$job/$name.here") =~ s/\n//r;
}

sub let_go {
  my ($self, $job, $name, $text) = @_;
  write_file("$job/$name.go", "$text\n");
}

# dmifarm run; opts => [...] are its options.
sub run {
  my ($self, $job, %opt) = @_;
  my @command = ($self->{dmifarm}, 'run', $job, @{ $opt{opts} // [] }, '--', -l => 0);
  return $self->{t}->spawn(\@command, name => $opt{name} // 'master');
}

# A worker with one place.
sub worker {
  my ($self, $master, $name) = @_;
  my @join = ($self->{t}->build . '/bin/dmirun', -i => '127.0.0.1', -p => $master->port, -l => 0);
  return $self->{t}->spawn(['taskset', -c => 0, @join, $self->{dmifarm}], name => $name);
}

# The table at the end: task and version => [host, begin, seconds, status].
sub results {
  my ($self, $job) = @_;
  my ($head, @lines) = split /\n/, content("$job/results.tsv") // '';
  is($head, join("\t", qw(task version host begin seconds status)), 'the head of results.tsv');
  return map { my ($task, $version, @rest) = split /\t/; ("$task.$version" => \@rest) } @lines;
}

# Directories of versions with results.
sub versions {
  my ($self, $job) = @_;
  return sort map { m{([^/]+)/done\z} } glob "$job/*/done";
}

# The runner of a worker that was killed outlives it, and nothing tells when it has removed the
# directory.
sub nothing_left {
  my ($self, $what) = @_;
  $self->{t}->wait_looking(sub {
    my @left = glob "$self->{tmp}/*";
    return !@left;
  }, "$what: nothing is left of its workers");
}

1;
