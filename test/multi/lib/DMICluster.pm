# DMICluster.pm - hosts to log in to, made by a test on this machine: each with an sshd of its own,
# keys and a configuration of the test's own.  The user's own ssh files are neither used nor
# changed.
#
#   if (my $why = DMICluster::missing()) { plan(skip_all => $why) }
#   my $t = DMITest->new(timeout => 60);
#   my $cluster = DMICluster->new($t, hosts => 4);
#   my $mw = $t->spawn([$cluster->here($dmimw, '--ssh', $cluster->ssh, '-f', $file, './prog')]);
#   is_deeply([$cluster->running], [], 'nothing is left');
#
# As root, where the kernel lets it, the hosts are namespaces of network, processes, mounts and host
# name, at a bridge: h1, h2, ... have addresses 10.83.0.1, ..., and dmimw runs in one more, `head`
# (10.83.0.250), which has that bridge and the processes of this machine.  They exist as long as the
# test: when it ends, even if it is killed, the kernel kills all that runs on h1, h2, ...  Otherwise
# (is_real false) the hosts are names that only ssh knows, for one sshd of this user on a port of
# 127.0.0.1.
package DMICluster;

use strict;
use warnings;
use Cwd qw(abs_path);
use DMITest;
use IO::Handle;
use IO::Socket::INET;
use Test::More ();
use Time::HiRes qw(time);

