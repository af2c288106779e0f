//! The defaults of options, which their entries, the engine and all interfaces use.

use std::time::Duration;

pub(crate) const DEFAULT_CONCURRENCY: usize = 256;
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);
pub(crate) const DEFAULT_MAX_BODY_SIZE: u64 = 16 * 1024 * 1024;
/// The maximum number of redirects of a row; browsers follow 20, and curl with `--location` follows 50 by default.
pub(crate) const DEFAULT_MAX_REDIRECTS: u32 = 10;
/// Requests on one HTTP/2 connection at once; what servers allow by default is 100 to 250.
pub(crate) const DEFAULT_HTTP2_STREAMS: u32 = 100;
/// Bytes after which a part is closed and the next one begun.
pub(crate) const DEFAULT_PART_SIZE: u64 = 128 * 1024 * 1024;
/// Time after which results are committed, and so what a crash can cost. In a long run without this option, it grows.
pub const DEFAULT_COMMIT_INTERVAL: Duration = Duration::from_secs(10);
/// Rows between the oldest that is not done and the newest that was read: 512 KiB of memory, a bit for each.
pub(crate) const DEFAULT_READ_AHEAD: u64 = 4_000_000;
/// Statuses that say "not now", after which a row is worth another try (RFC 9110 section 15, RFC 6585, RFC 8470).
pub(crate) const DEFAULT_FAIL_ON: &str = "unauthorized,408,425,429,5xx";
/// How long fetching a token may fail before the job stops.
pub(crate) const DEFAULT_TOKEN_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const DEFAULT_URL_COLUMN: &str = "url";
pub const DEFAULT_USER_AGENT: &str = concat!("headgate/", env!("CARGO_PKG_VERSION"));
/// The bound of a page of a Parquet file; writers make pages of about a megabyte.
pub(crate) const DEFAULT_MAX_PAGE_SIZE: u64 = 128 * 1024 * 1024;
pub(crate) const DEFAULT_RETRIES: u16 = 3;
/// The failures that may be temporary. A hostname that does not exist and a refused certificate are not among them.
pub(crate) const DEFAULT_RETRY_ON: &str = "connect,dns,proxy,connection_closed,timeout,408,425,429,500,502,503,504";
pub(crate) const DEFAULT_RETRY_DELAY: Duration = Duration::from_millis(500);
pub(crate) const DEFAULT_RETRY_MAX_DELAY: Duration = Duration::from_secs(60);
pub(crate) const DEFAULT_RETRY_MAX_PAUSE: Duration = Duration::from_secs(3600);
pub(crate) const DEFAULT_HOST_DOWN_AFTER: Duration = Duration::from_secs(900);
/// The default for a host that has never responded.
pub(crate) const DEFAULT_HOST_NEVER_UP_AFTER: Duration = Duration::from_secs(30);
pub(crate) const DEFAULT_NETWORK_DOWN_AFTER: Duration = Duration::from_secs(300);
/// The default if no host has ever responded.
pub(crate) const DEFAULT_NETWORK_NEVER_UP_AFTER: Duration = Duration::from_secs(30);
