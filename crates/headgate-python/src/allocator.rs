//! The allocator of the module on Linux. Python and other libraries keep theirs.
//!
//! A new connection allocates some thirty blocks of many sizes; glibc takes three times as long for them, and keeps the
//! memory of freed bodies in its heaps.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Freed pages return to the system after a second, and a block of at least 1 MiB at once. By default it is 10 s and 8 MiB:
/// measured with 200 bodies of 15 MiB at a time, the peak was 450 MB, and 310 MB with this.
///
/// `_RJEM_MALLOC_CONF` in the environment takes precedence.
#[expect(unsafe_code, reason = "jemalloc finds its settings by this name, which nothing else has")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static SETTINGS: &[u8; 64] = b"dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:1048576\0";