sub _program {
  my ($name) = @_;
  my ($path) = grep { -x && -f _ } map { "$_/$name" } split(/:/, $ENV{PATH} // ''), '/usr/sbin',
    '/sbin';
  return $path;
}

# Why it cannot run here; undef when it can.
sub missing {
  my @missing = grep { !_program($_) } qw(ssh sshd ssh-keygen);
  return @missing ? "no ssh to test with: @missing missing (Debian: openssh-server)" : undef;
}

# A cluster whose hosts have networks of their own; where there can be none, the test ends here.
sub with_networks {
  my ($class, $t, %opt) = @_;
  my $cluster = $class->new($t, %opt);
  return $cluster if $cluster->is_real;
  $cluster->stop;
  Test::More::pass('needs network namespaces, which are not to be had here');
  $t->done;
  exit;
}

# Whether hosts can be namespaces; if not, why.
sub _why_not_real {
  return 'not root' if $> != 0;
  my @missing = grep { !_program($_) } qw(ip unshare nsenter);
  return "@missing missing (Debian: iproute2, util-linux)" if @missing;
  my $tried = `unshare -n -u -p -m --mount-proc --fork sh -c 'ip link add br0 type bridge &&
    ip link add v0 type veth peer name v1 && mount -t tmpfs none /run' 2>&1`;
  return $? == 0 ? undef : "no namespaces here: $tried";
}

# DMICluster->new(test, hosts => number)
sub new {
  my ($class, $test, %opt) = @_;
  my $self = bless {
    test => $test, dir => $test->dir, names => [map { "h$_" } 1 .. $opt{hosts} // 4], holders => {},
  }, $class;
  local $SIG{CHLD} = 'DEFAULT';
  $self->{why} = $opt{real} // 1 ? _why_not_real() : 'not wanted';
  note("hosts are names of one sshd, not network namespaces: $self->{why}") if defined $self->{why};
  for my $key (qw(host user)) {
    system(qw(ssh-keygen -q -t ed25519 -N), '', '-f', "$self->{dir}/$key") == 0 or die;
  }
  if ($self->is_real) { $self->_make_namespaces }
  else { $self->_make_one_sshd }
  return $self;
}

sub is_real { return !defined $_[0]{why} }
sub names { return @{ $_[0]{names} } }
sub ssh { return "ssh -F $_[0]{dir}/ssh_config" }    # for --ssh
sub address { my ($self, $name) = @_; return $self->{address}{$name} }

# The command line that runs a command where dmimw runs.
sub here {
  my ($self, @command) = @_;
  return @command unless $self->is_real;
  # This process becomes the command, so that it gets the signals.
  return ('nsenter', '-t', $self->{holders}{head}{pid}, qw(-n -u -m), "--wd=$self->{dir}", '--',
    @command);
}

# The command line that runs a command with the network and the name of a host, but with the
# processes and files of this machine, so that the test can handle it like any other process.  Real
# hosts only.
sub on {
  my ($self, $name, @command) = @_;
  return ('nsenter', '-t', $self->{holders}{$name}{pid}, qw(-n -u), '--', @command);
}

# What runs on all hosts and does not belong to the cluster itself: ["h1 4711 ./prog", ...].  If
# there is only one host, its name is "this", and the list has what that sshd has started and what
# connects to it.
sub running {
  my ($self) = @_;
  my @found;
  my %host = map { ($self->{holders}{$_}{space} => $_) } keys %{ $self->{holders} };
  for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
    next if $self->{own}{$pid};
    my $command = _content("/proc/$pid/cmdline") =~ s/\0/ /gr or next;    # nothing: it has ended
    next if $command =~ /^sshd: |^\S*sshd -D/;
    my $host = $self->is_real ? $host{ readlink("/proc/$pid/ns/net") // '' }
      : $command =~ /^ssh .*\Q$self->{dir}\E/
        || _content("/proc/$pid/environ") =~ /^SSH_CONNECTION=.* $self->{port}$/m ? 'this' : undef;
    push @found, "$host $pid $command" if defined $host;
  }
  return sort @found;
}

sub _content {
  my ($path) = @_;
  open my $file, '<', $path or return '';
  my $text = do { local $/; <$file> } // '';
  $text =~ s/\0/\n/g if $path =~ /environ$/;
  return $text;
}

# Waits until nothing of `running` matches: returns undef, or what still matches after so many
# seconds.
sub wait_gone {
  my ($self, $regex, $seconds) = @_;
  my $deadline = time + $seconds;
  while (my ($line) = grep { /$regex/ } $self->running) {
    my ($pid) = $line =~ /^.*? (\d+) /;
    my $left = $deadline - time;
    return $line if $left <= 0 || !DMITest::end_of($pid)->($left);
  }
  return undef;
}

# Cuts the host's network link; and restores it.
sub cut { my ($self, $name) = @_; return $self->_link($name, 'down') }
sub mend { my ($self, $name) = @_; return $self->_link($name, 'up') }

sub _link {
  my ($self, $name, $how) = @_;
  local $SIG{CHLD} = 'DEFAULT';
  return system($self->here('ip', 'link', 'set', "v-$name", $how)) == 0 || die "$name: $how\n";
}

# Cuts the way from one host to another, and no other: what is sent on it goes to a machine that does not
# exist, and nobody is told.  And mends it.
sub cut_way {
  my ($self, $from, $to) = @_;
  return $self->_neighbour($from, $to, 'replace', qw(lladdr 02:00:00:00:00:fe nud permanent));
}

sub mend_way { my ($self, $from, $to) = @_; return $self->_neighbour($from, $to, 'del') }

sub _neighbour {
  my ($self, $from, $to, $how, @what) = @_;
  my $device = $from eq 'head' ? 'br0' : 'eth0';
  local $SIG{CHLD} = 'DEFAULT';
  return system('nsenter', '-t', $self->{holders}{$from}{pid}, '-n', 'ip', 'neigh', $how,
    $self->{address}{$to}, 'dev', $device, @what) == 0 || die "way from $from to $to: $how\n";
}

# ---- ssh ---------------------------------------------------------------------------------------

sub _put {
  my ($self, $name, $text) = @_;
  open my $file, '>', "$self->{dir}/$name" or die "$self->{dir}/$name: $!\n";
  print $file $text;
  close $file or die;
  return "$self->{dir}/$name";
}

sub _sshd_config {
  my ($self, $listen) = @_;
  system("cp $self->{dir}/user.pub $self->{dir}/authorized") == 0 or die;
  return $self->_put('sshd_config', <<"END");
$listen
HostKey $self->{dir}/host
AuthorizedKeysFile $self->{dir}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
LogLevel INFO
END
}

sub _ssh_config {
  my ($self, $hosts) = @_;
  my $host_key = do { open my $file, '<', "$self->{dir}/host.pub" or die; <$file> };
  $self->_put('known_hosts', "* $host_key");
  return $self->_put('ssh_config', <<"END");
$hosts
Host *
  IdentityFile $self->{dir}/user
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile $self->{dir}/known_hosts
  GlobalKnownHostsFile /dev/null
END
}

# ---- One sshd ----------------------------------------------------------------------------------

sub _make_one_sshd {
  my ($self) = @_;
  my $free = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
  my $port = $self->{port} = $free->sockport;
  close $free;
  mkdir '/run/sshd' if $> == 0 && !-d '/run/sshd';
  my $config = $self->_sshd_config("ListenAddress 127.0.0.1:$port");
  my $sshd = $self->{test}->spawn([_program('sshd'), '-D', '-e', '-f', $config], name => 'sshd');
  $sshd->{may_die_of}{TERM} = 1;
  $self->{sshd} = $sshd;
  $self->_ssh_config("Host @{[$self->names]}\n  HostName 127.0.0.1\n  Port $port\n");
  $self->{address}{$_} = '127.0.0.1' for $self->names;
  # sshd does not report that it listens, so try to connect.
  $self->{test}->wait_until(sub {
    return 1 if IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
    $self->{test}->_pump(0.01);
    return 0;
  }, 'sshd listens');
  return;
}

# ---- Namespaces --------------------------------------------------------------------------------

sub _make_namespaces {
  my ($self) = @_;
  my $sshd = _program('sshd');
  my $config = $self->_sshd_config('Port 22');
  my $number = 0;
  $self->{address} = { head => '10.83.0.250', map { $_ => '10.83.0.' . ++$number } $self->names };
  my $hosts = $self->_put('hosts', join '', "127.0.0.1 localhost\n",
    map { "$self->{address}{$_} $_\n" } 'head', $self->names);
  my $every = "mount --bind $hosts /etc/hosts; mount -t tmpfs none /run; mkdir /run/sshd; "
    . 'test ! -f ~/.bashrc || mount --bind /dev/null ~/.bashrc; ip link set lo up';
  $self->_hold('head', "$every; ip link add br0 type bridge; ip addr add 10.83.0.250/24 dev br0; "
    . 'ip link set br0 up');
  my $head = $self->{holders}{head}{pid};
  for my $name ($self->names) {
    $self->_hold($name, $every, "read go; ip addr add $self->{address}{$name}/24 dev eth0; "
      . "ip link set eth0 up; $sshd -D -e -f $config 2>&1 | while read line; do "
      . 'case $line in *"Server listening"*) echo listens;; esac; done &');
    my $holder = $self->{holders}{$name};
    # The link is made from the head, since the host does not see the head's processes.
    system("nsenter -t $head -n ip link add v-$name type veth peer name eth0 netns $holder->{pid} && "
      . "nsenter -t $head -n ip link set v-$name master br0 up") == 0 or die "no cable\n";
    print { $holder->{in} } "go\n";
    readline($holder->{out}) // die "no sshd on $name\n";
  }
  $self->_ssh_config('');
  $self->_note_own;
  return;
}

# Starts the first process of a host's namespaces: it lives as long as this test holds its stdin.
sub _hold {
  my ($self, $name, $setup, $later) = @_;
  pipe my $in_reader, my $in or die;
  pipe my $out, my $out_writer or die;
  my $script = "hostname $name; $setup; echo up\n" . ($later // ':') . "\nexec cat";
  my $pid = fork // die "no process: $!\n";
  if ($pid == 0) {
    $SIG{$_} = 'DEFAULT' for qw(PIPE ALRM INT TERM HUP CHLD);
    open STDIN, '<&', $in_reader or POSIX::_exit(126);
    open STDOUT, '>&', $out_writer or POSIX::_exit(126);
    my @own = $name eq 'head' ? () : qw(-p --mount-proc);
    { exec qw(unshare -n -u -m --fork --kill-child=KILL), @own, qw(sh -c), $script }
    POSIX::_exit(127);
  }
  close $_ for $in_reader, $out_writer;
  $in->autoflush(1);
  my $line = <$out> // '';
  $line eq "up\n" or die "no namespaces for $name\n";
  # unshare waits outside; its child is the first process inside.
  open my $children, '<', "/proc/$pid/task/$pid/children" or die "no children of $pid: $!\n";
  my ($first) = split ' ', <$children>;
  $self->{holders}{$name} = { pid => $first, unshare => $pid, in => $in, out => $out,
    space => readlink "/proc/$first/ns/net" };
  return;
}

# All that runs on the hosts now is the cluster itself.
sub _note_own {
  my ($self) = @_;
  my %space = map { $_->{space} => 1 } values %{ $self->{holders} };
  for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
    $self->{own}{$pid} = 1 if $space{ readlink("/proc/$pid/ns/net") // '' };
  }
  return;
}

sub stop {
  my ($self) = @_;
  if (my $sshd = delete $self->{sshd}) {
    $sshd->signal('TERM');
    $self->{test}->wait_until(sub { !$sshd->running }, 'sshd ends');
  }
  local ($?, $!);
  local $SIG{CHLD} = 'DEFAULT';
  for my $holder (values %{ delete $self->{holders} // {} }) {
    close $holder->{in};    # ends the first process there; the kernel then kills all others
    waitpid $holder->{unshare}, 0;
  }
  return;
}

sub DESTROY { my ($self) = @_; $self->stop if $self->{holders} && %{ $self->{holders} } }

1;
