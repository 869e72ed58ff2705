# DMISurvivors.pm - a program of several processes (survive_dmi.c) for tests that kill some of them.
#
#   my $s = DMISurvivors->new($t, opts => ['--survive']);
#   $s->begin('main');                     the first process; it also welcomes the others
#   my $p = $s->add;                       one more, with an agent, a slot and workers
#   $s->kill($p);                          kill -9; what must follow from it is waited for and checked
#   $s->leave($p);
#   $s->finish;                            all end; the sums of what they did are checked
#
# A process is a hash: `process` (DMITest::Process), `in` (its stdin), `id`, `workers` and `slot`.
package DMISurvivors;

use strict;
use warnings;
use DMITest;
use Time::HiRes qw(time);

# opts => options of all processes; start => how one is started, if not by DMITest::start: called with
# (name, process to join, [arguments], stdin), gives the DMITest::Process, and what else is to be known
sub new {
  my ($class, $t, %opt) = @_;
  return bless {
    t => $t, program => $t->compile('test/multi/survive_dmi.c'), opts => $opt{opts} // [],
    start => $opt{start}, each => $opt{workers} // 2, all => [], members => [], slots => {},
    mortal => {}, generation => 0, kills => 0, worker => 0, free => [],
  }, $class;
}

sub members { return @{ $_[0]{members} } }
sub others { my ($self, @but) = @_; my %but = map { $_ => 1 } @but; return grep { !$but{$_} } $self->members }

# ---- Commands ----------------------------------------------------------------------------------

# Sends a command to the agent of a process; returns the number of the answer.
sub order {
  my ($self, $p, @words) = @_;
  my $number = ++$p->{orders};
  $self->{t}->_log($p->{process}, '', "told: @words");
  syswrite $p->{in}, "$number @words\n";    # if it has ended there is no answer
  return $number;
}

# The answer, if it has come: "ok ...", or the name of an error.
sub said {
  my ($self, $p, $number) = @_;
  my $text = $p->{process}->out;
  my $new = substr $text, $p->{parsed} // 0;
  while ($new =~ /\G(.*)\n/g) {
    $p->{parsed} += length($1) + 1;
    $p->{replies}{$1} = $2 if $1 =~ /^re (\d+) (.*)/;
  }
  return $p->{replies}{$number};
}

# Waits for the answer; undef: the process has ended without it.
sub answer {
  my ($self, $p, $number, $what, $seconds) = @_;
  my $found;
  $self->{t}->wait_until(sub {
    my $ended = !$p->{process}{out}{handle};    # before the last look
    return 1 if defined($found = $self->said($p, $number)) || $ended;
    return 0;
  }, "$p->{process}{name}: answer to $what", $seconds);
  return $found;
}

# Sends a command and waits for the answer, which must be "ok ..."; returns the rest of it.
sub have {
  my ($self, $p, @words) = @_;
  my $answer = $self->answer($p, $self->order($p, @words), "@words") // 'it has ended';
  $self->{t}->fail_now("$p->{process}{name}: @words: $answer") unless $answer =~ /^ok ?(.*)/;
  return $1;
}

# ---- Processes that come -----------------------------------------------------------------------

# Starts a process; no agent runs in it yet.
sub start {
  my ($self, $join, @args) = @_;
  pipe my $reader, my $in or die "no pipe: $!\n";
  my $name = 's' . (1 + @{ $self->{all} });
  my @join = $join ? (join => $join->{process}) : ();
  my ($process, %more) = $self->{start} ? $self->{start}->($name, $join, \@args, $reader)
    : $self->{t}->start($self->{program}, name => $name, opts => $self->{opts}, args => \@args,
      stdin => $reader, @join);
  push @{ $self->{all} }, my $p = { process => $process, in => $in, orders => 0, %more };
  return $p;
}

# Starts the first process.  Arguments: `main`, or none.
sub begin {
  my ($self, @args) = @_;
  my $p = $self->start(undef, @args);
  $p->{id} = $p->{process}->expect_out(qr/^first (\d+)$/m);
  $self->settle($p);
  return $p;
}

