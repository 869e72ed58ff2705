# FileLimit.pm - writing a file that is as large as ulimit -f allows fails, instead of ending the command by
# SIGXFSZ.  A program that is started has the signal as ever, as a handler does not go on to it.
package DMI::FileLimit;

use strict;
use warnings;

$SIG{XFSZ} ||= sub { };

1;
