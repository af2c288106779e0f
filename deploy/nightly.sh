#!/bin/sh
# Continues the newest job below RESULTS if it isn't finished, and otherwise starts that of today.
# usage: nightly.sh RESULTS CONFIG [FLAG...]
set -eu

results=${1:?usage: nightly.sh RESULTS CONFIG [FLAG...]}
config=${2:?usage: nightly.sh RESULTS CONFIG [FLAG...]}
shift 2

output=$results/$(date -u +%F)
newest=$(find "$results" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*-[0-9]*-[0-9]*' | sort | tail -n 1)
if [ -n "$newest" ]; then
    code=0
    headgate status "$newest" >/dev/null || code=$?
    case $code in
        0 | 3) ;; # finished
        5) echo "$newest is running" >&2 && exit 0 ;;
        6) output=$newest ;;
        *) exit "$code" ;; # damaged: somebody must look
    esac
fi
exec headgate fetch --config "$config" -o "$output" "$@"