# The next notice of this kind, about this process if one is named; its id.  Notices of losses that
# come before are noted; so is that of a process which was lost before anybody could welcome it.
sub notice {
  my ($self, $kind, $p, $wanted) = @_;
  $p //= $self->{members}[0];
  while (1) {
    my ($found, $id) = split ' ', $self->have($p, 'poll');
    return $id if $found eq $kind && $id == ($wanted // $id);
    $self->{told}{$id}++ if $found eq 'lost';
    $self->{opened}{$id}++ if $found eq 'open';
    $self->{t}->fail_now("notice $kind comes, and not $found $id") unless $found =~ /^(?:lost|open)$/;
  }
}

# Waits for the notice that a process has joined.
sub open {
  my ($self, $p) = @_;
  my ($joined) = map { $_->{id} } $p->{process}->expect_event('joined');
  $p->{id} = $self->notice('open', $self->{members}[0], $joined);
}

# Welcomes a process, and starts an agent there.
sub invite {
  my ($self, $p) = @_;
  my $by = $self->{members}[0];
  $self->open($p);
  $self->have($by, 'welcome', $p->{id});
  $self->have($by, 'create', $p->{id}, 0);
}

# The same, and gives it a slot of its own and workers.
sub welcome {
  my ($self, $p) = @_;
  $self->invite($p);
  $self->settle($p);
  return $p;
}

sub add { my ($self, $join) = @_; return $self->welcome($self->start($join // $self->{members}[0])) }

sub settle {
  my ($self, $p) = @_;
  $p->{process}->expect_out(qr/^agent$/m);
  push @{ $self->{members} }, $p;
  $self->have($p, slot => $_, @{ $self->{slots}{$_} }{qw(addr roams)}) for keys %{ $self->{slots} };
  $self->new_slot($p);
  $self->new_slot($p, 1) if $self->members == 1;
  $self->employ($p);
}

# Makes a slot: a page that this process maps and owns.  With `roams` its owner changes all the time.
sub new_slot {
  my ($self, $p, $roams) = @_;
  my ($number) = grep { !$self->{slots}{$_} } 0 .. 63;
  my $slot = $self->{slots}{$number} = { addr => $self->have($p, 'map'), roams => $roams ? 1 : 0, owner => $p };
  $self->have($_, slot => $number, @$slot{qw(addr roams)}) for $self->members;
  $self->have($p, take => $number, ++$self->{generation});
}

# Starts its workers; another process creates them, if there is one.
sub employ {
  my ($self, $p) = @_;
  my ($by) = ($self->others($p), $p);
  for (1 .. $self->{each}) {
    my $number = shift(@{ $self->{free} }) // ++$self->{worker};
    $self->have($by, create => $p->{id}, $number);
    push @{ $p->{workers} }, { number => $number, by => $by };
  }
}

# ---- What must hold ----------------------------------------------------------------------------

# Waits until every worker of every member has worked at all slots once more.
sub go_on {
  my ($self, $what, $seconds) = @_;
  my @orders = map { [$_, $self->order($_, go => scalar @{ $_->{workers} })] } $self->members;
  for my $case (@orders) {
    my ($p, $number) = @$case;
    defined $self->answer($p, $number, "go, $what", $seconds)
      or $self->{t}->fail_now("$p->{process}{name} goes on: $what");
  }
  return;
}

# Kills processes at once, and waits until all others go on.
sub kill {
  my ($self, @victims) = @_;
  $_->{process}->kill_now for @victims;
  return $self->survive(@victims);
}

# These have been killed.  Checks that everybody goes on, and gives their slots to others.
sub survive {
  my ($self, @victims) = @_;
  my %lost = map { $_ => 1 } @victims;
  my $begin = time;
  $self->{members} = [$self->others(@victims)];
  $self->{t}->wait_until(sub { !$_->{process}->running }, "$_->{process}{name} ends") for @victims;
  $self->{kills} += @victims;
  $self->go_on('after the loss of ' . join ' ', map { $_->{process}{name} } @victims);
  my $took = time - $begin;
  push @{ $self->{took} }, $took;
  $self->told_of($_) for grep { !$self->left_before($_) } @victims;
  $self->{mortal}{$_} = 1 for grep { $self->{slots}{$_}{roams} || $lost{ $self->{slots}{$_}{owner} } } keys %{ $self->{slots} };
  $self->inherit($_) for grep { $lost{ $self->{slots}{$_}{owner} } } sort keys %{ $self->{slots} };
  $self->retire;
  push @{ $self->{free} }, map { $_->{number} } map { @{ $_->{workers} // [] } } @victims;
  return $took;
}

# True if it was leaving and had left before it was killed: then DMI_goodbye has succeeded.
sub left_before {
  my ($self, $victim) = @_;
  my $goodbye = $victim->{goodbye} or return 0;
  my $answer = $self->answer(@$goodbye, 'goodbye') // 'nothing';
  $self->{t}->fail_now("goodbye answers DMI_EMEMBER, not $answer") unless $answer =~ /^(?:ok|DMI_EMEMBER|DMI_EBUSY)/;
  return $answer eq 'ok';
}

# Waits for the notice of its loss, which must come once.  Where coordinators are killed it may come
# again: a new coordinator repeats notices that only lost processes were given (docs/crashes.md).
sub told_of {
  my ($self, $victim) = @_;
  return unless defined $victim->{id} && !$self->{no_notices};
  my $id = $victim->{id};
  my $by = ($self->members)[rand $self->members];
  $self->{told}{ $self->notice('lost', $by) }++ until $self->{told}{$id};
  my $more = --$self->{told}{$id};
  $self->{told}{$id} = 0 unless $self->{main};
  $self->{t}->fail_now("process $id is lost once") if $more && $self->{main};
}

# Gives up the oldest slot if there are many, so that a round of the workers stays short.
sub retire {
  my ($self) = @_;
  my @fixed = grep { !$self->{slots}{$_}{roams} } keys %{ $self->{slots} };
  my ($oldest) = sort { $self->{slots}{$a}{addr} <=> $self->{slots}{$b}{addr} } @fixed;
  return if @fixed <= 16;
  delete $self->{slots}{$oldest};
  $self->have($_, slot => $oldest, 0, 0) for $self->members;
}

# Gives a slot whose owner has gone to another process; "kept", or "renewed" if its page was lost.
sub inherit {
  my ($self, $number, $owner) = @_;
  my $slot = $self->{slots}{$number};
  $slot->{owner} = $owner // ($self->members)[rand $self->members];
  my $how = $self->have($slot->{owner}, take => $number, ++$self->{generation});
  $self->{$how}++;
  return $how;
}

# ---- Processes that go -------------------------------------------------------------------------

# Ends all threads of a process, so that it can leave.
sub empty {
  my ($self, $p) = @_;
  my @waits;
  for my $worker (@{ $p->{workers} }) {
    next unless grep { $_ == $worker->{by} } $self->members;
    push @waits, [$worker->{by}, $self->order($worker->{by}, join => $worker->{number})];
  }
  $self->report($p);
  $self->have($p, 'stop');
  $self->answer(@$_, 'join') // $self->{t}->fail_now('join ends') for @waits;
  push @{ $self->{free} }, map { $_->{number} } @{ $p->{workers} };
  $p->{workers} = [];
  $self->have($p, 'quit');
}

# The number of the call of DMI_goodbye.  The agent there has said that it ends, but its thread may still
# run: then the call is made again.
sub goodbye {
  my ($self, $p, $by) = @_;
  while (1) {
    my $order = $self->order($by, goodbye => $p->{id});
    $self->{t}->wait_until(sub {
      defined $self->said($by, $order) || $p->{process}->events('dismissed') || !$p->{process}->running
        || !$by->{process}->running;
    }, "$p->{process}{name} is dismissed");
    return $order if ($self->said($by, $order) // '') ne 'DMI_EBUSY';
  }
}

sub leave {
  my ($self, $p) = @_;
  $p->{process}->signal('INT');
  my ($by) = $self->others($p);
  $self->notice('close', $by) == $p->{id} or $self->{t}->fail_now("$p->{process}{name} asks to leave");
  $self->empty($p);
  my $answer = $self->answer($by, $self->goodbye($p, $by), 'goodbye') // 'it has ended';
  $self->{t}->fail_now("goodbye: $answer") if $answer ne 'ok';
  $self->has_left($p, $by);
}

# It has left: checks that nothing was lost.
sub has_left {
  my ($self, $p, $by) = @_;
  $self->{members} = [$self->others($p)];
  $p->{process}->wait_exit(0);
  for my $number (grep { $self->{slots}{$_}{owner} == $p } keys %{ $self->{slots} }) {
    my $kept = $self->inherit($number, $by) eq 'kept';
    next if $kept || ($self->{slots}{$number}{roams} && $self->{kills});    # it was at one that is lost
    $self->{t}->fail_now("slot $number has not left");
  }
}

# Asks a process what it has done, and checks that nothing was lost of slots whose owners have lived.
sub report {
  my ($self, $p) = @_;
  my ($done, $failed, $lost) = $self->have($p, 'tell') =~ /^done (\d+) failed (\d+) lost(.*)/
    or die "what does it tell?\n";
  $self->{done} += $done;
  is($failed, 0, "$p->{process}{name}: no check failed");
  my %lost = map { split /:/ } split ' ', $lost;
  my @wrong = grep { !$self->{mortal}{$_} } keys %lost;
  is("@wrong", '', "$p->{process}{name}: nothing was lost of pages whose owners have lived");
  $self->{elost} += $_ for values %lost;
}

# Ends all processes, and checks what they have done.
sub finish {
  my ($self) = @_;
  $self->go_on('at the end');
  $self->report($_) for $self->members;
  $self->have($_, 'stop') for $self->members;
  $self->have($_, 'quit') for $self->members;
  $_->{process}->wait_exit(0) for $self->members;
  is(join('', map { $_->{process}->out =~ /^(FAIL.*\n)/mg } @{ $self->{all} }), '', 'nobody complains');
  cmp_ok($self->{done} // 0, '>', 0, 'work was done');
}

1;
