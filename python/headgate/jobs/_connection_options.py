"""The options that say how servers are reached: names and addresses, proxies, TLS, the version of HTTP."""

from collections.abc import Iterable
from typing import Annotated, Literal, TypedDict

from headgate.jobs._option_entry import JobOption, StrPath


class TlsOptions(TypedDict, total=False):
    """Whom we trust, and what we show."""

    cacert: Annotated[
        StrPath | None,
        JobOption(
            help="PEM file with the only certificates to trust.",
            default=None,
            default_means="the system's, and Mozilla's",
            given_as="path",
            group="connections",
            metavar="FILE",
        ),
    ]
    insecure: Annotated[
        bool,
        JobOption(
            help="Don't verify certificates: anyone on the network path can read and change everything.",
            default=False,
            group="connections",
            flags=("-k", "--insecure"),
        ),
    ]
    cert: Annotated[
        StrPath | None,
        JobOption(
            help="PEM file with the client certificate to show to servers that ask for one, and its chain.",
            default=None,
            given_as="path",
            group="connections",
            flags=("-E", "--cert"),
            metavar="FILE",
        ),
    ]
    key: Annotated[
        StrPath | None,
        JobOption(
            help="PEM file with the private key of the client certificate.",
            default=None,
            default_means="the file of the certificate",
            given_as="path",
            group="connections",
            metavar="FILE",
        ),
    ]
    tls_min: Annotated[
        Literal["1.2", "1.3"],
        JobOption(
            help="The oldest version of TLS to accept, 1.2 or 1.3.",
            default="1.2",
            group="connections",
            metavar="VERSION",
        ),
    ]
    sni: Annotated[
        str | None,
        JobOption(
            help="Server name for TLS: it is sent to every server, and certificates must be for it.",
            default=None,
            default_means="the host of the URL",
            group="connections",
            metavar="NAME",
            typed="server name for TLS, which certificates must be for",
        ),
    ]


class AddressOptions(TypedDict, total=False):
    """Where connections lead, and where they come from."""

    dns: Annotated[
        str | None,
        JobOption(
            help=(
                'The name server to ask for addresses, such as `"9.9.9.9"` or `"127.0.0.1:5353"`; with `"system"`, the'
                " system looks names up, with all its sources."
            ),
            default=None,
            default_means="the configured name servers",
            group="connections",
            metavar="SERVER",
            typed="ask this name server (IP or IP:PORT), or let the system look names up (system)",
        ),
    ]
    resolve: Annotated[
        str | Iterable[str],
        JobOption(
            help=(
                'Addresses for a host and port, in place of those that its name has, as curl writes them: `"HOST:PORT:'
                'ADDRESS"`, with several addresses separated by commas, and `*` for any host.'
            ),
            default=(),
            given_as="texts",
            group="connections",
            metavar="HOST:PORT:ADDRESS",
            typed="connect to this address for this host and port; can be repeated",
        ),
    ]
    ipv4: Annotated[
        bool,
        JobOption(
            help="Use IPv4 addresses only.",
            default=False,
            group="connections",
            flags=("-4", "--ipv4"),
        ),
    ]
    ipv6: Annotated[
        bool,
        JobOption(
            help="Use IPv6 addresses only.",
            default=False,
            group="connections",
            flags=("-6", "--ipv6"),
        ),
    ]
    local_address: Annotated[
        str | Iterable[str],
        JobOption(
            help=(
                "Local IP addresses to connect from, used in turn. Each has its own range of ports, so with several"
                " of them, more connections to one address are possible."
            ),
            default=(),
            given_as="texts",
            group="connections",
            metavar="ADDRESS",
            typed="connect from this local IP address; if repeated, the addresses are used in turn",
        ),
    ]
    interface: Annotated[
        str | None,
        JobOption(
            help="Network interface to connect through, such as `eth1`.",
            default=None,
            group="connections",
            metavar="NAME",
        ),
    ]


