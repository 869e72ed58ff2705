# Set.pm - the processes of one dmimw: decides which starts when, through which others they join,
# and how all of them end.
#
# The first process is started; as soon as it listens, the others join, each through a process that
# is a member by then.  Ctrl+C asks all to leave; the set is over when no process and no connection
# is left.  Only the loop waits.
package DMI::Set;

use strict;
use warnings;
use DMI::Dump;
use DMI::Key;
use DMI::Link;
use DMI::Loop;
use DMI::Member;
use DMI::Munge;
use DMI::NodeFile;
use DMI::Output;
use DMI::Way;
use DMI::Way::Slurm;
use DMI::Way::Ssh;
use MIME::Base64 ();
use List::Util qw(max);
use POSIX ();
use Sys::Hostname ();

my $news = 3;                   # seconds by which the end of one process may be reported later than another's
my $together = 1;               # seconds by which one process may say later than another that it stays
my @restart = (1, 60);          # seconds until a process is started again: at first, and at most
my $hear_of_death = 3;          # processes that are told when another one was lost; they tell the others
my $settled = 60;               # seconds as a member after which the pauses begin anew
my $dump_asks = 3;              # processes that are asked what all are doing, until one answers
my $input_window = 64 << 10;    # bytes of our stdin that the first process may not have read yet

# program => [./prog, args]; joining => [what of it processes that join need]; lines => of NodeFile, to be used; spare => further lines of the file;
# first => index of the line that starts the program; and the options of the command line: options,
# tag, log, require, restart, timeout, grace, env, dir, key (the line), key_file (its name, or undef), bin,
# where, ssh, ask, name, version, copy (of DMI::Copy::describe, or undef); launcher => the name of the command, for messages;
# slurm => true: all by srun; outside => true: options say what program all of them join.
sub new {
  my ($class, %opt) = @_;
  my $loop = DMI::Loop->new;
  my $self = bless {
    loop => $loop, members => [], links => [], started => time, interrupts => 0,
    numbers => 0, in => {}, there => {},    # kept by _file
    %opt,
  }, $class;
  $self->{output} = DMI::Output->new($loop, launcher => $opt{launcher}, tag => $opt{tag}, log => $opt{log},
    full => sub { my ($on) = @_; $_->pause($on) for @{ $self->{links} } },
    empty => sub { $self->_look_for_end },
    broken => sub { $self->_nobody_reads });
  $SIG{PIPE} = 'IGNORE';
  $loop->signal(INT => sub { $self->interrupt });
  # A batch system may send SIGTERM several times, but means one request.
  $loop->signal($_ => sub { $self->interrupt unless $self->{interrupts} }) for qw(TERM HUP);
  $loop->signal(TSTP => sub { $self->_suspend });
  $loop->signal(CONT => sub { $self->_resume });
  return $self;
}

sub loop { return $_[0]{loop} }
sub members { return @{ $_[0]{members} } }
sub say { my ($self, $text) = @_; $self->{output}->say($text) }

# Runs the set to its end; returns the exit status.
sub run {
  my ($self) = @_;
  $self->_new_member($_) for @{ $self->{lines} };
  $self->{first} = $self->{members}[ $self->{first} ];
  my $bind = $self->{first}{line}{bind};
  $self->{bind} = $bind if defined $bind && $bind !~ /^(?:0\.0\.0\.0|::)\z/;
  $self->{first}{fed} = sub { $self->_read_input };
  $self->_look;
  $self->{loop}->run;
  $self->{dump}->cancel if $self->{dump};
  return $self->_exit_status;
}

# ---- Members -----------------------------------------------------------------------------------

