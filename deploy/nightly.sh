#!/bin/sh
# Continues the newest job below RESULTS if it isn't finished, and then makes that of today.
# usage: nightly.sh RESULTS CONFIG [FLAG...]
set -eu

results=${1:?usage: nightly.sh RESULTS CONFIG [FLAG...]}
config=${2:?usage: nightly.sh RESULTS CONFIG [FLAG...]}
shift 2

today=$results/$(date -u +%F)
newest=
for output in "$results"/[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]; do
    # A job that could not start, because the disk was full, has left a directory without options.
    if [ -e "$output/_headgate/job.json" ]; then
        newest=$output
    fi
done
if [ -n "$newest" ]; then
    code=0
    headgate status "$newest" >/dev/null || code=$?
    if [ "$code" = 6 ] && [ "$newest" != "$today" ]; then # to be continued
        code=0
        headgate fetch --config "$config" -o "$newest" "$@" || code=$?
    fi
    case $code in
        0 | 3 | 6) ;; # finished, or that of today
        5) echo "$newest is running" >&2 && exit 0 ;;
        *) exit "$code" ;;
    esac
fi
exec headgate fetch --config "$config" -o "$today" "$@"
