# Settings.pm - what the options of dmirun mean for the process that it starts: variables of the
# environment (lib/node/option_table.h).
package DMI::Settings;

use strict;
use warnings;
use DMI::Values ();

# True if these options only look at a program that runs.
sub looks {
  my ($opt) = @_;
  return grep { defined $opt->{$_} } qw(status threads top dump json);
}

# Those that look, and those that go with them: whom to ask, and how it is reached.
my @looking = qw(status threads top dump json i p key key-fd encrypt bind dead-after);

# Dies with a line if an option does not go with looking at a program that runs; else it would have no
# effect.  `more`: an option that looks, too.
sub check_looks {
  my ($opt, @more) = @_;
  my %goes = map { $_ => 1 } @looking, @more;
  my ($look) = grep { defined $opt->{$_} } @looking[0 .. 4], @more;
  for my $name (grep { defined $opt->{$_} && !$goes{$_} } sort keys %$opt) {
    die _written($name), ": it does not go with --$look, which only looks at a program that runs\n";
  }
  return;
}

# An option as a user writes it.
sub _written { my ($name) = @_; return length $name == 1 ? "-$name" : "--$name" }

# True if they start several processes (Several.pm).
sub several { my ($opt) = @_; return defined $opt->{n} || defined $opt->{hosts} }

# True if an option is of one process, so that it does not go with several.
sub single { my ($name) = @_; return grep { $_ eq $name } qw(ready-fd with-parent check witness share) }

# Dies with a line if an option does not go with several processes, or only with them.
sub check_several {
  my ($opt) = @_;
  if (!several($opt)) {
    die "--tag: it is for several processes, with -n or --hosts\n" if $opt->{tag};
    return;
  }
  for my $name (grep { single($_) } sort keys %$opt) {
    die "--$name: it is for one process, not for -n or --hosts\n" if defined $opt->{$name};
  }
  return;
}

# What only makes sense together.
sub _check {
  my ($opt, $least) = @_;
  my $joins = defined $opt->{i};
  DMI::Values::port_number('-p', $opt->{p}, $least->{DMI_JOIN_PORT}) if defined $opt->{p};
  die "-p $opt->{p} without -i: the host of the process to join is missing: -i HOST -p $opt->{p}; "
    . "the port to listen on is -l $opt->{p}\n"
    if defined $opt->{p} && !$joins;
  die "-p $opt->{p}: the file of -i $opt->{i} says the port, too\n"
    if defined $opt->{p} && $opt->{i} =~ /^\@/;
  die "--key and --key-fd: give only one of them\n" if defined $opt->{key} && defined $opt->{'key-fd'};
  die "--grace needs --with-parent\n" if defined $opt->{grace} && !$opt->{'with-parent'};
  die "--bind needs an address or host name\n" if defined $opt->{bind} && $opt->{bind} eq '';
  die "--witness needs -i: the host of a process of the program for which it is to vote\n"
    if $opt->{witness} && !$joins;
  die "--on-error $opt->{'on-error'}: either print or abort\n"
    if defined $opt->{'on-error'} && $opt->{'on-error'} !~ /^(?:print|abort)\z/;
  _check_ports($opt);
  die "--ox: a witness (--witness) has no functions for clients\n" if $opt->{witness} && defined $opt->{ox};
  return;
}

