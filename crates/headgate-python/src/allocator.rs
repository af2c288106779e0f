//! The allocator of this module on Linux. Python and other libraries keep their own allocators.
//!
//! A new connection allocates about thirty blocks of many sizes. The allocator of glibc takes three times as long for them,
//! and does not return the memory of freed bodies to the system.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc returns freed pages to the system after a second, and a freed block of at least 1 MiB at once. Its defaults are
/// 10 s and 8 MiB. With 200 bodies of 15 MiB at a time, the peak was 450 MB with the defaults, and is 310 MB with these.
///
/// `_RJEM_MALLOC_CONF` in the environment takes precedence.
#[expect(unsafe_code, reason = "jemalloc finds its settings by this name, which nothing else has")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static SETTINGS: &[u8; 64] = b"dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:1048576\0";
