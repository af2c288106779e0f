"""Flags that users of other programs type first: each is accepted, or refused with the flag that headgate has."""

import pytest

from headgate.cli import _foreign
from headgate.cli._fetch_flags import parser
from support import command

ACCEPTED = "accepted"
OTHERS = "other programs"

NAMES = [
    ("curl", "-X", ACCEPTED),
    ("curl", "-H", ACCEPTED),
    ("curl", "-d", ACCEPTED),
    ("curl", "--data-urlencode", ACCEPTED),
    ("curl", "--json", ACCEPTED),
    ("curl", "-F", ACCEPTED),
    ("curl", "-u", ACCEPTED),
    ("curl", "-o", ACCEPTED),
    ("curl", "-x", ACCEPTED),
    ("curl", "-L", ACCEPTED),
    ("curl", "--no-location", ACCEPTED),
    ("curl", "-r", ACCEPTED),
    ("curl", "-k", ACCEPTED),
    ("curl", "--cacert", ACCEPTED),
    ("curl", "--connect-timeout", ACCEPTED),
    ("curl", "--retry-delay", ACCEPTED),
    ("curl", "--resolve", ACCEPTED),
    ("curl", "--rate", ACCEPTED),
    ("curl", "--interface", ACCEPTED),
    ("curl", "--http1.1", ACCEPTED),
    ("curl", "--user-agent", ACCEPTED),
    ("curl", "--max-time", "--timeout"),
    ("curl", "-m", "--timeout"),
    ("curl", "--retry", "--retries"),
    ("curl", "--retry-max-time", "--total-timeout"),
    ("curl", "--retry-all-errors", "--retry-on"),
    ("curl", "-s", "-q"),
    ("curl", "-f", "--fail-on"),
    ("curl", "-G", "--url"),
    ("curl", "-I", "-X"),
    ("curl", "-A", "--user-agent"),
    ("curl", "-e", "-H"),
    ("curl", "-b", "-H"),
    ("curl", "--cookie-jar", "--redirect-cookies"),
    ("curl", "--location-trusted", "--credentials-for"),
    ("curl", "--max-filesize", "--max-body-size"),
    ("curl", "--max-redirs", "--max-redirects"),
    ("curl", "--limit-rate", "--rate"),
    ("curl", "--parallel-max", "-c"),
    ("curl", "--oauth2-bearer", "--bearer"),
    ("curl", "--data-binary", "-d"),
    ("wget", "--timeout", ACCEPTED),
    ("wget", "--header", ACCEPTED),
    ("wget", "-q", ACCEPTED),
    ("wget", "--tries", "--retries"),
    ("wget", "-t", "--retries"),
    ("wget", "-T", "--timeout"),
    ("wget", "-O", "-o"),
    ("wget", "--wait", "--rate"),
    ("wget", "-w", "--rate"),
    ("wget", "--waitretry", "--retry-max-delay"),
    ("wget", "--read-timeout", "--idle-timeout"),
    ("wget", "--no-clobber", "--if-exists"),
    ("wget", "-nc", "--if-exists"),
    ("wget", "--no-check-certificate", "--insecure"),
    ("wget", "--post-data", "-d"),
    ("wget", "--spider", "-X"),
    ("wget", "--max-redirect", "--max-redirects"),
    ("k6", "--quiet", ACCEPTED),
    ("k6", "--vus", "-c"),
    ("k6", "--rps", "--rate"),
    ("k6", "--out", "-o"),
    ("k6", "--batch-per-host", "--concurrency-per-host"),
    ("k6", "--insecure-skip-tls-verify", "--insecure"),
    ("k6", "--discard-response-bodies", "--no-body"),
    ("k6", "--summary-export", "--summary"),
    ("curl", "--output-dir", "-o"),
    ("curl", "--parallel", "-c"),
    ("curl", "-Z", "-c"),
    ("curl", "--silent", "-q"),
    ("curl", "--clobber", "--if-exists"),
    ("wget", "--continue", "--if-exists"),
    ("aria2", "--allow-overwrite", "--if-exists"),
    ("wrk", "--threads", ACCEPTED),
    (OTHERS, "--resume", "--if-exists"),
    (OTHERS, "--overwrite", "--if-exists"),
    (OTHERS, "--force", "--if-exists"),
    (OTHERS, "--limit", "--max-rows"),
    (OTHERS, "--limit", "--concurrency"),
    (OTHERS, "--workers", "-c"),
    (OTHERS, "--max-retries", "--retries"),
    (OTHERS, "--qps", "--rate"),
    (OTHERS, "--rate-limit", "--rate"),
    (OTHERS, "--token", "--bearer"),
    (OTHERS, "--no-verify", "--insecure"),
]
"""A program, a flag of it, and whether it is accepted or a flag that the message must have."""

IN_WORDS = [
    ("k6", "--iterations", "a range in the URL"),
    ("k6", "--duration", "Ctrl-C"),
    ("wget", "--quota", "not supported"),
    ("curl", "--compressed", "not needed"),
    ("curl", "-v", "headgate plan"),
    (OTHERS, "--dry-run", "headgate plan"),
    (OTHERS, "--urls", "INPUT"),
    (OTHERS, "--ignore-errors", "not needed"),
]
"""Flags that need none here, or that are not supported, with words of the message."""


def test_there_are_at_least_40_names_of_flags_and_no_flag_of_a_program_twice() -> None:
    assert len(NAMES) >= 40
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(("program", "name", "expected"), NAMES)
def test_a_flag_of_another_program_is_accepted_or_its_error_names_ours(program: str, name: str, expected: str) -> None:
    ours = {each for flag in parser().flags() for each in flag.names}
    assert (expected == ACCEPTED) == (name in ours)
    if expected != ACCEPTED:
        (message,) = command.mistakes("fetch", "u.txt", "-o", "r", name)
        assert message.startswith(f"unknown flag {name}: ")
        (advice,) = (part for part in message.partition(": ")[2].split("; ") if whose(program) in part)
        assert expected in command.flags_in(advice.partition(f" {name} is ")[2])


def whose(program: str) -> str:
    return f"{program}'" if program.endswith("s") else f"{program}'s"


@pytest.mark.parametrize(("program", "name", "words"), IN_WORDS)
def test_the_error_for_a_flag_that_needs_none_here_explains_it_in_words(program: str, name: str, words: str) -> None:
    (message,) = command.mistakes("fetch", "u.txt", "-o", "r", name)
    assert f"{whose(program)} {name} is " in message
    assert words in message


def test_every_flag_that_replaces_one_of_another_program_exists_and_none_of_those_does() -> None:
    ours = command.flags_of("fetch")
    assert set() == ours & set(_foreign.MEANINGS)
    meant = [what for meanings in _foreign.MEANINGS.values() for what in meanings.values()]
    named = {flag for what in meant for flag in command.flags_in(what)}
    assert len(named) > 10
    assert set() == named - ours