sub _new_member {
  my ($self, $line) = @_;
  my ($number, $name) = (0);
  do { $number++; $name = $number == 1 ? $line->{host} : "$line->{host}/$number" }
    while $self->{named}{$name} && !$self->{named}{$name}->is_gone;
  # The name of a process that has left may be used again.
  @{ $self->{members} } = grep { $_->name ne $name } @{ $self->{members} } if $self->{named}{$name};
  my $member = DMI::Member->new(
    name => $name,
    line => $line,
    way => $self->_way($line),
    # The default port is for the first process of a host; others take any.
    port_wish => defined $line->{port} || grep({ /^-l/ } @{ $self->{options} }) ? 'given'
      : $number == 1 && !$self->{slurm} ? 'default' : 'any',
    loop => $self->{loop},
    serial => ++$self->{numbers},
    changed => sub { $self->_changed(@_) },
    keyless => sub { $self->_wrap_key(@_) },
    lost => sub { $self->_survived(@_) },
    stays => sub { $self->_stays(@_) },
    missed => sub { $self->_is_missed(@_) },
    fatal => sub { my ($text) = @_; $self->{output}->once($text, $text =~ /\A(lost \w+ \d+) \(/ ? $1 : $text) },
    output => sub { my ($m, $stream, $bytes) = @_;
      $self->{output}->take($m->name, $stream, $bytes) });
  push @{ $self->{members} }, $member;
  $self->{named}{$name} = $member;
  $self->_file($member);
  return $member;
}

# Keeps which members are in which state, and which are not gone, so that a change of one of them does not
# cost a look at all.
sub _file {
  my ($self, $member) = @_;
  my ($serial, $state) = ($member->{serial}, $member->state);
  delete $self->{in}{ $member->{filed} }{$serial} if defined $member->{filed};
  $member->{filed} = $state;
  $self->{in}{$state}{$serial} = $member;
  if ($member->is_gone) { delete $self->{there}{$serial} }
  else { $self->{there}{$serial} = $member }
  return;
}

# Those in these states, in the order of their lines.
sub _in {
  my ($self, @states) = @_;
  return sort { $a->{serial} <=> $b->{serial} } map { values %{ $self->{in}{$_} // {} } } @states;
}

sub _way {
  my ($self, $line) = @_;
  my %opt = map { $_ => $self->{$_} } qw(bin where ssh ask);
  return $self->{ways}{srun} //= DMI::Way::Slurm->new(%opt) if $self->{slurm};
  return $self->{ways}{local} //= DMI::Way::Local->new(%opt)
    if $line->{host} eq $line->{address} && DMI::Way::Local->is_here($line->{host});
  return $self->{ways}{ssh} //= DMI::Way::Ssh->new(%opt);
}

# Lets processes connect, as many at once as allowed; the first process comes first.
sub _connect {
  my ($self) = @_;
  my @waiting = $self->_in('waiting') or return;
  @waiting = sort { ($b == $self->{first}) <=> ($a == $self->{first}) } @waiting;
  my %busy;
  for my $link (grep { $_->is_connecting } @{ $self->{links} }) { $busy{$_}++ for _busy_with($link) }
  for my $member (@waiting) {
    next if $member->state ne 'waiting';
    my $link = $self->_link($member, \%busy) or next;
    $member->connect($link);
    $link->connect if $link->is_waiting;
  }
  return;
}

# What there may not be too much of at once.
sub _busy_with { my ($link) = @_; return ($link->way->name, 'host ' . $link->line->{host}) }

# The connection for a process: one that has room for it, or else a new one; none: not yet.
sub _link {
  my ($self, $member, $busy) = @_;
  my $way = $member->{way};
  if ($way->processes > 1) {
    my ($link) = grep { $_->way == $way && $_->has_room } @{ $self->{links} };
    return $link if $link;
  }
  my $link = DMI::Link->new(way => $way, line => $member->{line}, loop => $self->{loop}, timeout => $self->{timeout},
    over => sub { $self->_connection_over });
  my ($name, $host) = _busy_with($link);
  # sshd refuses some connections when more than ten have not logged in yet.
  return if ($busy->{$name} // 0) >= $way->at_once || ($busy->{$host} // 0) >= 8;
  $busy->{$_}++ for $name, $host;
  push @{ $self->{links} }, $link;
  return $link;
}

sub _connection_over {
  my ($self) = @_;
  @{ $self->{links} } = grep { !$_->is_over } @{ $self->{links} };
  return $self->_look;
}

# Called at every change of state of a process.
sub _changed {
  my ($self, $member) = @_;
  $self->_file($member);
  $self->{known}{ _key_of($_) } = $member for grep { defined } $member->identity;
  if (!$member->{told_end} && $member->is_final) {
    $member->{told_end} = 1;
    $self->{output}->finish($member->name);
    $self->_tell_of_death($member);
    $self->_ended($member);
    $self->_say_who_was_lost;
  }
  $self->_tell_watchers($member);
  $self->_restart($member) if $member->{again} && $member->is_gone;
  $self->_look;
  return;
}

sub _tell_watchers {
  my ($self, $member) = @_;
  $_->($member) for @{ $self->{watchers}{$member} // [] };
  return;
}

# Does what can be done now.
sub _look {
  my ($self) = @_;
  $self->{look_again} = 1;
  return if $self->{looking};
  # The actions below change members, and that calls _changed again.
  local $self->{looking} = 1;
  while (delete $self->{look_again}) {
    $self->_connect;
    $self->_start($self->{first}, undef) if $self->{first}->state eq 'connected';
    $self->_join_all;
  }
  $self->_read_input;
  $self->_look_for_end;
  return;
}

# Those that others can join, the best ones first.
sub _doors { my ($self) = @_; return grep { $_->is_door } map { $self->_in($_) } qw(opened joined listening) }

# Starts all processes that wait to join, when there is one to join.
sub _join_all {
  my ($self) = @_;
  my @early = grep { $_ != $self->{first} } $self->_in(qw(waiting connecting connected)) or return;
  if ($self->{outside}) {
    $self->_start($_, undef) for grep { $_->state eq 'connected' } @early;
    return;
  }
  my ($door) = $self->_doors;
  if ($door) {
    $self->_start($_, $door) for grep { $_->state eq 'connected' } @early;
    return;
  }
  return if %{ $self->{in}{starting} // {} };
  return if !$self->{first}->is_running && !$self->{first}->is_final;
  # No process is left that they could join: the program ends, or never began.
  $self->say('not started, there is no process to join: ' . join ', ', map { $_->name } @early)
    unless $self->{interrupts};
  $_->fail(undef) for @early;
  return;
}

sub _start {
  my ($self, $member, $door) = @_;
  my $line = $member->{line};
  my $first = $member == $self->{first} && !$self->{outside};
  $member->{door} = $door;
  $member->start(
    version => $self->{version},
    dir => $self->{dir},
    options => [@{ $self->{options} }, @{ $line->{options} }],
    program => $first ? $self->{program} : $line->{witness} ? [] : $self->{joining},
    env => { %{ $self->{env} // {} }, DMI_TAG => $member->name },
    port => $member->{port_wish},
    stdin => $first ? 1 : 0,
    timeout => $self->{timeout},
    grace => $self->{grace},
    ($self->{copy} && !$line->{witness} && $member->{way}->name ne 'local' ? (copy => $self->{copy}) : ()),
    $self->_key($member, @{ $self->{options} }, @{ $line->{options} }),
    $door && !$line->{join} ? (join => { hosts => [$self->_names($member, $door)], port => $door->{port} })
      : ());
  return;
}

# The key, unless options name another one.  If others could read it on its way, only its hash is
# sent: the host has the key in a file of the same name, or asks for it (_wrap_key).
sub _key {
  my ($self, $member, @options) = @_;
  return if !defined $self->{key} || grep { /^--key(?:-fd)?(?:=|$)/ } @options;
  return (key => MIME::Base64::encode_base64($self->{key}, '')) if $member->{way}->is_private;
  my $nonce = DMI::Key->nonce;
  return (key_file => $self->{key_file}, key_nonce => $nonce,
    key_mark => DMI::Key->mark($self->{key}, $nonce));
}

# The host of this process has no such file: sends the key, encrypted by munge.
sub _wrap_key {
  my ($self, $member, $why) = @_;
  my $wrapped = eval { DMI::Munge->wrap($self->{key}) };
  return $member->give_key($wrapped) if defined $wrapped;
  chomp(my $failed = $@);
  return $member->fail("$why ($failed; so munge cannot bring the key, either): copy the key file "
    . 'there, or name one with --key that all nodes see');
}

# The names by which `member` may reach `door`, best first: its host takes the first one it knows.
sub _names {
  my ($self, $member, $door) = @_;
  return $self->_names_here($door) if $door->{way}->name ne 'local' || $member->{way}->name eq 'local';
  # With --bind it listens at that address only, and so do others of that host that have joined it.
  return $self->{bind} if defined $self->{bind} && $self->{first}{way}->name eq 'local';
  my $name = $door->{line}{address};
  # The address of this host, as seen from there.
  my ($us) = split ' ', ($member->hello // {})->{ssh} // '';
  my $own = $name =~ /^(?:localhost|127\.|::1$)/ ? undef : $name;
  return grep { defined } $own, $us, Sys::Hostname::hostname();
}

# The same for this host.
sub _names_here {
  my ($self, $door) = @_;
  return $door->addresses if $door->{way}->name ne 'local';
  return $self->{bind} if defined $self->{bind} && $self->{first}{way}->name eq 'local';
  return ($door->{line}{address}, 'localhost');
}

# ---- Losses ------------------------------------------------------------------------------------

sub _key_of { my ($identity) = @_; return "$identity->{program} $identity->{member}" }

# What only its agent knows for certain, that this process has ended, is told to a few others of its
# program: they tell the rest.  Whom was told may end, too; then somebody else is told what that one was.
sub _tell_of_death {
  my ($self, $member) = @_;
  my @deaths = @{ $member->{told} // [] };
  push @deaths, $member->identity if $member->identity && $member->is_dead;
  for my $death (@deaths) {
    my @others = grep { $_->is_running && $_->identity && $_->identity->{program} eq $death->{program} }
      @{ $self->{members} };
    my $told = grep { _was_told($_, $death) } @others;
    for my $other (grep { !_was_told($_, $death) } @others) {
      last if $told++ >= $hear_of_death;
      push @{ $other->{told} }, $death;
      $other->tell_dead($death);
    }
  }
  return;
}

sub _was_told { my ($member, $death) = @_; return grep { $_ == $death } @{ $member->{told} // [] } }

# True if others of its program lose this process, should it have ended: as far as is known here, that of
# DMI_main may have been alone.
sub _is_missed {
  my ($self, $member) = @_;
  return $member != $self->{first} || $self->{outside}
    || grep { $_ != $member && $_->identity && !$_->is_finalized } @{ $self->{members} };
}

# `member` says that the program goes on without another one, as all of them do: no failure, then.
sub _survived {
  my ($self, $member, $event) = @_;
  my $identity = $member->identity or return;
  my $key = _key_of({ %$identity, member => $event->{member} });
  $self->{output}->once("$event->{name} is lost; $event->{effect}", $key);
  my $lost = $self->{known}{$key} or return;
  return if $lost->{survived};
  $lost->{survived} = time;
  $self->{failures}-- if delete $lost->{failed};
  $self->{loop}->after($self->{grace}, sub { $self->_kill_lost($lost) }) unless $lost->is_final;
  return;
}

# Usually a process that the others have lost hears so, and ends.  One that is stopped does not.
sub _kill_lost {
  my ($self, $lost) = @_;
  return if $lost->is_final;
  $self->say($lost->name . ": the others lost it $self->{grace} s ago (--grace), and it has not ended (was it stopped?): it is killed");
  return $lost->kill;
}

# All others have ended.
sub _say_who_was_lost {
  my ($self) = @_;
  my @left = grep { !$_->is_final } @{ $self->{members} };
  return if !@left || grep { !$_->{survived} } @left;
  return if $self->{restarting} || $self->{judging} || $self->{interrupts} || $self->{told_lost}++;
  my $most = max(0, map { $_->{survived} + $self->{grace} - time } @left);
  $self->say('the program has ended without ' . join(', ', map { $_->name } @left) . ', which it lost: '
      . (@left == 1 ? 'if it does' : 'those that do') . ' not end (stopped?) ' . (@left == 1 ? 'it is' : 'are') . sprintf ' killed within %d s (--grace)', $most + 1);
  return;
}

# ---- The end -----------------------------------------------------------------------------------

sub _ended {
  my ($self, $member) = @_;
  return $self->_look_for_enough unless defined $member->problem;
  return $self->_judge($member) unless $member->was_refused && !$member->{door}->is_final;
  # Perhaps because the program ends: that news comes on another connection, and may come later.
  $self->{judging}++;
  $self->{loop}->after($news, sub {
    $self->{judging}--;
    $self->_judge($member);
    $self->_look_for_end;
  });
  return;
}

sub _judge {
  my ($self, $member) = @_;
  my $name = $member->name;
  if ($member->was_refused && $member->{door}->is_final && !defined $member->{door}->problem) {
    $self->say("$name: came too late, $member->{door}{name} has left");
    return;
  }
  $member->{again} = $self->_is_to_be_restarted($member);
  # When all are killed, the death of one is not reported.
  my $news = $member->news;
  my $again = $member->{again} ? '; it is started again in ' . _pause($member) . ' s' : '';
  $self->_say_of($member, ($news // $member->called . " $member->{how}") . $again)
    if (defined $news || $again) && !($self->{aborted} && $member->state eq 'ended');
  return $self->_restart($member) if $member->{again};
  $self->{problems}++;
  # That one could not be added does not concern those that are there; who wanted it is told.
  my $counts = !$member->{survived} && !($member->{added} && !defined $member->{joined});
  $self->{failures}++ if $member->{failed} = $counts;
  $self->_look_for_company;
  return $self->_look_for_enough;
}

# That a host cannot be reached is told once, though several processes were to run there.
sub _say_of {
  my ($self, $member, $text) = @_;
  if ($member->is_unreached) {
    return if $member->{serial} <= ($self->{unreached}{$text} // 0);
    $self->{unreached}{$text} = $self->{numbers};    # those that there are now
  }
  return $self->say($text);
}

# The first process may wait for others that nobody else will start.
sub _look_for_company {
  my ($self) = @_;
  my ($first, @others) = ($self->{first}, grep { $_ != $self->{first} } @{ $self->{members} });
  return if $self->{alone} || $self->{outside} || $self->{interrupts} || $self->{restarting} || !$first->is_running;
  return if grep { defined $_->{joined} || !$_->is_final || !defined $_->problem || $_->{again} } @others;
  $self->{alone} = 1;
  $self->say('none of the other processes has joined, and the first one runs on alone: Ctrl+C asks it to leave');
  return;
}

# ---- Starting lost ones again ------------------------------------------------------------------

# As long as somebody is there whom it can join.
sub _is_to_be_restarted {
  my ($self, $member) = @_;
  return 0 if !$self->{restart} || $self->{interrupts} || $self->{too_few} || $member->{asked};
  return $self->{outside} || $self->_doors;
}

# Seconds before it is started again: twice as long each time, unless it had been a member for some time.
# Its host may be down, or its program may fail at once.
sub _pause {
  my ($member) = @_;
  my $joined = $member->{joined};
  my $pause = defined $joined && $member->{since} - $joined >= $settled ? 0 : 2 * ($member->{pause} // 0);
  return $pause < $restart[0] ? $restart[0] : $pause > $restart[1] ? $restart[1] : $pause;
}

# When nothing is left of it; sooner its name is not free.
sub _restart {
  my ($self, $member) = @_;
  return unless $member->is_gone && delete $member->{again};
  my $pause = _pause($member);
  $self->{restarting}++;
  $self->{loop}->after($pause, sub {
    $self->{restarting}--;
    return $self->_look_for_enough unless $self->_is_to_be_restarted($member);
    my $new = $self->_new_member($member->{line});
    $new->{pause} = $pause;
    $self->_look;
  });
  return;
}

# If fewer than `require` processes run or may still run, asks the rest to leave.
sub _look_for_enough {
  my ($self) = @_;
  return if !$self->{problems} || $self->{interrupts} || $self->{too_few} || !$self->{require};
  my $left = grep { !$_->is_final || !defined $_->problem || $_->{again} } @{ $self->{members} };
  $left += $self->{restarting} // 0;
  return if $left >= $self->{require};
  $self->{too_few} = 1;
  return if !$left;
  $self->say("$left of the $self->{require} processes that --require asks for are left: "
    . 'all are asked to leave');
  $_->ask for @{ $self->{members} };
  return;
}

sub _look_for_end {
  my ($self) = @_;
  return if %{ $self->{there} } || grep { !$_->is_over } @{ $self->{links} };
  return if $self->{judging} || $self->{output}->queued;
  $self->{loop}->stop;
  return;
}

# That of the program: of its first process, or, if it went on without that, of DMI_exit; 1 if that is 0 and another
# process has failed (dmirun(1), EXIT STATUS).
sub _exit_status {
  my ($self) = @_;
  return 130 if $self->{aborted};
  my ($of) = $self->{first}{survived} ? grep { defined $_->{stops_with} } @{ $self->{members} } : $self->{first};
  my $status = $of ? $of->{status} // 0 : 0;
  return 128 + ($status & 127) if $status & 127;
  return $status >> 8 if $status;
  return $self->{failures} || $self->{output_gone} ? 1 : 0;
}

# Ctrl+C, or SIGTERM.
sub interrupt {
  my ($self) = @_;
  my @left = grep { !$_->is_final } @{ $self->{members} };
  my $number = ++$self->{interrupts};
  if ($number == 1) {
    my $running = grep { $_->is_running } @left;
    $self->say($running == 1 ? 'asking 1 process to leave'
      : "asking $running processes to leave") if $running;
    # A second request would be a question: some may have had theirs, by `remove`.
    $_->ask for grep { !$_->{asked} } @left;
    $self->{loop}->after($self->{grace}, sub { $self->_say_who_stays }) if @left;
  }
  elsif ($number == 2) {
    $self->say($self->_still_there(@left) . '; the next Ctrl+C ends them at once') if @left;
    $self->_dump;
  }
  else {
    $self->say('ending all processes at once') unless $self->{aborted};
    $self->{aborted} = 1;
    $self->{output}->hide_losses;
    $_->kill for @left;
  }
  return;
}

sub _still_there { my ($self, @left) = @_; return 'still there: ' . join ', ', map { $self->_where($_) } @left }

# They were asked to leave some time ago, perhaps by somebody who knows no Ctrl+C.
sub _say_who_stays {
  my ($self) = @_;
  my @left = grep { !$_->is_final } @{ $self->{members} };
  return if $self->{interrupts} > 1 || !@left;
  $self->say($self->_still_there(@left) . _more());
  return;
}

# What to do about them; not all can press Ctrl+C there, as after --stop.
sub _more { return "; Ctrl+C (kill -INT $$) writes what they are doing into a file, one more ends them at once" }

# This one says itself why it is still there.  Those that were asked together say it together: a line for
# each reason.
sub _stays {
  my ($self, $member) = @_;
  $self->_tell_watchers($member);
  $self->{loop}->after($together, sub { $self->_say_why_they_stay }) unless @{ $self->{staying} // [] };
  push @{ $self->{staying} }, $member;
  return;
}

sub _say_why_they_stay {
  my ($self) = @_;
  my @left = grep { !$_->is_final } @{ delete $self->{staying} };
  return if $self->{interrupts} > 1;    # that has said who is there
  my %with;
  push @{ $with{ $_->{stays_for} } }, $_->name for @left;
  for my $why (sort keys %with) {
    $self->say(join(', ', @{ $with{$why} }) . ": asked to leave, and waiting: $why" . ($self->{interrupts} ? _more() : ''));
  }
  return;
}

# All that is still there as one file.  If nobody can be asked, each process tells its own.
sub _dump {
  my ($self) = @_;
  my @doors = sort { ($b == $self->{first}) <=> ($a == $self->{first}) } grep { $_->is_running && $_->{port} } @{ $self->{members} };
  my @who = map { [($self->_names_here($_))[0], $_->{port}] } @doors;
  splice @who, $dump_asks if @who > $dump_asks;
  $self->{dump} = DMI::Dump->new(loop => $self->{loop}, command => "$self->{bin}/dmirun", key => $self->{key} // '', who => \@who, done => sub {
    my ($path) = @_;
    return $self->say("what all of them are doing is in $path") if defined $path;
    $_->ask for grep { !$_->is_final } @{ $self->{members} };
  });
  return;
}

# Asks all to leave, unless they were.
sub stop { my ($self) = @_; return $self->{interrupts} || $self->interrupt }

sub _where {
  my ($self, $member) = @_;
  return sprintf '%s (%s for %d s)', $member->name, $member->state, time - $member->{since};
}

# stdout or stderr was closed by its reader, as by `| head`: end as SIGPIPE would, but in order.
sub _nobody_reads {
  my ($self) = @_;
  return if $self->{output_gone}++;
  $self->{interrupts} ||= 1;
  $_->ask for grep { !$_->is_final && !$_->{asked} } @{ $self->{members} };
  return;
}

# ---- The terminal ------------------------------------------------------------------------------

# Ctrl+Z stops dmimw only: tells the agents not to expect messages from it.
sub _suspend {
  my ($self) = @_;
  $_->hold for @{ $self->{links} };
  kill STOP => $$;
  return;
}

sub _resume {
  my ($self) = @_;
  $_->beat for @{ $self->{links} };
  $self->_read_input;
  return;
}

# Our stdin is passed to the first process.  A terminal is read only in the foreground: in the
# background reading would stop us.
sub _read_input {
  my ($self) = @_;
  my $first = $self->{first};
  return if $self->{input_ended} || $self->{outside} || !ref $first;
  my $wanted = $first->is_running && $first->{unread} < $input_window;
  if ($wanted && -t STDIN && (POSIX::tcgetpgrp(0) // -1) != getpgrp) { $wanted = 0 }
  $self->{loop}->reads(\*STDIN, $wanted ? sub { $self->_take_input } : undef);
  return;
}

sub _take_input {
  my ($self) = @_;
  my $first = $self->{first};
  if (-t STDIN && (POSIX::tcgetpgrp(0) // -1) != getpgrp) {
    return $self->{loop}->reads(\*STDIN);
  }
  my $count = sysread STDIN, my ($bytes), 16384;
  return if !defined $count && ($!{EAGAIN} || $!{EINTR});
  if ($count) { $first->feed($bytes) }
  else {
    $self->{input_ended} = 1;
    $self->{loop}->reads(\*STDIN);
    $first->feed(undef);
  }
  $self->_read_input;
  return;
}

# ---- From outside (Control.pm) -----------------------------------------------------------------

# Adds a process; `watch` is called with it at each change of its state.  Dies with a reason.
sub add {
  my ($self, $text, $watch) = @_;
  die "the program is about to end\n" if $self->{interrupts} || $self->{too_few};
  my $line = DMI::NodeFile->parse($text) or die "no host given\n";
  if (!@{ $line->{options} }) {
    # A host of the node file that was not used yet has its options there.
    my ($spare) = grep { $self->{spare}[$_]{host} eq $line->{host} } 0 .. $#{ $self->{spare} };
    ($line) = splice @{ $self->{spare} }, $spare, 1 if defined $spare;
  }
  my $member = $self->_new_member($line);
  $member->{added} = 1;
  $self->watch($member, $watch);
  $self->_look;
  return $member;
}

# Asks all processes of that name, or at that host, to leave; returns how many.  Dies with a reason.
sub remove {
  my ($self, $name, $watch) = @_;
  # The first process of a host has the host's name: HOST means all processes there, HOST/2 the
  # second one.
  my @named = grep { $_->name eq $name || $_->{line}{host} eq $name } @{ $self->{members} };
  @named or die "no process of that name\n";
  my @running = grep { !$_->is_final } @named or die "no process there any more\n";
  $self->watch($_, $watch) for @running;
  $_->{asked} || $_->ask for @running;
  return scalar @running;
}

sub watch {
  my ($self, $member, $call) = @_;
  push @{ $self->{watchers}{$member} }, $call;
}

sub unwatch {
  my ($self, $call) = @_;
  for my $list (values %{ $self->{watchers} }) { @$list = grep { $_ != $call } @$list }
}

1;