class NetworkOptions(TypedDict, total=False):
    """Which addresses may be connected to."""

    network: Annotated[
        Literal["any", "public"],
        JobOption(
            help=(
                'Which addresses may be connected to. `"public"` refuses all that are not public: loopback, private,'
                ' link-local, multicast, reserved. `"any"` refuses link-local addresses and metadata services of'
                " clouds, unless the URL of the command line or a `base_url` has one for its host, and redirects from a"
                " public address to one that is not."
            ),
            default="any",
            group="connections",
            metavar="WHICH",
            typed="which addresses may be connected to, any (but link-local ones) or public",
            of_job=True,
        ),
    ]
    allow_net: Annotated[
        str | Iterable[str],
        JobOption(
            help='Networks, or addresses, that may be connected to although they are not public: `"10.0.0.0/8"`.',
            default=(),
            given_as="texts",
            group="connections",
            metavar="CIDR",
            typed="allow connections to this network, whatever it is; can be repeated",
            of_job=True,
        ),
    ]
    deny_net: Annotated[
        str | Iterable[str],
        JobOption(
            help="Networks, or addresses, that may not be connected to, also where `allow_net` has them.",
            default=(),
            given_as="texts",
            group="connections",
            metavar="CIDR",
            typed="refuse connections to this network, whatever allows it; can be repeated",
            of_job=True,
        ),
    ]
    allow_port: Annotated[
        int | str | Iterable[int | str],
        JobOption(
            help="The only ports that may be connected to.",
            default=(),
            default_means="all",
            given_as="ports",
            group="connections",
            metavar="PORT",
            typed="allow connections to this port, and to no others; can be repeated",
            of_job=True,
        ),
    ]
    trust_proxy: Annotated[
        bool,
        JobOption(
            help='Leave it to proxies what they connect to, also with `network="public"`.',
            default=False,
            group="connections",
            typed="leave it to proxies what they connect to, also with --network public",
        ),
    ]


class ProxyOptions(TypedDict, total=False):
    """Through whom servers are reached."""

    proxy: Annotated[
        StrPath | Iterable[str],
        JobOption(
            help=(
                "Proxies, used in turn: URLs with `http://`, `https://` or `socks5h://`, with `user:password@` if"
                ' needed; or the path of a file with one on each line. With `"env"`, those that the environment'
                " variables `http_proxy`, `https_proxy` and `all_proxy` name, except for hosts in `no_proxy`."
            ),
            default=(),
            default_means="none; environment variables are ignored",
            given_as="proxies",
            secret=True,
            group="connections",
            flags=("-x", "--proxy"),
            metavar="URL",
            typed="use this proxy, those in @FILE, or those of the environment (env); can be repeated",
        ),
    ]


class VersionOptions(TypedDict, total=False):
    """Which version of HTTP is spoken."""

    http1_1: Annotated[
        bool,
        JobOption(
            help="Use HTTP/1.1 only, also where a server offers HTTP/2.",
            default=False,
            group="connections",
            flags=("--http1.1",),
        ),
    ]
    http2_prior_knowledge: Annotated[
        bool,
        JobOption(
            help="Use HTTP/2 without asking whether the server supports it, also without TLS, until it wants HTTP/1.1.",
            default=False,
            group="connections",
        ),
    ]
    http2_streams: Annotated[
        int,
        JobOption(
            help="Most requests at once on one HTTP/2 connection; a server may allow fewer.",
            default=100,
            group="connections",
            metavar="N",
        ),
    ]


class PoolOptions(TypedDict, total=False):
    """How many connections stay open for the next request."""

    max_idle_connections: Annotated[
        int | None,
        JobOption(
            help=(
                "Most idle connections that are kept open for later requests, over all hosts. They take no more files"
                " than connections in use leave, and hold no more memory than a quarter of `max_memory_bytes`,"
                " beside it."
            ),
            default=None,
            default_means="ten times the concurrency, within half of the files that the process can open",
            group="connections",
            metavar="N",
            typed="most idle connections that are kept open for later requests, over all hosts",
        ),
    ]
    max_connections_per_host: Annotated[
        int | None,
        JobOption(
            help=(
                "Most connections to each host over HTTP/1.1, busy and idle, and most requests in flight to it. Over"
                " HTTP/2, only the requests are bounded."
            ),
            default=None,
            default_means="`concurrency_per_host`, or else `concurrency`",
            group="connections",
            metavar="N",
        ),
    ]


class ConnectionOptions(
    TlsOptions, AddressOptions, NetworkOptions, ProxyOptions, VersionOptions, PoolOptions, total=False
):
    """How servers are reached; a retry has these options, too."""