# Of several processes none could listen, and each would say so.  With --bind the addresses may differ.
sub _check_ports {
  my ($opt) = @_;
  my ($port) = ($opt->{l} // '') =~ /^0*([1-9]\d*)\z/ or return;
  return if defined $opt->{bind} || ($opt->{web} // '') !~ /^(?:.*:)?0*$port\z/s;
  die "-l $opt->{l} and --web $opt->{web}: both name port $port; give the page another one (--web 0: any)\n";
}

# The variables for the process: name => value, undef if it must not be set.  `least`: the least
# values of numbers; `cleared`: names of variables that only options set.  Dies with a line.
sub environment {
  my ($opt, $least, @cleared) = @_;
  _check($opt, $least);
  my $given = sub {
    my ($name, $check) = @_;
    return defined $opt->{$name} ? $check->($opt->{$name}) : undef;
  };
  my $join_file = defined $opt->{i} && $opt->{i} =~ /^\@(.*)/s ? DMI::Values::join_file($1) : undef;
  my ($listen, $listen_else) = defined $opt->{l} ? DMI::Values::listen_port($opt->{l}, $least->{DMI_LISTEN_PORT}) : ();
  my ($share, $shares) = defined $opt->{share} ? DMI::Values::share($opt->{share}) : ();
  my %env = (
    (map { $_ => undef } @cleared),
    DMI_JOIN_HOST => defined $join_file ? undef : $given->('i', sub { DMI::Values::host_name('-i', @_, '-p') }),
    DMI_JOIN_FILE => $join_file,
    DMI_CONTACT_FILE => $given->('contact', sub { DMI::Values::full_path('--contact', @_) }) // $join_file,
    DMI_JOIN_PORT => $given->('p', sub { DMI::Values::port_number('-p', @_, $least->{DMI_JOIN_PORT}) }),
    DMI_LISTEN_PORT => $listen,
    DMI_LISTEN_ELSE => $listen_else ? 1 : undef,
    DMI_POOL_BYTES => $given->('s', sub { DMI::Values::byte_count(@_, $least->{DMI_POOL_BYTES}) })
      // ($opt->{witness} ? $least->{DMI_POOL_BYTES} : undef),
    DMI_WITNESS => $opt->{witness} ? 1 : undef,
    DMI_SEE => looks($opt) ? 1 : undef,
    DMI_SPILL_DIR => $given->('spill', \&DMI::Values::spill_dir),
    DMI_READY_FD => $given->('ready-fd', sub { DMI::Values::descriptor('--ready-fd', @_, $least->{DMI_READY_FD}) }),
    DMI_PARENT_PID => $opt->{'with-parent'} ? getppid : undef,
    DMI_GRACE => $given->('grace', sub { DMI::Values::seconds('--grace', @_, $least->{DMI_GRACE}) }),
    DMI_ADVERTISE => $given->('advertise', sub { DMI::Values::host_name('--advertise', @_, '-l') }),
    DMI_CHECK => $opt->{check} ? 1 : undef,
    DMI_SHARE => $share,
    DMI_SHARES => $shares,
    DMI_BIND_THREADS => $opt->{'bind-threads'} ? 1 : undef,
    DMI_KEY_FD => $given->('key-fd', sub { DMI::Values::descriptor('--key-fd', @_, $least->{DMI_KEY_FD}) }),
    DMI_ENCRYPT => $opt->{encrypt} ? 1 : undef,
    DMI_BIND => $opt->{bind},
    DMI_OX => $given->('ox', \&DMI::Values::ox_place),
    DMI_TRACE => $given->('trace', sub { DMI::Values::full_path('--trace', @_) }),
    DMI_LAUNCHED => 1,
  );
  # The user may also have set these variables, for all programs; the options only replace them.
  my %replaced = (
    DMI_KEY_FILE => $given->('key', \&DMI::Values::key_file),
    DMI_ON_ERROR => $opt->{'on-error'},
    DMI_NO_SHM => $opt->{'no-shm'} ? 1 : undef,
    DMI_SPIN => $given->('spin', \&DMI::Values::spin),
    DMI_SURVIVE => $opt->{survive} ? 1 : undef,
    DMI_EVENTS_FILE => $given->('events', sub { DMI::Values::full_path('--events', @_) }),
    DMI_PROFILE => $given->('profile', sub { DMI::Values::full_path('--profile', @_) }),
    DMI_TRUST_REFUSED => $opt->{'trust-refused'} ? 1 : undef,
    DMI_DEAD_AFTER => $given->('dead-after', sub { DMI::Values::seconds_or_never('--dead-after', @_) }),
  );
  $env{$_} = $replaced{$_} for grep { defined $replaced{$_} } keys %replaced;
  return \%env;
}

# Puts them into our own environment.
sub apply {
  my ($env) = @_;
  for my $name (keys %$env) {
    if (defined $env->{$name}) { $ENV{$name} = $env->{$name} }
    else { delete $ENV{$name} }
  }
  return;
}

1;
