"""Flags that users of other programs type first: each is accepted, or refused with the flag that headgate has."""

import pytest

from headgate.cli import _foreign
from headgate.cli._fetch_flags import parser
from support import command

ACCEPTED = "accepted"
OTHERS = "other programs"

NAMES = [
    ("curl", "-X", ACCEPTED),
    ("curl", "--request", ACCEPTED),
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
    ("curl", "--max-redirs", ACCEPTED),
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
    (OTHERS, "--api-key", "--bearer"),
    (OTHERS, "--api-key", "-H"),
    (OTHERS, "--params", "--url"),
    (OTHERS, "--query", "--url"),
    (OTHERS, "--json-path", "--extract"),
    (OTHERS, "--select", "--extract"),
    (OTHERS, "--log", "--log-file"),
    (OTHERS, "--id-column", "--keep"),
    (OTHERS, "--columns", "--keep"),
    (OTHERS, "--columns", "--drop"),
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
    (OTHERS, "--skip-empty", "fails as invalid_request"),
    (OTHERS, "--dedupe", "duplicates are separate rows"),
    (OTHERS, "--delimiter", ".tsv"),
    (OTHERS, "--sep", "commas"),
    (OTHERS, "--encoding", "UTF-8"),
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


@pytest.mark.parametrize("name", [*_foreign.MEANINGS])
def test_no_verb_suggests_a_flag_that_is_only_spelled_like_one_of_another_program(name: str) -> None:
    known = command.flags_of("plan")
    for verb in ("fetch u.txt -o r", "plan u.txt", "retry r", "set r"):
        if verb != "plan u.txt" or name not in known:
            assert not any("did you mean" in message for message in command.mistakes(*verb.split(), name))
    if name not in known:
        assert "did you mean -" not in "".join(command.mistakes("help", name, see="headgate --help"))


def test_a_verb_with_some_flags_of_fetch_recommends_only_those_that_it_has() -> None:
    why = "a retry sends the requests of its job, and writes the same columns"
    assert ["unknown flag --qps: other programs' --qps is --rate here"] == command.mistakes("retry", "r", "--qps")
    assert [f"unknown flag --query: {why}"] == command.mistakes("retry", "r", "--query")
    assert [f"unknown flag --format: it belongs to headgate fetch; {why}"] == command.mistakes("retry", "r", "--format")
    settable = "it belongs to headgate fetch; a running job can't change it"
    assert [f"unknown flag --timeout: {settable}"] == command.mistakes("set", "r", "--timeout", "5s")[:1]


def test_every_flag_that_replaces_one_of_another_program_exists_and_none_of_those_does() -> None:
    ours = command.flags_of("fetch")
    assert set() == ours & set(_foreign.MEANINGS)
    meant = [what for meanings in _foreign.MEANINGS.values() for what in meanings.values()]
    named = {flag for what in meant for flag in command.flags_in(what)}
    assert len(named) > 10
    assert set() == named - ours
