package Report;

# Report - prints what a run of the bench has found: the contents of bench.json, as text for the
# terminal or as markdown for docs/performance.md.
use strict;
use warnings;

use JSON::PP ();

# Four digits, without an exponent; '-' for what was not measured.
sub digits {
  my ($value) = @_;
  return '-' if !defined $value;
  my $text = sprintf '%.4g', $value;
  return $text =~ /e/ ? sprintf '%.0f', $value : $text;
}

sub ratio { return defined $_[0] ? sprintf '%.2f', $_[0] : '-' }

# `met`, `MISSED`, or nothing where there is no target.
sub verdict { return defined $_[0] ? $_[0] ? 'met' : 'MISSED' : '' }

sub range { return digits($_[0]{min}) . ' - ' . digits($_[0]{max}) }

# Figures that are no row of a table but stand beside it: limits, and parts of rows.
sub others {
  my ($all) = @_;
  my %shown = map { $_ => 1 } map { ($_->{key}, $_->{mpi_key} // ()) } @{ $all->{results} },
    @{ $all->{mpi_results} };
  return grep { !$shown{$_} } sort keys %{ $all->{figures} };
}

sub mpi_title {
  my ($all) = @_;
  return "Open MPI $all->{mpi} on the same cores, over TCP if not said otherwise";
}

# ---- Text
# ----------------------------------------------------------------------------------------

sub text {
  my ($all)  = @_;
  my $format = "%-35s %9s %-4s  %-19s  %7s  %-32s %s\n";
  my $text   = sprintf "\n$format", 'what', 'value', '', 'min - max', 'ratio', 'target', '';
  for my $r (@{ $all->{results} }) {
    $text .= sprintf $format, $r->{what}, digits($r->{value}), $r->{unit}, range($r),
      ratio($r->{ratio}), $r->{target}, verdict($r->{met});
  }
  $text .= text_mpi($all) if $all->{mpi};
  $text .= "\nbeside:\n";
  for my $key (others($all)) {
    my $figure = $all->{figures}{$key};
    $text .= sprintf "%-33s %9s %-4s  %s\n", $key, digits($figure->{median}), $figure->{unit},
      range($figure);
  }
  return "$text\n";
}

sub text_mpi {
  my ($all)  = @_;
  my $format = "%-37s %-26s %8s %8s %-4s  %7s  %-8s %s\n";
  my $text   = "\nbeside " . mpi_title($all) . ":\n" . sprintf $format, 'what', 'call of MPI',
    'DMI', 'MPI', '', 'DMI/MPI', 'target', '';
  for my $r (@{ $all->{mpi_results} }) {
    $text .= sprintf $format, $r->{what}, $r->{call}, digits($r->{value}), digits($r->{mpi_value}),
      $r->{unit}, ratio($r->{ratio}), $r->{target} // '', verdict($r->{met});
  }
  return $text;
}

# ---- Markdown
# -----------------------------------------------------------------------------------

sub table_line { return '| ' . join(' | ', @_) . " |\n" }

sub markdown {
  my ($all) = @_;
  my $load  = $all->{load};
  my $text  = sprintf "Taken %s: %d cores (%s), Linux %s, %s; load average before the run %.1f%s.\n\n",
    $all->{time}, $all->{cores}, $all->{processor}, $all->{kernel},
    $all->{rounds} == 1 ? '1 round' : "$all->{rounds} rounds", $load,
    $load > 0.5 ? ', **so on a machine that had other work**: what these figures show is the form of the table' : '';
  $text .= table_line('what', 'value', 'smallest - largest', 'ratio', 'target', '');
  $text .= "|---|---|---|---|---|---|\n";
  for my $r (@{ $all->{results} }) {
    $text .= table_line($r->{what} =~ s/^\s+/… /r, digits($r->{value}) . " $r->{unit}", range($r),
      ratio($r->{ratio}), $r->{target}, verdict($r->{met}));
  }
  $text .= markdown_mpi($all) if $all->{mpi};
  $text .= "\nBeside, for comparison:\n\n";
  $text .= table_line('figure', 'value', 'smallest - largest') . "|---|---|---|\n";
  for my $key (others($all)) {
    my $figure = $all->{figures}{$key};
    $text .= table_line("`$key`", digits($figure->{median}) . " $figure->{unit}", range($figure));
  }
  return $text;
}

sub markdown_mpi {
  my ($all) = @_;
  my $text = "\nBeside " . mpi_title($all) . ":\n\n";
  $text .= table_line('what', 'call of MPI', 'DMI', 'MPI', 'DMI/MPI', 'target', '');
  $text .= "|---|---|---|---|---|---|---|\n";
  for my $r (@{ $all->{mpi_results} }) {
    $text .= table_line($r->{what}, $r->{call}, map({ digits($_) . " $r->{unit}" } $r->{value},
      $r->{mpi_value}), ratio($r->{ratio}), $r->{target} // '', verdict($r->{met}));
  }
  return $text;
}

# ---- Files
# --------------------------------------------------------------------------------------

sub write_json {
  my ($all, $path) = @_;
  open my $file, '>', $path or die "$path: $!\n";
  print {$file} JSON::PP->new->canonical->pretty->encode($all);
  close $file or die "$path: $!\n";
  return;
}

sub read_whole {
  my ($path) = @_;
  open my $file, '<', $path or die "$path: $!\n";
  local $/ = undef;
  return scalar <$file>;
}

sub read_json { return JSON::PP->new->decode(read_whole($_[0])) }

# Puts the tables into a text, between two lines that stay: <!-- figures --> and <!-- end -->.
sub refresh {
  my ($path, $markdown) = @_;
  my $text = read_whole($path);
  $text =~ s{^(<!-- figures -->\n).*?^(<!-- end -->)$}{$1\n$markdown\n$2}ms
    or die "$path: there is no <!-- figures --> with an <!-- end --> after it\n";
  open my $file, '>', $path or die "$path: $!\n";
  print {$file} $text;
  close $file or die "$path: $!\n";
  return;
}

1;
